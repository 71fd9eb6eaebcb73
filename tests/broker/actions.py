"""What tests do with a client: publish, receive, inspect, wait for a condition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sulina import Client, Consumer, Message, MessageId, Producer, Start, SulinaError

PATIENCE = 20.0
"""Timeout of a test's waits, in seconds."""


def numbered(count: int, first: int = 0) -> list[bytes]:
    """Payloads that tell their place."""
    return [b"%d" % number for number in range(first, first + count)]


async def publish(
    client: Client,
    topic: str,
    payloads: Iterable[bytes],
    *,
    keys: Sequence[str | None] | None = None,
    batch_records: int = 1,
    **options: Any,
) -> list[MessageId]:
    """Publish with a producer of its own, by default a frame for each record; all are durable."""
    bodies = list(payloads)
    async with client.producer(topic, batch_records=batch_records, **options) as producer:
        tickets = [
            await producer.send(payload, key=None if keys is None else keys[index])
            for index, payload in enumerate(bodies)
        ]
        return [await ticket for ticket in tickets]


async def send(producer: Producer, payload: bytes) -> MessageId:
    """Send one record and wait until it is durable."""
    return await (await producer.send(payload))


async def take(consumer: Consumer, count: int) -> list[Message]:
    """The next ``count`` messages."""
    return [await consumer.receive(PATIENCE) for _ in range(count)]


async def take_all(consumers: Sequence[Consumer], count: int) -> list[list[Message]]:
    """``count`` messages from all consumers together: a list for each consumer."""
    taken: list[list[Message]] = [[] for _ in consumers]
    enough = asyncio.Event()

    async def follow(consumer: Consumer, mine: list[Message]) -> None:
        async for message in consumer:
            mine.append(message)
            if sum(map(len, taken)) >= count:
                enough.set()

    tasks = [
        asyncio.create_task(follow(consumer, mine))
        for consumer, mine in zip(consumers, taken, strict=True)
    ]
    try:
        await asyncio.wait_for(enough.wait(), PATIENCE)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return taken


def bodies(messages: Iterable[Message]) -> list[bytes]:
    return [message.payload for message in messages]


async def ack_all(consumer: Consumer, messages: Iterable[Message]) -> None:
    """Acknowledge one by one, and wait until the broker knows."""
    for message in messages:
        await consumer.ack(message)
    await consumer.flush_acks()


async def subscribe(client: Client, topic: str, subscription: str, **options: Any) -> None:
    """Make a subscription that has no consumer."""
    async with client.consumer(topic, subscription, **options):
        pass


async def look(client: Client, topic: str, subscription: str) -> dict[str, Any]:
    """The subscription as the broker describes it."""
    found = await client.admin(
        "subscription.describe", {"topic": topic, "subscription": subscription}
    )
    assert isinstance(found, dict)
    return found


async def log_of(client: Client, topic: str) -> dict[str, Any]:
    """The log of a topic without partitions, as the broker describes it."""
    (log,) = (await client.admin("topic.describe", {"topic": topic}))["logs"]
    assert isinstance(log, dict)
    return log


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until ``check`` is true."""
    async with asyncio.timeout(PATIENCE):
        while not await check():
            await asyncio.sleep(0.002)


async def until_it_raises(kind: type[SulinaError], attempt: Callable[[], Awaitable[object]]) -> str:
    """Try until ``attempt`` fails so; returns what the error says."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await attempt()
            except kind as error:
                return str(error)
            await asyncio.sleep(0.002)


async def read_messages(client: Client, topic: str) -> list[Message]:
    """Everything that the topic keeps, without a subscription."""
    messages: list[Message] = []
    start = Start.earliest()
    while True:
        found = await client.read(topic, start)
        messages += [message for batch in found for message in batch]
        if found.at_end:
            return messages
        start = Start.offset(found.next_offset)


async def read_all(client: Client, topic: str) -> list[bytes]:
    """The payloads of everything that the topic keeps."""
    return bodies(await read_messages(client, topic))


@asynccontextmanager
async def consumers(
    client: Client, topic: str, subscription: str, count: int, **options: Any
) -> AsyncIterator[list[Consumer]]:
    """Several consumers of one subscription."""
    opened = [client.consumer(topic, subscription, **options) for _ in range(count)]
    try:
        yield [await consumer.open() for consumer in opened]
    finally:
        for consumer in opened:
            await consumer.close()
