"""Unreadable data: the subscription reports it, skips nothing, and resumes when it can."""

from __future__ import annotations

import asyncio

import pytest
from crc32c import crc32c

from broker_containers.broker.settings import BrokerSettings
from sulina import Client, FailurePolicy, Start
from sulina.errors import StorageFailed
from sulina.runtime.memory_disk import MemoryDisk
from sulina.wire import commands_pb2 as pb
from sulina.wire.header import HEADER_SIZE
from tests.broker.actions import (
    ack_all,
    bodies,
    eventually,
    look,
    numbered,
    publish,
    subscribe,
    take,
)
from tests.broker.cluster import Cluster
from tests.broker.memory_cluster import MemoryCluster
from tests.broker.peer import Peer, frame_of

TOPIC = "/default/unreadable"
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
