"""A journal that ends anywhere, as a kill or a power cut leaves it, seen through the client.

The journal itself is cut at every byte in the tests of the storage; here a broker starts on what
is left, and its clients get what was acknowledged.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from storage_grpc.journal import JournalSettings
from sulina import Client, Start
from sulina.runtime.memory_disk import MemoryDisk
from tests.broker.memory_cluster import MemoryCluster
from tests.faults.seeds import seeded

TOPIC = "/default/torn"
BEFORE = [b"1", b"22", b"333"]
"""In a ledger that was closed by a restart."""
AFTER = [b"4444", b"55555"]
"""In the ledger that is torn; its first entry is the broker's own."""
SETTINGS = JournalSettings(file_bytes=64 << 10, reserve_bytes=16 << 10, spare_bytes=4 << 10)


def _cut(content: bytes, at: int, rng: random.Random) -> bytes:
    return content[:at]


def _zeroed(content: bytes, at: int, rng: random.Random) -> bytes:
    return content[:at] + bytes(len(content) - at)


def _garbled(content: bytes, at: int, rng: random.Random) -> bytes:
    return content[:at] + rng.randbytes(len(content) - at)


Tear = Callable[[bytes, int, random.Random], bytes]


class _Torn:
    """A data set, and where in its newest journal file each record ends."""

    def __init__(self, cluster: MemoryCluster, name: str, start: int, ends: list[int]) -> None:
        self._metadata = cluster.metadata.copy()
        self._journal = cluster.disk.copy()
        self._name = name
        self.start = start
        self.ends = ends

    async def opened(self, at: int, tear: Tear, rng: random.Random) -> MemoryCluster:
        """A cluster, not yet started, over the data torn at a place."""
        journal = self._journal.copy()
        await journal.replace(self._name, tear(journal.content(self._name), at, rng))
        return MemoryCluster(journal, metadata=self._metadata.copy(), journal=SETTINGS)

    def acknowledged(self, at: int) -> int:
        """How many of the records in the torn file surely ended before the tear."""
        return sum(end <= at for end in self.ends)


async def _publish(cluster: MemoryCluster, payloads: list[bytes]) -> list[int]:
    """Publish, each durable before the next; where the newest file's data ended after each."""
    ends = []
    async with cluster.client() as client, client.producer(TOPIC, name="p") as producer:
        for payload in payloads:
            await (await producer.send(payload))
            ends.append(await _data_end(cluster.disk))
    return ends


async def _newest(disk: MemoryDisk) -> str:
    return max(name for name in await disk.list() if name.endswith(".log"))


async def _data_end(disk: MemoryDisk) -> int:
    """The last byte that was written, or a few more: what follows is reserved and zero."""
    return -(-len(disk.content(await _newest(disk)).rstrip(b"\0")) // 8) * 8


async def _torn() -> _Torn:
    cluster = MemoryCluster(MemoryDisk(), journal=SETTINGS)
    async with cluster:
        await _publish(cluster, BEFORE)
    async with cluster:
        start = await _data_end(cluster.disk)
        ends = await _publish(cluster, AFTER)
        return _Torn(cluster, await _newest(cluster.disk), start, ends)


@pytest.mark.slow
@pytest.mark.parametrize(("tear", "step"), [(_cut, 3), (_zeroed, 8), (_garbled, 8)])
async def test_a_broker_on_a_journal_torn_at_any_byte_serves_the_acknowledged_prefix(
    tear: Tear, step: int
) -> None:
    torn = await _torn()
    with seeded() as rng:
        for at in range(torn.start + rng.randrange(step), torn.ends[-1] + 1, step):
            async with await torn.opened(at, tear, rng) as cluster:
                found = await _check(cluster)
            assert len(found) >= len(BEFORE) + torn.acknowledged(at), f"torn at {at}"


async def _check(cluster: MemoryCluster) -> list[bytes]:
    """What is served: the first of what was published, and nothing else. The producer goes on."""
    async with cluster.client() as client:
        found = await _read(client, 0)
        assert found == (BEFORE + AFTER)[: len(found)]
        async with client.producer(TOPIC, name="p") as producer:
            told = await (await producer.send(b"goes on"))
        assert told.offset == len(found)
        assert await _read(client, told.offset) == [b"goes on"]
    return found


async def _read(client: Client, offset: int) -> list[bytes]:
    payloads: list[bytes] = []
    at_end = False
    while not at_end:
        read = await client.read(TOPIC, Start.offset(offset))
        payloads += [payload for batch in read for payload in batch.payloads]
        offset, at_end = read.next_offset, read.at_end
    return payloads
