"""The matrix: Reliable or NonReliable x plain or partitioned x each subscription type.

Every cell states what it promises about persistence, order and how often a record comes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest

from sulina import Client, Delivery, Message, Start, SubscriptionType
from tests.broker.actions import (
    ack_all,
    bodies,
    consumers,
    eventually,
    look,
    numbered,
    publish,
    subscribe,
    take,
    take_all,
)
from tests.broker.cluster import Cluster
from tests.broker.proxy import Proxy

TOPIC = "/default/matrix"
KEYS = [f"key-{number % 6}" for number in range(60)]

each_type = pytest.mark.parametrize("type_", list(SubscriptionType), ids=str)
each_layout = pytest.mark.parametrize("partitions", [0, 3], ids=["plain", "partitioned"])
each_delivery = pytest.mark.parametrize("delivery", list(Delivery), ids=str)
ordered_type = pytest.mark.parametrize(
    "type_", [SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER], ids=str
)


async def make_topic(client: Client, delivery: Delivery, partitions: int) -> None:
    arguments = {"topic": TOPIC, "delivery": delivery.value, "partitions": partitions}
    await client.admin("topic.create", arguments)


def parts(partitions: int) -> list[str]:
    return [f"{TOPIC}-part-{number}" for number in range(partitions)] or [TOPIC]


def by(label: str, messages: Iterable[Message]) -> dict[object, list[int]]:
    """The numbers in the payloads, in order of arrival, for each value of an attribute."""
    groups: dict[object, list[int]] = defaultdict(list)
    for message in messages:
        groups[getattr(message, label)].append(int(message.payload))
    return groups


# ---- what is published to a subscription that has consumers ----


@each_delivery
@each_layout
@each_type
async def test_every_record_comes_exactly_once_when_nothing_fails(
    client: Client, delivery: Delivery, partitions: int, type_: SubscriptionType
) -> None:
    await make_topic(client, delivery, partitions)
    count = 1 if type_ is SubscriptionType.EXCLUSIVE else 3
    async with consumers(client, TOPIC, "s", count, type=type_) as group:
        await publish(client, TOPIC, numbered(60), keys=KEYS)
        taken = await take_all(group, 60)
        everything = [message for mine in taken for message in mine]
        assert sorted(map(int, bodies(everything))) == list(range(60))
        assert all(message.attempt == 1 for message in everything)
        for part in parts(partitions):
            found = await look(client, part, "s")
            assert found["counters"]["delivered"] == len(by("topic", everything)[part])


@each_delivery
@ordered_type
async def test_one_consumer_at_a_time_gets_each_partition_in_order(
    client: Client, delivery: Delivery, type_: SubscriptionType
) -> None:
    await make_topic(client, delivery, 3)
    async with client.consumer(TOPIC, "s", type=type_) as consumer:
        await publish(client, TOPIC, numbered(60), keys=KEYS)
        messages = await take(consumer, 60)
    found = by("partition", messages)
    assert set(found) == {0, 1, 2}
    assert all(numbers == sorted(numbers) for numbers in found.values())
    assert sum(map(len, found.values())) == 60


@each_delivery
@each_layout
async def test_key_shared_keeps_the_order_of_each_key_and_its_consumer(
    client: Client, delivery: Delivery, partitions: int
) -> None:
    await make_topic(client, delivery, partitions)
    kind = SubscriptionType.KEY_SHARED
    async with consumers(client, TOPIC, "s", 3, type=kind) as group:
        await publish(client, TOPIC, numbered(60), keys=KEYS)
        taken = await take_all(group, 60)
    owners: dict[object, int] = {}
    for number, mine in enumerate(taken):
        for key, numbers in by("key", mine).items():
            assert owners.setdefault(key, number) == number, "a key has one consumer"
            assert numbers == sorted(numbers), "a key's records come in order"
    assert len(owners) == 6


# ---- reliable: at least once ----


@each_layout
@each_type
async def test_reliable_records_that_were_not_acknowledged_come_again(
    client: Client, partitions: int, type_: SubscriptionType
) -> None:
    await make_topic(client, Delivery.RELIABLE, partitions)
    async with client.consumer(TOPIC, "s", type=type_) as consumer:
        await publish(client, TOPIC, numbered(60), keys=KEYS)
        messages = await take(consumer, 60)
        done = [message for message in messages if int(message.payload) % 3]
        await ack_all(consumer, done)
    async with client.consumer(TOPIC, "s", type=type_) as consumer:
        again = await take(consumer, 20)
        assert sorted(map(int, bodies(again))) == list(range(0, 60, 3))
        if type_ in (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER):
            assert all(n == sorted(n) for n in by("partition", again).values())
        await ack_all(consumer, again)
    for part in parts(partitions):
        assert (await look(client, part, "s"))["backlog"] == 0


@each_layout
@each_type
async def test_reliable_records_wait_for_a_consumer_and_survive_a_restart(
    cluster: Cluster, client: Client, partitions: int, type_: SubscriptionType
) -> None:
    await make_topic(client, Delivery.RELIABLE, partitions)
    await subscribe(client, TOPIC, "s", type=type_)
    await publish(client, TOPIC, numbered(60), keys=KEYS)
    await cluster.restart()
    async with cluster.client() as later, later.consumer(TOPIC, "s", type=type_) as consumer:
        messages = await take(consumer, 60)
        assert sorted(map(int, bodies(messages))) == list(range(60))
        for numbers in by("key", messages).values():
            assert numbers == sorted(numbers)


@each_type
async def test_a_reliable_connection_that_is_lost_gives_its_records_back(
    client: Client, remote: Client, proxy: Proxy, type_: SubscriptionType
) -> None:
    await make_topic(client, Delivery.RELIABLE, 0)
    consumer = await remote.consumer(TOPIC, "s", type=type_).open()
    await publish(client, TOPIC, numbered(20))
    await take(consumer, 20)
    proxy.cut_and_refuse()

    async def nobody_is_there() -> bool:
        return not (await look(client, TOPIC, "s"))["consumers"]

    await eventually(nobody_is_there)
    async with client.consumer(TOPIC, "s", type=type_) as heir:
        again = await take(heir, 20)
        assert bodies(again) == numbered(20)
        assert all(message.attempt == 1 for message in again), "nothing failed"


# ---- non-reliable: at most once ----


@each_layout
@each_type
async def test_non_reliable_records_never_come_twice(
    client: Client, partitions: int, type_: SubscriptionType
) -> None:
    await make_topic(client, Delivery.NON_RELIABLE, partitions)
    async with client.consumer(TOPIC, "s", type=type_) as consumer:
        await publish(client, TOPIC, numbered(60), keys=KEYS)
        await take(consumer, 60)
    async with client.consumer(TOPIC, "s", type=type_) as consumer:
        await publish(client, TOPIC, numbered(60, first=60), keys=KEYS)
        later = await take(consumer, 60)
        assert sorted(map(int, bodies(later))) == list(range(60, 120))


@each_layout
@each_type
async def test_non_reliable_records_go_only_to_who_is_there(
    client: Client, partitions: int, type_: SubscriptionType
) -> None:
    await make_topic(client, Delivery.NON_RELIABLE, partitions)
    await subscribe(client, TOPIC, "s", type=type_)
    await publish(client, TOPIC, numbered(60), keys=KEYS)
    async with client.consumer(TOPIC, "s", type=type_, start=Start.earliest()) as consumer:
        await publish(client, TOPIC, numbered(60, first=60), keys=KEYS)
        messages = await take(consumer, 60)
        assert sorted(map(int, bodies(messages))) == list(range(60, 120))


@each_layout
async def test_non_reliable_records_are_not_stored(
    cluster: Cluster, client: Client, partitions: int
) -> None:
    await make_topic(client, Delivery.NON_RELIABLE, partitions)
    await publish(client, TOPIC, numbered(60), keys=KEYS)
    described = await client.admin("topic.describe", {"topic": TOPIC})
    assert all(log["ledgers"] == [] for log in described["logs"])
    await cluster.restart()
    async with (
        cluster.client() as later,
        later.consumer(TOPIC, "s", start=Start.earliest()) as consumer,
    ):
        await publish(later, TOPIC, [b"new"])
        assert bodies(await take(consumer, 1)) == [b"new"]


async def test_acknowledging_a_non_reliable_record_is_allowed_and_changes_nothing(
    client: Client,
) -> None:
    await make_topic(client, Delivery.NON_RELIABLE, 0)
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(3))
        messages = await take(consumer, 3)
        await consumer.nack(messages[0])
        await ack_all(consumer, messages)
        await publish(client, TOPIC, [b"next"])
        assert bodies(await take(consumer, 1)) == [b"next"]


# ---- both sides of the matrix ----


@each_delivery
async def test_a_topic_keeps_the_delivery_it_was_made_with(
    client: Client, delivery: Delivery
) -> None:
    await publish(client, TOPIC, [b"first"], delivery=delivery)
    assert (await client.topic(TOPIC)).delivery is delivery
    await publish(client, TOPIC, [b"whatever it is"])
