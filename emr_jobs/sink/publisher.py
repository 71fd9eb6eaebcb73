"""Publishes the records of one task exactly once, however often the task runs.

Every task of a write has its own producer name, and numbers its records in the order of its rows.
The brokers durably store each producer's last number: a retried task queries it, skips that many
rows, and continues. A stream numbers the records of each batch from ``batch << 32``, so that a
batch that is already complete is skipped as a whole.

This requires that a task has the same rows, in the same order, each time it runs. If the brokers
have more records than the task, this is violated, and the write fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

import sulina
from emr_jobs.brokers import make_client
from emr_jobs.sink.options import WriteOptions
from emr_jobs.sink.rows import RecordChunk
from sulina.client.producer import Producer
from sulina.client.routing import partition_of
from sulina.client.topics import TopicInfo
from sulina.errors import NotFound, Refused
from sulina.runtime.traces import (
    TRACE_PARENT,
    caused_by,
    flush_spans,
    span,
    start_tracing,
    trace_parent,
)

BATCH_BITS: Final = 32
_RUN: Final = 1024
"""How many records without a key go to one partition before the next one."""


@dataclass(frozen=True, slots=True)
class Published:
    """What a task published."""

    records: int
    """The number of the task's records."""
    skipped: int
    """How many of them were published before."""


@dataclass(slots=True)
class _PartitionProducer:
    """The producer of one topic partition, and how many of the task's records are stored there."""

    producer: Producer
    stored: int
    """Records of this task (and batch) that are already stored."""
    done: bool
    """Whether a later batch has begun, so that this one is complete."""
    seen: int = 0
    payloads: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    attributes: list[dict[str, str] | None] = field(default_factory=list)

    def take(self, payload: bytes, key: bytes | None, attributes: dict[str, str] | None) -> bool:
        """Take a record unless it is stored already; returns whether it is."""
        self.seen += 1
        if self.seen <= self.stored:
            return True
        self.payloads.append(payload)
        self.keys.append(key)
        self.attributes.append(attributes)
        return False

    async def send(self) -> None:
        """Send the records taken; waits under backpressure."""
        if self.payloads:
            payloads, keys, attributes = self.payloads, self.keys, self.attributes
            self.payloads, self.keys, self.attributes = [], [], []
            await self.producer.send_many(
                payloads,
                keys=keys if any(key is not None for key in keys) else None,
                attributes=attributes if any(attributes) else None,
            )


def publish(
    options: WriteOptions, name: str, records: Iterator[RecordChunk], batch: int | None = None
) -> Published:
    """Publish ``records`` under the producer ``name``; blocks until all of them are durable.

    ``batch`` is the number of a stream's batch. Raises the brokers' errors, ``Unavailable`` if they
    cannot be reached, and ``Refused`` if more records of this batch are stored than it has. In a
    trace, records carry its context; with a collector in the environment, the task has a span.
    """
    start_tracing("sulina-spark", name, clients=False)
    try:
        what = f"write {options.topic}"
        with caused_by(options.trace_parent), span(what, False, producer=name):
            return asyncio.run(_publish(options, name, records, batch))
    finally:
        flush_spans()  # Spark ends its Python processes without notice


async def _publish(
    options: WriteOptions, name: str, records: Iterator[RecordChunk], batch: int | None
) -> Published:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            make_client(options.url, options.tls, options.token)
        )
        partitions = await _open(stack, client, options, name, batch)
        count = skipped = 0
        # Spark's iterator blocks, and the connection must be served meanwhile.
        while (chunk := await asyncio.to_thread(next, records, None)) is not None:
            skipped += _share(partitions, chunk, count)
            count += len(chunk)
            for each in partitions:
                await each.send()
        for each in partitions:
            await each.producer.flush()
            if each.stored > each.seen and not each.done:
                raise Refused(
                    f"{each.producer.topic} has {each.stored} records of this task from an earlier "
                    f"run, but the task now has only {each.seen}: its rows differ between runs. "
                    "Sort within partitions, and write under another producer name"
                )
        return Published(count, skipped)


async def _open(
    stack: AsyncExitStack,
    client: sulina.Client,
    options: WriteOptions,
    name: str,
    batch: int | None,
) -> list[_PartitionProducer]:
    base = 0 if batch is None else batch << BATCH_BITS
    partitions = []
    # A producer for the whole topic would choose partitions by its current load.
    for topic, _ in (await _topic(client, options)).parts:
        producer = client.producer(topic, name=name, compression=options.compression, create=False)
        await stack.enter_async_context(producer)
        stored = max(producer.next_sequence - base, 0)
        done = batch is not None and stored >= 1 << BATCH_BITS
        producer.skip_to(base)
        partitions.append(_PartitionProducer(producer, stored, done))
    return partitions


async def _topic(client: sulina.Client, options: WriteOptions) -> TopicInfo:
    try:
        return await client.topic(options.topic)
    except NotFound:
        if not options.create:
            raise
    async with client.producer(options.topic):  # creates the topic
        return await client.topic(options.topic)


def _share(partitions: list[_PartitionProducer], chunk: RecordChunk, count: int) -> int:
    """Assign each record to its partition, always the same; returns how many were stored."""
    skipped, parent = 0, trace_parent()
    for index, payload in enumerate(chunk.payloads):
        key = chunk.keys[index] if chunk.keys is not None else None
        attributes = chunk.attributes[index] if chunk.attributes is not None else None
        if parent and TRACE_PARENT not in (attributes or {}):
            attributes = {**(attributes or {}), TRACE_PARENT: parent}
        if key is not None:
            number = partition_of(key, len(partitions))
        else:
            number = (count + index) // _RUN % len(partitions)
        skipped += partitions[number].take(payload, key, dict(attributes) if attributes else None)
    return skipped
