"""The native client's part: publishes everything, and replays everything from the beginning."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import sulina
from sulina import Client, Start
from sulina.client.message import Batch
from sulina.client.routing import group_by_partition
from sulina.client.tickets import Ticket
from sulina.names import TopicName
from tests.end_to_end.tallies import Tallies
from tests.end_to_end.workload import Chunk, ProofWorkload

SUBSCRIPTION: Final = "everything"
_TICKETS: Final = 20
_SEND_SECONDS: Final = 300.0
_SILENCE_SECONDS: Final = 120.0
"""A replay that gets nothing for so long has come to its end too early."""

Show = Callable[[float], None]
"""Is told how many records are done."""


async def publish(
    url: str, counts: Mapping[ProofWorkload, int], seed: str, expected: Tallies, show: Show
) -> int:
    """Publish so many records of each topic, each acknowledged; returns bytes of payloads.

    What a partition holds afterwards, if nothing goes wrong, is added to ``expected``: a topic has
    one producer, so records are in the order in which they are handed over.
    """
    async with sulina.connect(url) as client, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_publish_one(client, each, count, seed, expected, show))
            for each, count in counts.items()
        ]
    return sum(task.result() for task in tasks)


async def _publish_one(
    client: Client, workload: ProofWorkload, count: int, seed: str, expected: Tallies, show: Show
) -> int:
    total = 0
    tickets: deque[Ticket] = deque()
    async with client.producer(
        workload.topic,
        name=workload.producer,
        compression=workload.compression,
        send_timeout=_SEND_SECONDS,
    ) as producer:
        for chunk in workload.chunks(count, seed):
            now = time.time_ns() // 1000
            ticket = await producer.send_many(
                chunk.payloads, keys=chunk.keys, attributes=chunk.attributes, publish_time_us=now
            )
            _expect(workload, chunk, now, expected)
            total += chunk.bytes
            tickets.append(ticket)
            if len(tickets) > _TICKETS:
                await tickets.popleft()
            show(expected.records)
        for ticket in tickets:
            await ticket
    return total


def _expect(workload: ProofWorkload, chunk: Chunk, time_us: int, expected: Tallies) -> None:
    everything = list(range(len(chunk.payloads)))
    groups: Mapping[int | None, list[int]] = {0: everything}
    if workload.partitions:
        assert chunk.keys is not None, "without a key, any partition may get a record"
        groups = group_by_partition(chunk.keys, workload.partitions)
    for number, members in groups.items():
        assert number is not None
        expected.add(
            (workload.topic, number),
            workload.producer,
            [time_us] * len(members),
            [chunk.payloads[index] for index in members],
            None if chunk.keys is None else [chunk.keys[index] for index in members],
            None if chunk.attributes is None else [chunk.attributes[index] for index in members],
        )


async def replay(url: str, counts: Mapping[ProofWorkload, int], show: Show) -> Tallies:
    """Consume all topics from earliest until so many records of each have come.

    Then whatever the partitions hold beyond is added as well, so that a record too many shows.
    """
    seen = Tallies()
    async with sulina.connect(url) as client, asyncio.TaskGroup() as group:
        for workload, count in counts.items():
            group.create_task(_replay_one(client, workload, count, seen, show))
    return seen


async def _replay_one(
    client: Client, workload: ProofWorkload, count: int, seen: Tallies, show: Show
) -> None:
    left = count
    ends: dict[str, int] = {}
    start = Start.earliest()
    async with client.consumer(workload.topic, SUBSCRIPTION, start=start) as consumer:
        while left > 0:
            try:
                batch = await consumer.receive_batch(_SILENCE_SECONDS)
            except TimeoutError:
                return  # the tallies tell what is missing
            _see(batch, seen)
            ends[batch.topic] = batch.offsets[-1] + 1
            left -= len(batch)
            await consumer.ack_cumulative(batch)
            show(seen.records)
    for topic, end in ends.items():
        for batch in await client.read(topic, Start.offset(end)):
            _see(batch, seen)


def _see(batch: Batch, seen: Tallies) -> None:
    base = TopicName.parse(batch.topic).partition_of
    log = (batch.topic, 0) if base is None else (str(base[0]), base[1])
    header = batch.frame.header
    ahead = header.first_sequence - header.base_offset
    seen.add(
        log,
        batch.producer,
        batch.times,
        batch.payloads,
        batch.keys,
        batch.attributes,
        offsets=batch.offsets,
        sequences=[offset + ahead for offset in batch.offsets],
        schema=(header.schema_id, header.schema_version),
    )
