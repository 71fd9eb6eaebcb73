"""A full disk, which is in memory and has a capacity, and unreadable data.

Publishes wait or fail with a clear error, reads go on or report, and nothing is lost or skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from crc32c import crc32c

from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.http.health import journal_check
from storage_grpc.journal import JournalStore
from sulina import (
    Client,
    FailurePolicy,
    Producer,
    Start,
    StorageFull,
    Unavailable,
    UnknownOutcome,
)
from sulina.errors import StorageFailed
from sulina.runtime.memory_disk import MemoryDisk
from sulina.wire import commands_pb2 as pb
from sulina.wire.header import HEADER_SIZE
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
    subscribe,
    take,
)
from tests.broker.cluster import SMALL_JOURNAL, Cluster
from tests.broker.memory_cluster import MemoryCluster
from tests.broker.peer import Peer, frame_of

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
    except (StorageFull, UnknownOutcome, Unavailable) as error:
        return str(error)  # on a busy machine its time may be up before there is an answer
    return None


async def fill(client: Client, store: JournalStore, topic: str = TOPIC) -> int:
    """Publish until the disk takes no more; returns how many records were confirmed."""
    producer = client.producer(topic, name="filler", batch_records=1)
    await producer.open()
    for number in range(10_000):
        ticket = await producer.send(large(number))
        while not ticket.done() and store.full is None:
            await asyncio.sleep(0.001)
        if not ticket.done():
            await producer.abandon()
            return number
        await ticket
    raise AssertionError("the disk never became full")


async def test_a_publish_that_finds_no_space_fails_with_a_clear_error(
    client: Client, cluster: MemoryCluster
) -> None:
    confirmed = await fill(client, cluster.store)
    assert 50 < confirmed < SPACE // RECORD
    async with client.producer(TOPIC, send_timeout=0.2) as producer:
        said: str | None = ""
        while said is not None and "no space is left" not in said:
            said = await what_is_said(producer, large(0))
        assert said is not None, "nothing is stored"
    assert len(await read_all(client, TOPIC)) == confirmed


async def test_a_broker_with_a_full_disk_is_not_ready_until_there_is_space(
    client: Client, cluster: MemoryCluster, disk: MemoryDisk
) -> None:
    ready = journal_check(cluster.store)
    assert (await ready()).startswith("it takes appends; ")
    await fill(client, cluster.store)
    with pytest.raises(StorageFull, match="no space is left"):
        await ready()
    disk.capacity = 4 * SPACE

    async def is_ready() -> bool:
        return cluster.store.full is None

    await eventually(is_ready)  # without another publish
    assert (await ready()).startswith("it takes appends; ")


async def test_an_idle_broker_on_a_full_disk_is_ready_for_as_much_as_it_has_reserved(
    client: Client, cluster: MemoryCluster, disk: MemoryDisk
) -> None:
    await publish(client, TOPIC, [b"first"])
    disk.capacity = 0  # somebody else took the rest
    ready, store = journal_check(cluster.store), cluster.store
    room = store.reserved_bytes
    assert await ready() == f"it takes appends; {room:,} bytes are reserved for them"
    confirmed = await fill(client, store)
    assert confirmed * RECORD <= room < (confirmed + 2) * (RECORD + 500)
    with pytest.raises(StorageFull, match="no space is left"):
        await ready()


async def test_reads_and_acknowledgements_go_on_while_the_disk_is_full(
    client: Client, cluster: MemoryCluster
) -> None:
    confirmed = await fill(client, cluster.store)
    async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
        messages = await take(consumer, confirmed)
        assert bodies(messages) == [large(number) for number in range(confirmed)]
        await ack_all(consumer, messages)
    assert (await look(client, TOPIC, "s"))["backlog"] == 0


async def test_publishes_wait_and_succeed_once_there_is_space(
    client: Client, cluster: MemoryCluster, disk: MemoryDisk
) -> None:
    confirmed = await fill(client, cluster.store)
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


async def test_space_comes_back_by_deletion_also_after_a_long_time_of_trying(
    client: Client, cluster: MemoryCluster
) -> None:
    await publish(client, OTHER, [b"kept"])
    await fill(client, cluster.store)
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
        confirmed = await fill(client, first.store)
        async with client.producer(TOPIC):
            pass  # whoever comes next has the log repaired, for which some space is kept
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


TINY_CACHE = BrokerSettings(cache_bytes=1)


class Reads:
    """A disk's reads, which fail as long as ``broken`` is set."""

    def __init__(self) -> None:
        self.broken = False

    async def before(self, operation: str, name: str) -> None:
        if self.broken and operation == "read":
            raise StorageFailed(f"cannot read {name}: the cable is loose")


async def stalls(client: Client) -> None:
    async def stalled() -> bool:
        return bool((await look(client, TOPIC, "s"))["stalled"] is not None)

    await eventually(stalled)


async def test_a_read_that_fails_stalls_the_subscription_until_it_works() -> None:
    reads = Reads()
    disk = MemoryDisk(before=reads.before)
    async with MemoryCluster(disk, settings=TINY_CACHE) as cluster, cluster.client() as client:
        await publish(client, TOPIC, numbered(20))
        reads.broken = True
        async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
            await stalls(client)
            assert "the cable is loose" in (await look(client, TOPIC, "s"))["stalled"]
            reads.broken = False
            assert bodies(await take(consumer, 20)) == numbered(20)
            assert (await look(client, TOPIC, "s"))["stalled"] is None


async def test_a_record_that_comes_again_comes_also_when_its_first_read_failed() -> None:
    reads = Reads()
    disk = MemoryDisk(before=reads.before)
    policy = FailurePolicy(base_redelivery_delay_ms=1)
    payloads = [b"%02d" % number + b"." * 500_000 for number in range(12)]
    async with (
        MemoryCluster(disk, settings=TINY_CACHE) as cluster,
        cluster.client() as client,
        client.consumer(TOPIC, "s", failure_policy=policy, queue_bytes=32 << 20) as consumer,
    ):
        await publish(client, TOPIC, payloads)
        messages = await take(consumer, 12)
        reads.broken = True
        await consumer.nack(messages[0])
        await stalls(client)
        reads.broken = False
        (again,) = await take(consumer, 1)
        assert (again.payload, again.attempt) == (payloads[0], 2)
        await ack_all(consumer, [*messages[1:], again])
        assert (await look(client, TOPIC, "s"))["backlog"] == 0


async def test_damage_is_never_skipped_and_an_operator_can_go_past_it() -> None:
    disk = MemoryDisk()
    async with MemoryCluster(disk, settings=TINY_CACHE) as cluster, cluster.client() as client:
        await subscribe(client, TOPIC, "s")
        await publish(client, TOPIC, [b"first", b"DAMAGED", b"third"])
        await publish(client, "/default/sound", numbered(3))
        (name,) = [n for n in await disk.list() if b"DAMAGED" in disk.content(n)]
        disk.flip(name, disk.content(name).index(b"DAMAGED"))
        async with client.consumer(TOPIC, "s") as consumer:
            assert bodies(await take(consumer, 1)) == [b"first"]
            await stalls(client)
            assert (await look(client, TOPIC, "s"))["counters"]["delivered"] == 1
            await consumer.seek(Start.offset(2))
            assert bodies(await take(consumer, 1)) == [b"third"]
        async with client.consumer("/default/sound", "s", start=Start.earliest()) as consumer:
            assert bodies(await take(consumer, 3)) == numbered(3), "others are not concerned"


# ---- frames whose checksum is right and whose columns are not ----


def lying_frame(producer: str) -> bytes:
    """One record whose payload reaches beyond the frame, with a correct checksum."""
    frame = bytearray(frame_of(producer, 0, [b"payload"]))
    column = HEADER_SIZE + 8 * (-(-len(producer) // 8))
    frame[column + 4 : column + 8] = (1 << 20).to_bytes(4, "little")
    crc = crc32c(bytes(frame[HEADER_SIZE:]), crc32c(bytes(frame[:68])))
    frame[68:72] = crc.to_bytes(4, "little")
    return bytes(frame)


@pytest.mark.parametrize("filters", [[], ["*"]], ids=["without filters", "with filters"])
async def test_a_frame_that_lies_about_its_columns_stops_nobody(
    cluster: Cluster, client: Client, filters: list[str]
) -> None:
    policy = FailurePolicy(
        max_redelivery_count=0,
        base_redelivery_delay_ms=1,
        max_redelivery_delay_ms=1,
    )
    async with client.consumer(
        TOPIC, "s", type="key_shared", key_filters=filters, failure_policy=policy
    ) as consumer:
        async with Peer(cluster.port) as peer:
            producer = (await peer.producer(TOPIC, "liar")).producer
            peer.publish(producer, 0, lying_frame("liar"))
            assert (await peer.next(pb.Published)).base_offsets == [0]
        await publish(client, TOPIC, numbered(5), keys=["a", "b", "c", "d", "e"])
        receiving = asyncio.create_task(take(consumer, 5))
        assert sorted(bodies(await receiving)) == numbered(5)
        assert consumer.corrupt_frames >= 1
