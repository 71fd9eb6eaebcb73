"""Publishes the records of one task, each once, however often the task runs.

Every task of a write has a producer name of its own, and its records are numbered in the order of
its rows. The brokers keep the last number of each producer, durably, with the records: a task
that runs again asks for it, skips as many rows, and goes on. A stream numbers the records of each
of its batches from ``batch << 32`` on, so that a batch which is already there as a whole is
skipped as a whole.

This rests on the rows of a task being the same, in the same order, each time it runs. What can be
seen of the opposite ends the write with a sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

import sulina
from emr_jobs.sink.options import WriteOptions
from emr_jobs.sink.rows import Records
from sulina.client.producer import Producer
from sulina.client.routing import partition_of
from sulina.client.topics import TopicInfo
from sulina.errors import NotFound, Refused

BATCH_BITS: Final = 32
_RUN: Final = 1024
"""Records without a key that go to one partition before the next one has its turn."""


@dataclass(frozen=True, slots=True)
class Published:
    """What a task did."""

    records: int
    """That it had."""
    skipped: int
    """Of these, what was there before."""


@dataclass(slots=True)
class _Way:
    """One topic partition: its producer, and how far the task's records there are stored."""

    producer: Producer
    stored: int
    """Records of this task (and batch) that are there already."""
    done: bool
    """A later batch has begun, so this one is there as a whole."""
    seen: int = 0
    payloads: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    attributes: list[dict[str, str] | None] = field(default_factory=list)

    def take(self, payload: bytes, key: bytes | None, attributes: dict[str, str] | None) -> bool:
        """Take a record, unless it is there already; whether it was."""
        self.seen += 1
        if self.seen <= self.stored:
            return True
        self.payloads.append(payload)
        self.keys.append(key)
        self.attributes.append(attributes)
        return False

    async def send(self) -> None:
        """Hand over what was taken; waits under backpressure."""
        if self.payloads:
            payloads, keys, attributes = self.payloads, self.keys, self.attributes
            self.payloads, self.keys, self.attributes = [], [], []
            await self.producer.send_many(
                payloads,
                keys=keys if any(key is not None for key in keys) else None,
                attributes=attributes if any(attributes) else None,
            )


def publish(
    options: WriteOptions, name: str, records: Iterator[Records], batch: int | None = None
) -> Published:
    """Publish ``records`` under the producer ``name``; blocks until all of them are durable.

    ``batch`` is the number of a stream's batch. Raises what the brokers refuse, ``Unavailable`` if
    they are not there, and ``Refused`` if more records of this batch are stored than there are.
    """
    return asyncio.run(_publish(options, name, records, batch))


async def _publish(
    options: WriteOptions, name: str, records: Iterator[Records], batch: int | None
) -> Published:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            sulina.connect(options.url, tls=options.tls or None, token=options.token)
        )
        ways = await _open(stack, client, options, name, batch)
        count = skipped = 0
        # Spark's iterator blocks, and the connection must live on meanwhile.
        while (chunk := await asyncio.to_thread(next, records, None)) is not None:
            skipped += _share(ways, chunk, count)
            count += len(chunk)
            for way in ways:
                await way.send()
        for way in ways:
            await way.producer.flush()
            if way.stored > way.seen and not way.done:
                raise Refused(
                    f"{way.producer.topic} has {way.stored} records of this task from its first "
                    f"run, which has only {way.seen} now: its rows differ from run to run. Make "
                    "their order certain (sort within partitions), and write under another name"
                )
        return Published(count, skipped)


async def _open(
    stack: AsyncExitStack,
    client: sulina.Client,
    options: WriteOptions,
    name: str,
    batch: int | None,
) -> list[_Way]:
    base = 0 if batch is None else batch << BATCH_BITS
    ways = []
    # A producer for the whole topic would choose the partitions by what is on its way.
    for topic, _ in (await _topic(client, options)).parts:
        producer = client.producer(topic, name=name, compression=options.compression, create=False)
        await stack.enter_async_context(producer)
        stored = max(producer.next_sequence - base, 0)
        done = batch is not None and stored >= 1 << BATCH_BITS
        producer.skip_to(base)
        ways.append(_Way(producer, stored, done))
    return ways


async def _topic(client: sulina.Client, options: WriteOptions) -> TopicInfo:
    try:
        return await client.topic(options.topic)
    except NotFound:
        if not options.create:
            raise
    async with client.producer(options.topic):  # it makes the topic
        return await client.topic(options.topic)


def _share(ways: list[_Way], chunk: Records, count: int) -> int:
    """Give each record to its partition, the same one each time; how many were there before."""
    skipped = 0
    for index, payload in enumerate(chunk.payloads):
        key = chunk.keys[index] if chunk.keys is not None else None
        attributes = chunk.attributes[index] if chunk.attributes is not None else None
        if key is not None:
            number = partition_of(key, len(ways))
        else:
            number = (count + index) // _RUN % len(ways)
        skipped += ways[number].take(payload, key, dict(attributes) if attributes else None)
    return skipped
