"""Shared subscriptions: consumers take turns, come and go, and never wait for each other."""

from __future__ import annotations

import pytest

from sulina import Client, Refused
from tests.broker.actions import (
    ack_all,
    bodies,
    consumers,
    look,
    numbered,
    publish,
    subscribe,
    take,
    take_all,
)
from tests.broker.proxy import Proxy

TOPIC = "/default/shared"


async def test_consumers_take_turns(client: Client) -> None:
    async with consumers(client, TOPIC, "s", 3, type="shared") as group:
        await publish(client, TOPIC, numbered(30))
        taken = await take_all(group, 30)
        assert [len(mine) for mine in taken] == [10, 10, 10]


async def test_one_large_batch_is_cut_into_parts_for_consumers_that_wait(
    client: Client,
) -> None:
    async with consumers(client, TOPIC, "s", 4, type="shared") as group:
        async with client.producer(TOPIC) as producer:
            await producer.send_many(numbered(100))
        taken = await take_all(group, 100)
        assert all(10 <= len(mine) <= 50 for mine in taken)
        assert sorted(int(m.payload) for mine in taken for m in mine) == list(range(100))
        for consumer, mine in zip(group, taken, strict=True):
            await ack_all(consumer, mine)
        assert (await look(client, TOPIC, "s"))["backlog"] == 0


async def test_a_consumer_that_joins_gets_its_share_from_then_on(client: Client) -> None:
    async with client.consumer(TOPIC, "s", type="shared") as first:
        await publish(client, TOPIC, numbered(10))
        await take(first, 10)
        async with client.consumer(TOPIC, "s", type="shared") as second:
            await publish(client, TOPIC, numbered(10, first=10))
            taken = await take_all([first, second], 10)
            assert [len(mine) for mine in taken] == [5, 5]


async def test_what_a_consumer_leaves_behind_goes_to_the_others(client: Client) -> None:
    async with consumers(client, TOPIC, "s", 2, type="shared") as (first, second):
        await publish(client, TOPIC, numbered(20))
        mine, theirs = await take_all([first, second], 20)
        await ack_all(first, mine[:4])
        await first.close()
        again = await take(second, len(mine) - 4)
        assert sorted(bodies(again)) == sorted(bodies(mine[4:]))
        await ack_all(second, [*theirs, *again])
        assert (await look(client, TOPIC, "s"))["backlog"] == 0


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


async def test_a_consumer_that_takes_nothing_does_not_hold_up_the_others(client: Client) -> None:
    async with (
        client.consumer(TOPIC, "s", type="shared", queue_records=4) as stuck,
        client.consumer(TOPIC, "s", type="shared") as busy,
    ):
        await publish(client, TOPIC, numbered(100))
        messages = await take(busy, 96)
        await ack_all(busy, messages)
        found = await look(client, TOPIC, "s")
        sent = {each["name"]: each["sent"] for each in found["consumers"]}
        assert sent == {stuck.name: 4, busy.name: 96}


async def test_records_that_nobody_could_take_come_when_somebody_can(client: Client) -> None:
    await subscribe(client, TOPIC, "s", type="shared")
    await publish(client, TOPIC, numbered(50))
    async with consumers(client, TOPIC, "s", 2, type="shared", queue_records=5) as group:
        taken = await take_all(group, 50)
        assert sorted(int(m.payload) for mine in taken for m in mine) == list(range(50))


async def test_there_is_no_order_to_acknowledge_up_to(client: Client) -> None:
    async with client.consumer(TOPIC, "s", type="shared") as consumer:
        await publish(client, TOPIC, numbered(2))
        (message, _) = await take(consumer, 2)
        with pytest.raises(Refused, match="shared"):
            await consumer.ack_cumulative(message)


async def test_consumers_that_come_and_go_lose_nothing(
    client: Client, remote: Client, proxy: Proxy
) -> None:
    await subscribe(client, TOPIC, "s", type="shared")
    await publish(client, TOPIC, numbered(200))
    done: set[int] = set()
    async with consumers(remote, TOPIC, "s", 2, type="shared", queue_records=20) as group:
        for _ in range(6):
            for consumer in group:
                messages = await take(consumer, 10)
                await ack_all(consumer, messages[::2])
                done.update(int(message.payload) for message in messages[::2])
            proxy.cut()  # half of what was received is not acknowledged, and is redelivered
    async with client.consumer(TOPIC, "s", type="shared") as consumer:
        rest = await take(consumer, 200 - len(done))
        assert sorted([*done, *(int(message.payload) for message in rest)]) == list(range(200))
