"""A full disk: publishes wait or fail with a clear error, reads go on, and nothing is lost.

The disk is in memory and has a capacity, so that full means full.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sulina import Client, Producer, Start, StorageFull, UnknownOutcome
from sulina.runtime.memory_disk import MemoryDisk
from tests.broker.actions import (
    ack_all,
    bodies,
    eventually,
    log_of,
    look,
    numbered,
    publish,
    read_all,
    send,
    take,
)
from tests.broker.cluster import SMALL_JOURNAL
from tests.broker.memory_cluster import MemoryCluster

TOPIC = "/default/full"
OTHER = "/default/other"
SPACE = 400_000
RECORD = 2000


def large(number: int) -> bytes:
    return b"%06d" % number + b"." * (RECORD - 6)


@pytest.fixture
async def disk() -> MemoryDisk:
    return MemoryDisk(capacity=SPACE)


@pytest.fixture
async def metadata() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
async def cluster(disk: MemoryDisk, metadata: MemoryDisk) -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(disk, metadata=metadata, journal=SMALL_JOURNAL) as running:
        yield running


@pytest.fixture
async def client(cluster: MemoryCluster) -> AsyncIterator[Client]:
    async with cluster.client() as connected:
        yield connected


async def what_is_said(producer: Producer, payload: bytes) -> str | None:
    """None if the record is stored, or the error that a full disk gives."""
    try:
        await send(producer, payload)
    except StorageFull as error:
        return str(error)
    except UnknownOutcome as error:
        return str(error)  # its time was up just when an attempt was under way
    return None


async def fill(client: Client, topic: str = TOPIC) -> int:
    """Publish until the disk takes no more; returns how many records were confirmed."""
    async with client.producer(topic, name="filler", batch_records=1, send_timeout=0.3) as producer:
        for number in range(10_000):
            if await what_is_said(producer, large(number)) is not None:
                return number
    raise AssertionError("the disk never became full")


async def test_a_publish_that_finds_no_space_fails_with_a_clear_error(client: Client) -> None:
    confirmed = await fill(client)
    assert 50 < confirmed < SPACE // RECORD
    async with client.producer(TOPIC, send_timeout=0.2) as producer:
        said = [await what_is_said(producer, large(0)) for _ in range(3)]
        assert any(text is not None and "no space is left" in text for text in said)
        assert None not in said
    assert len(await read_all(client, TOPIC)) == confirmed


async def test_reads_and_acknowledgements_go_on_while_the_disk_is_full(client: Client) -> None:
    confirmed = await fill(client)
    async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
        messages = await take(consumer, confirmed)
        assert bodies(messages) == [large(number) for number in range(confirmed)]
        await ack_all(consumer, messages)
    assert (await look(client, TOPIC, "s"))["backlog"] == 0


async def test_publishes_wait_and_succeed_once_there_is_space(
    client: Client, disk: MemoryDisk
) -> None:
    confirmed = await fill(client)
    async with client.producer(TOPIC, name="filler", batch_records=1) as producer:
        tickets = [
            await producer.send(large(number)) for number in range(confirmed, confirmed + 20)
        ]
        for _ in range(20):
            await client.ping()
        assert not any(ticket.done() for ticket in tickets)
        disk.capacity = 4 * SPACE
        ids = [await ticket for ticket in tickets]
    expected = [large(number) for number in range(confirmed + 20)]
    assert await read_all(client, TOPIC) == expected
    assert [each.offset for each in ids] == list(range(confirmed, confirmed + 20))


async def test_nothing_is_lost_or_doubled_over_many_full_moments(
    client: Client, disk: MemoryDisk
) -> None:
    sent = 0
    async with client.producer(TOPIC, batch_records=3) as producer:
        for _ in range(6):
            disk.capacity = 0  # nothing more fits from here on
            tickets = []
            for _ in range(25):
                tickets.append(await producer.send(large(sent)))
                sent += 1
            await asyncio.sleep(0.02)
            disk.capacity = 10 * SPACE
            for ticket in tickets:
                await ticket
    assert await read_all(client, TOPIC) == [large(number) for number in range(sent)]


async def test_other_topics_are_full_too_and_recover_too(client: Client, disk: MemoryDisk) -> None:
    await publish(client, OTHER, [b"before"])
    await fill(client)
    async with client.producer(OTHER, batch_records=1) as producer:
        tickets = [await producer.send(large(number)) for number in range(40)]
        disk.capacity = 4 * SPACE
        for ticket in tickets:
            await ticket
    assert await read_all(client, OTHER) == [b"before", *(large(n) for n in range(40))]


async def test_space_comes_back_when_a_topic_is_deleted(client: Client) -> None:
    await publish(client, OTHER, [b"kept"])
    await fill(client)
    async with client.producer(OTHER, batch_records=1) as producer:
        waiting = [await producer.send(large(number)) for number in range(20)]
        await client.admin("topic.delete", {"topic": TOPIC})
        for ticket in waiting:
            await ticket
    assert await read_all(client, OTHER) == [b"kept", *(large(n) for n in range(20))]


async def test_space_comes_back_by_deletion_also_after_a_long_time_of_trying(
    client: Client,
) -> None:
    await publish(client, OTHER, [b"kept"])
    await fill(client)
    for attempt in range(12):
        # Each finds the log broken, repairs it, and breaks it again.
        async with client.producer(OTHER, name=f"p{attempt}", send_timeout=0.05) as producer:
            assert await what_is_said(producer, large(0)) is not None
    await client.admin("topic.delete", {"topic": TOPIC})
    await publish(client, OTHER, [b"after"])
    assert await read_all(client, OTHER) == [b"kept", b"after"]


async def test_a_broker_starts_on_a_full_disk_and_serves_reads(
    disk: MemoryDisk, metadata: MemoryDisk
) -> None:
    first = MemoryCluster(disk, metadata=metadata, journal=SMALL_JOURNAL)
    async with first, first.client() as client:
        confirmed = await fill(client)
    disk.capacity = 0
    again = MemoryCluster(disk, metadata=metadata, journal=SMALL_JOURNAL)
    async with again, again.client() as client:
        assert len(await read_all(client, TOPIC)) == confirmed
        async with client.producer(TOPIC, name="filler", batch_records=1) as producer:
            ticket = await producer.send(large(confirmed))
            disk.capacity = 4 * SPACE
            assert (await ticket).offset == confirmed
        expected = [large(number) for number in range(confirmed + 1)]
        assert await read_all(client, TOPIC) == expected


async def test_a_full_metadata_disk_delays_cursors_and_loses_none(
    disk: MemoryDisk, metadata: MemoryDisk
) -> None:
    first = MemoryCluster(disk, metadata=metadata, journal=SMALL_JOURNAL)
    async with first, first.client() as client, client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(10))
        messages = await take(consumer, 10)
        metadata.capacity = 0
        await ack_all(consumer, messages[:7])
        found = await look(client, TOPIC, "s")
        assert found["position"] == 7, "it counts in memory"
        with pytest.raises(StorageFull):
            await client.admin("namespace.create", {"namespace": "later"})
        metadata.capacity = None
    again = MemoryCluster(disk, metadata=metadata, journal=SMALL_JOURNAL)
    async with again, again.client() as client:
        assert (await look(client, TOPIC, "s"))["position"] == 7
        assert (await log_of(client, TOPIC))["end_offset"] == 10


async def test_a_seek_that_cant_be_stored_is_told_and_deliveries_go_on(
    client: Client, metadata: MemoryDisk
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(10))
        await ack_all(consumer, await take(consumer, 10))
        metadata.capacity = 0
        seeking = asyncio.create_task(consumer.seek(Start.earliest()))

        async def tried() -> bool:
            await asyncio.sleep(0.05)
            return not seeking.done()

        await eventually(tried)
        metadata.capacity = None
        await seeking
        assert bodies(await take(consumer, 10)) == numbered(10)
