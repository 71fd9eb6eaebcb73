"""Shared and KeyShared subscriptions: consumers take turns, or have one key each, in order."""

from __future__ import annotations

from sulina import Client, FailurePolicy
from tests.broker.actions import (
    ack_all,
    bodies,
    consumers,
    numbered,
    publish,
    take,
    take_all,
)
from tests.broker.proxy import Proxy

TOPIC = "/default/keyed"
QUICK = FailurePolicy(base_redelivery_delay_ms=1, max_redelivery_delay_ms=50)


def keys_for(count: int, different: int) -> list[str]:
    return [f"key-{number % different}" for number in range(count)]


async def test_records_without_a_key_go_by_their_producer(client: Client) -> None:
    async with consumers(client, TOPIC, "s", 3, type="key_shared") as group:
        for name in ("north", "south", "east", "west"):
            await publish(client, TOPIC, numbered(10), name=name)
        taken = await take_all(group, 40)
        for mine in taken:
            for name in {message.producer for message in mine}:
                theirs = [message for message in mine if message.producer == name]
                assert bodies(theirs) == numbered(10)


# ---- key filters ----


async def test_filters_work_within_one_batch(client: Client) -> None:
    async with (
        client.consumer(TOPIC, "s", type="key_shared", key_filters=["even"]) as even,
        client.consumer(TOPIC, "s", type="key_shared", key_filters=["odd"]) as odd,
    ):
        async with client.producer(TOPIC, compression="zstd") as producer:
            keys = ["odd" if number % 2 else "even" for number in range(100)]
            await producer.send_many(numbered(100), keys=keys)
        assert [int(m.payload) for m in await take(even, 50)] == list(range(0, 100, 2))
        assert [int(m.payload) for m in await take(odd, 50)] == list(range(1, 100, 2))


async def test_filters_that_come_late_do_not_lose_what_others_have_in_hand(
    client: Client,
) -> None:
    async with client.consumer(TOPIC, "s", type="key_shared") as first:
        await publish(client, TOPIC, numbered(10), keys=keys_for(10, 5))
        held = await take(first, 10)
        async with client.consumer(TOPIC, "s", type="key_shared", key_filters=["new-*"]) as late:
            await publish(client, TOPIC, numbered(4, first=10), keys=["new-1"] * 4)
            await ack_all(first, held)
            taken = await take_all([first, late], 4)
            news = [message for mine in taken for message in mine if message.key == b"new-1"]
            assert [int(message.payload) for message in news] == [10, 11, 12, 13]


async def test_what_is_on_its_way_to_a_lost_connection_goes_to_the_others(
    client: Client, remote: Client, proxy: Proxy
) -> None:
    async with client.consumer(TOPIC, "s", type="shared") as stays:
        goes = await remote.consumer(TOPIC, "s", type="shared").open()
        await publish(client, TOPIC, numbered(20))
        lost, kept = await take_all([goes, stays], 20)
        proxy.cut_and_refuse()
        again = await take(stays, 10)
        assert sorted(bodies(again)) == sorted(bodies(lost))
        assert not set(bodies(again)) & set(bodies(kept))
