"""Shared and KeyShared subscriptions: consumers take turns, or have one key each, in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest

from sulina import Client, FailurePolicy, Message, Refused
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

TOPIC = "/default/keyed"
QUICK = FailurePolicy(base_redelivery_delay_ms=1, max_redelivery_delay_ms=50)


def keys_for(count: int, different: int) -> list[str]:
    return [f"key-{number % different}" for number in range(count)]


def by_key(messages: Iterable[Message]) -> dict[bytes | None, list[int]]:
    found: dict[bytes | None, list[int]] = defaultdict(list)
    for message in messages:
        found[message.key].append(int(message.payload))
    return found


async def test_records_without_a_key_go_by_their_producer(client: Client) -> None:
    async with consumers(client, TOPIC, "s", 3, type="key_shared") as group:
        for name in ("north", "south", "east", "west"):
            await publish(client, TOPIC, numbered(10), name=name)
        taken = await take_all(group, 40)
        for mine in taken:
            for name in {message.producer for message in mine}:
                theirs = [message for message in mine if message.producer == name]
                assert bodies(theirs) == numbered(10)


async def test_a_new_consumer_gets_a_key_only_when_its_former_owner_is_done_with_it(
    client: Client,
) -> None:
    keys = keys_for(40, 20)
    async with client.consumer(TOPIC, "s", type="key_shared") as first:
        await publish(client, TOPIC, numbered(40), keys=keys)
        held = await take(first, 40)
        async with client.consumer(TOPIC, "s", type="key_shared") as second:
            await publish(client, TOPIC, numbered(40, first=40), keys=keys)
            # The keys that stayed with the first consumer go on; the others are held back.
            staying = (await look(client, TOPIC, "s"))["consumers"][0]["sent"] - 40
            mine = await take(first, staying)
            assert (await look(client, TOPIC, "s"))["consumers"][1]["sent"] == 0
            await ack_all(first, held)
            theirs = await take(second, 40 - staying)
            assert not by_key(mine).keys() & by_key(theirs).keys()
            for numbers in (*by_key(mine).values(), *by_key(theirs).values()):
                assert numbers == sorted(numbers)


async def test_the_keys_of_a_consumer_that_leaves_go_to_the_others_in_order(
    client: Client,
) -> None:
    keys = keys_for(60, 12)
    async with consumers(client, TOPIC, "s", 3, type="key_shared") as group:
        await publish(client, TOPIC, numbered(60), keys=keys)
        taken = await take_all(group, 60)
        first, *others = group
        lost = by_key(taken[0])
        await first.close()
        again = [message for mine in await take_all(others, len(taken[0])) for message in mine]
        assert by_key(again) == lost


async def test_a_record_that_comes_again_holds_back_its_key_and_no_other(
    client: Client,
) -> None:
    policy = FailurePolicy(max_redelivery_delay_ms=3_600_000)
    async with client.consumer(TOPIC, "s", type="key_shared", failure_policy=policy) as consumer:
        await publish(client, TOPIC, [b"0"], keys=["a"])
        (failing,) = await take(consumer, 1)
        await consumer.nack(failing, delay_ms=3_600_000)
        await publish(client, TOPIC, numbered(6, first=1), keys=["a", "b", "a", "c", "a", "b"])
        assert by_key(await take(consumer, 3)) == {b"b": [2, 6], b"c": [4]}
        assert (await look(client, TOPIC, "s"))["counters"]["delivered"] == 4


async def test_a_record_that_comes_again_comes_before_later_ones_of_its_key(
    client: Client,
) -> None:
    async with client.consumer(TOPIC, "s", type="key_shared", failure_policy=QUICK) as consumer:
        await publish(client, TOPIC, [b"0"], keys=["a"])
        (failing,) = await take(consumer, 1)
        await consumer.nack(failing)
        await publish(client, TOPIC, numbered(5, first=1), keys=["a", "b", "a", "c", "a"])
        assert by_key(await take(consumer, 6))[b"a"] == [0, 1, 3, 5]


async def test_order_holds_for_every_key_while_consumers_come_and_go(client: Client) -> None:
    keys = keys_for(300, 15)
    await subscribe(client, TOPIC, "s", type="key_shared")
    await publish(client, TOPIC, numbered(300), keys=keys)
    finished: dict[bytes | None, list[int]] = defaultdict(list)
    done = 0
    while done < 300:
        async with consumers(
            client, TOPIC, "s", 1 + done % 3, type="key_shared", queue_records=30
        ) as group:
            for consumer, mine in zip(group, await take_all(group, 20), strict=True):
                # Some are never acknowledged: they are redelivered before what follows them.
                for key, numbers in by_key(mine).items():
                    kept = numbers[: len(numbers) // 2 + 1]
                    finished[key] += kept
                    done += len(kept)
                    await ack_all(consumer, [m for m in mine if int(m.payload) in kept])
    assert sorted(n for numbers in finished.values() for n in numbers) == list(range(300))
    for numbers in finished.values():
        assert numbers == sorted(numbers)


# ---- key filters ----


async def test_a_consumer_with_filters_receives_only_keys_that_match(client: Client) -> None:
    async with (
        client.consumer(TOPIC, "s", type="key_shared", key_filters=["eu-*"]) as europe,
        client.consumer(TOPIC, "s", type="key_shared", key_filters=["us-*", "ca-?"]) as america,
    ):
        keys = ["eu-1", "us-1", "ca-1", "eu-2", "us-22", "ca-2"]
        await publish(client, TOPIC, numbered(6), keys=keys)
        assert {m.key for m in await take(europe, 2)} == {b"eu-1", b"eu-2"}
        assert {m.key for m in await take(america, 4)} == {b"us-1", b"ca-1", b"us-22", b"ca-2"}


async def test_records_whose_key_nobody_wants_wait_for_somebody_who_does(client: Client) -> None:
    async with client.consumer(TOPIC, "s", type="key_shared", key_filters=["a*"]) as some:
        await publish(client, TOPIC, numbered(4), keys=["a1", "b1", "a2", "b2"])
        await ack_all(some, await take(some, 2))
        assert (await look(client, TOPIC, "s"))["position"] == 1
        async with client.consumer(TOPIC, "s", type="key_shared") as rest:
            messages = await take(rest, 2)
            assert [message.key for message in messages] == [b"b1", b"b2"]
            await ack_all(rest, messages)
    assert (await look(client, TOPIC, "s"))["backlog"] == 0


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


async def test_filters_need_a_key_shared_subscription(client: Client) -> None:
    with pytest.raises(Refused, match="key filters need a key_shared subscription"):
        await client.consumer(TOPIC, "s", type="shared", key_filters=["a*"]).open()


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
