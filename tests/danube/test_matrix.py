"""Every subscription type, reliable and not, partitioned and not, with the stock client."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.danube.stock import StockClient, StockConsumer, StockError

KINDS = ("EXCLUSIVE", "SHARED", "FAILOVER", "KEY_SHARED")


@pytest.mark.parametrize("partitions", [0, 3], ids=["whole", "partitioned"])
@pytest.mark.parametrize("reliable", [True, False], ids=["reliable", "unreliable"])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_sent_is_received_once(
    client: StockClient, topic: str, kind: str, reliable: bool, partitions: int
) -> None:
    producer = await client.producer(topic, reliable=reliable, partitions=partitions)
    consumer = await client.consumer(topic, kind)
    await streams_open()
    sent = [f"message {number}" for number in range(9)]
    for payload in sent:
        await producer.send(payload, {"of": payload})
    received = await consumer.take_all(9)
    assert sorted(message.payload for message in received) == sent
    assert all(message.attributes == {"of": message.payload} for message in received)
    parts = {f"{topic}-part-{number}" for number in range(partitions)} or {topic}
    assert {message.topic for message in received} == parts
    assert await consumer.nothing(0.1)


async def streams_open() -> None:
    """Like Danube's own examples: unreliable messages only reach connected consumers."""
    await asyncio.sleep(0.2)


async def test_unreliable_shared_consumers_take_strict_turns(
    client: StockClient, topic: str
) -> None:
    producer = await client.producer(topic, reliable=False)
    consumers = [await client.consumer(topic, "SHARED", f"c{number}") for number in range(3)]
    receiving: set[StockConsumer] = set()
    while len(receiving) < 3:  # a stream that is not open yet takes no turns
        await producer.send("is it open?")
        for consumer in consumers:
            if await consumer.take_or_none(0.2) is not None:
                receiving.add(consumer)
    for number in range(36):
        await producer.send(str(number))
    for consumer in consumers:
        for _ in range(12):
            await consumer.take()
        assert await consumer.nothing(0.1)


async def test_an_exclusive_subscription_refuses_a_second_consumer_until_the_first_leaves(
    client: StockClient, topic: str
) -> None:
    producer = await client.producer(topic)
    first = await client.consumer(topic, "EXCLUSIVE", "first")
    with pytest.raises(StockError, match="FAILED_PRECONDITION"):
        await client.consumer(topic, "EXCLUSIVE", "second")
    await producer.send("one")
    assert (await first.take()).payload == "one"  # and not acknowledged
    await first.close()
    second = await until_accepted(client, topic, "second")
    assert (await second.take()).payload == "one"


async def until_accepted(client: StockClient, topic: str, name: str) -> StockConsumer:
    """The broker notices a closed consumer only by its broken stream, so it takes a moment."""
    while True:
        try:
            return await client.consumer(topic, "EXCLUSIVE", name)
        except StockError as error:
            if error.code != "FAILED_PRECONDITION":
                raise
            await asyncio.sleep(0.05)


async def test_a_standby_takes_over_what_the_active_consumer_left(
    client: StockClient, topic: str
) -> None:
    producer = await client.producer(topic)
    active = await client.consumer(topic, "FAILOVER", "active")
    await producer.send("zero")
    await active.take_all(1)
    standby = await client.consumer(topic, "FAILOVER", "standby")
    await producer.send("one")
    await producer.send("two")
    assert (await active.take()).payload == "one"
    assert await standby.nothing()
    await active.close()
    assert [message.payload for message in await standby.take_all(2)] == ["one", "two"]


async def test_messages_of_one_key_go_to_one_consumer_in_order(
    client: StockClient, topic: str
) -> None:
    producer = await client.producer(topic)
    consumers = [await client.consumer(topic, "KEY_SHARED", f"c{number}") for number in range(2)]
    await streams_open()
    for number in range(40):
        await producer.send(str(number), key=f"key {number % 8}")
    owners: dict[str | None, StockConsumer] = {}
    seen: Counter[StockConsumer] = Counter()
    order: dict[str | None, list[int]] = {}
    for consumer in consumers:
        while sum(seen.values()) < 40:
            message = await consumer.take_or_none(1.0)
            if message is None:
                break
            await consumer.ack(message)
            assert owners.setdefault(message.key, consumer) is consumer
            order.setdefault(message.key, []).append(int(message.payload))
            seen[consumer] += 1
    assert sum(seen.values()) == 40 and len(seen) == 2
    assert all(numbers == sorted(numbers) for numbers in order.values())


async def test_key_filters_choose_what_a_consumer_gets(client: StockClient, topic: str) -> None:
    producer = await client.producer(topic)
    payments = await client.consumer(topic, "KEY_SHARED", "payments", key_filters=("pay-*",))
    others = await client.consumer(topic, "KEY_SHARED", "others", key_filters=("ship-?", "misc"))
    await streams_open()
    for key in ("pay-1", "ship-2", "pay-22", "misc", "ship-3"):
        await producer.send(f"for {key}", key=key)
    assert [m.key for m in await payments.take_all(2)] == ["pay-1", "pay-22"]
    assert [m.key for m in await others.take_all(3)] == ["ship-2", "misc", "ship-3"]
    assert await payments.nothing(0.1)


async def test_keys_choose_partitions(client: StockClient, topic: str) -> None:
    producer = await client.producer(topic, partitions=3)
    consumer = await client.consumer(topic, "EXCLUSIVE")
    await streams_open()
    for number in range(12):
        await producer.send(str(number), key=f"key {number % 4}")
    places: dict[str | None, set[str]] = {}
    for message in await consumer.take_all(12):
        places.setdefault(message.key, set()).add(message.topic)
    assert len(places) == 4
    assert all(len(topics) == 1 for topics in places.values())
