"""Replicated ledgers on three storage processes, while nodes are killed, frozen, full and damaged.

Nothing acknowledged is lost, no append fails while one node of three is down, and wrong bytes are
never served.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import pytest_asyncio

from storage_grpc.ledgers import LedgerWriter
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.settings import QuorumSettings, QuorumTimeouts
from storage_grpc.remote import RemoteNodes
from sulina.errors import CorruptEntry, Fenced
from sulina.metadata.embedded import EmbeddedStore
from sulina.runtime.real_clock import RealClock
from tests.storage_service.process import PATIENCE, StorageProcess, storage_processes
from tests.storage_service.serving import QUICK

TIMEOUTS = QuorumTimeouts(append=1.0, call=2.0)


def content(ledger: int, entry: int) -> bytes:
    return b"ledger %d, entry %d; " % (ledger, entry) * (entry % 50 + 10)


@dataclass
class QuorumNodes:
    """Storage processes and the ledger client of a broker."""

    processes: list[StorageProcess]
    metadata: EmbeddedStore
    nodes: RemoteNodes
    ledgers: QuorumLedgers

    @asynccontextmanager
    async def another_broker(self) -> AsyncIterator[QuorumLedgers]:
        """Ledgers of another broker, which shares only the metadata with the first."""
        async with brokers_way(self.processes, self.metadata) as (_, ledgers):
            yield ledgers


@asynccontextmanager
async def brokers_way(
    processes: list[StorageProcess], metadata: EmbeddedStore
) -> AsyncIterator[tuple[RemoteNodes, QuorumLedgers]]:
    """The ledgers of a broker that sees every running node."""
    places = [process.place for process in processes]
    async with RemoteNodes(places, RealClock(), random.Random(1), QUICK) as nodes:
        async with asyncio.timeout(PATIENCE):
            await nodes.ready(sum(process.running for process in processes))
        yield nodes, QuorumLedgers(nodes, metadata, RealClock(), QuorumSettings(), TIMEOUTS)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[StorageProcess]]:
    """Three nodes for all tests of this module; each test leaves them running."""
    with storage_processes(tmp_path_factory.mktemp("nodes")) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def cluster(processes: list[StorageProcess]) -> AsyncIterator[QuorumNodes]:
    metadata = await EmbeddedStore.open(RealClock())
    async with brokers_way(processes, metadata) as (nodes, ledgers):
        yield QuorumNodes(processes, metadata, nodes, ledgers)
    await metadata.close()
    for process in processes:
        if not process.running:
            await process.start()
        process.thaw()
        process.free_disk()


@pytest.fixture
def ledger() -> int:
    """An id that no other test has used."""
    return next(_ids)


_ids = itertools.count(1)


async def append(
    ledgers: QuorumLedgers,
    writer: LedgerWriter,
    count: int,
    *,
    first: int = 0,
    at: int | None = None,
    do: Callable[[], object] = lambda: None,
) -> None:
    """Append with the backpressure of a publisher; ``do`` runs in between. None may fail."""
    waiting = []
    for entry in range(first, first + count):
        await ledgers.wait_writable()
        waiting.append(writer.append(content(writer.ledger, entry)))
        if entry == at:
            do()
        if entry % 50 == 0:
            await waiting[len(waiting) // 2]
    await asyncio.gather(*waiting)


async def check(ledgers: QuorumLedgers, ledger: int, last: int) -> None:
    """Every entry up to ``last`` is present, in order, with its bytes."""
    entry = 0
    while entry <= last:
        found = await ledgers.read(ledger, entry, max_entries=500, max_bytes=1 << 20)
        for read in found:
            assert read.entry == entry
            assert bytes(read.payload) == content(ledger, entry)
            entry += 1


async def test_thousands_of_entries_are_written_closed_and_read_back(
    cluster: QuorumNodes, ledger: int
) -> None:
    writer, other = [await cluster.ledgers.create(id) for id in (ledger, next(_ids))]
    await asyncio.gather(*(append(cluster.ledgers, each, 2000) for each in (writer, other)))
    for each in (writer, other):
        assert await each.close() == 1999
        await check(cluster.ledgers, each.ledger, 1999)
    async with cluster.another_broker() as ledgers:
        assert await ledgers.recover(ledger) == 1999
        await check(ledgers, ledger, 1999)
        await ledgers.delete(ledger)
    for process in cluster.processes:
        node = cluster.nodes.get(process.member)
        assert node is not None
        assert ledger not in await node.ledgers()
        assert other.ledger in await node.ledgers()


async def test_no_append_fails_when_a_node_is_killed_and_a_new_ledger_is_whole_when_it_is_back(
    cluster: QuorumNodes, ledger: int
) -> None:
    writer = await cluster.ledgers.create(ledger)
    victim = cluster.processes[1]
    await append(cluster.ledgers, writer, 2000, at=1000, do=victim.kill)
    assert await writer.close() == 1999
    await check(cluster.ledgers, ledger, 1999)
    # With two of three nodes a ledger has fewer copies; with all three it has all again.
    small = await cluster.ledgers.create(next(_ids))
    assert small.metadata.under_replicated
    await append(cluster.ledgers, small, 100)
    await victim.start()
    async with asyncio.timeout(PATIENCE):
        await cluster.nodes.ready(3)
    assert small.wants_roll
    whole = await cluster.ledgers.create(next(_ids))
    assert victim.member in whole.metadata.ensemble_of(0)
    await append(cluster.ledgers, whole, 100)
    await check(cluster.ledgers, ledger, 1999)


async def test_no_append_fails_while_a_node_stands_still(cluster: QuorumNodes, ledger: int) -> None:
    writer = await cluster.ledgers.create(ledger)
    frozen = cluster.processes[2]
    await append(cluster.ledgers, writer, 1000, at=300, do=frozen.freeze)
    # Longer than the timeout: it is replaced, and reads use other nodes.
    async with asyncio.timeout(PATIENCE):
        while frozen.member in {node.id for node in cluster.nodes.choose(3)}:
            await asyncio.sleep(0.02)
    await append(cluster.ledgers, writer, 500, first=1000)
    await check(cluster.ledgers, ledger, 1499)
    assert await writer.close() == 1499


async def test_a_ledger_whose_writer_vanished_is_recovered_with_all_that_was_acknowledged(
    cluster: QuorumNodes, ledger: int
) -> None:
    async with cluster.another_broker() as gone:
        writer = await gone.create(ledger)
        await append(gone, writer, 2000)
        waiting = [writer.append(content(ledger, entry)) for entry in range(2000, 2200)]
        await waiting[50]
    # Its connections are lost without being closed.
    acknowledged = 2000 + sum(done.done() and done.exception() is None for done in waiting)
    last = await cluster.ledgers.recover(ledger)
    assert last >= acknowledged - 1
    await check(cluster.ledgers, ledger, last)
    assert await cluster.ledgers.recover(ledger) == last


async def test_an_open_ledger_is_recovered_after_all_nodes_lost_power_at_once(
    cluster: QuorumNodes, ledger: int
) -> None:
    async with cluster.another_broker() as gone:
        await append(gone, await gone.create(ledger), 300)
        for process in cluster.processes:
            process.kill()
    for process in cluster.processes:
        process.pretend_reboot()
        await process.start()
        assert process.ready["unclean"] is True
    async with cluster.another_broker() as newer:
        assert await newer.recover(ledger) == 299
        await check(newer, ledger, 299)


async def test_a_writer_with_a_newer_owner_confirms_nothing_more(
    cluster: QuorumNodes, ledger: int
) -> None:
    writer = await cluster.ledgers.create(ledger)
    await append(cluster.ledgers, writer, 100)
    async with cluster.another_broker() as newer:
        assert await newer.recover(ledger) == 99
        with pytest.raises(Fenced):
            await writer.append(content(ledger, 100))
        await check(newer, ledger, 99)


async def test_a_node_that_lost_its_disk_is_somebody_else_and_the_data_is_still_there(
    cluster: QuorumNodes, ledger: int
) -> None:
    writer = await cluster.ledgers.create(ledger)
    await append(cluster.ledgers, writer, 500)
    victim = cluster.processes[0]
    before = victim.member
    victim.kill()
    victim.wipe()
    await victim.start()
    assert victim.member != before
    async with asyncio.timeout(PATIENCE):
        while cluster.nodes.get(victim.member) is None:
            await asyncio.sleep(0.02)
    assert cluster.nodes.get(before) is None
    # The writer continues, and a recovery by another broker finds everything.
    await append(cluster.ledgers, writer, 500, first=500)
    async with cluster.another_broker() as newer:
        assert await newer.recover(ledger) == 999
        await check(newer, ledger, 999)


async def test_no_append_fails_when_the_disk_of_a_node_is_full(
    cluster: QuorumNodes, ledger: int
) -> None:
    writer = await cluster.ledgers.create(ledger)
    full = cluster.processes[1]
    await append(cluster.ledgers, writer, 4000, at=100, do=full.fill_disk)
    assert await writer.close() == 3999
    node = cluster.nodes.get(full.member)
    stat = None if node is None else await node.stat(ledger)
    assert stat is not None and stat.last_entry < 3999
    await check(cluster.ledgers, ledger, 3999)


async def test_a_flipped_bit_on_one_node_is_never_served(cluster: QuorumNodes, ledger: int) -> None:
    writer = await cluster.ledgers.create(ledger)
    await append(cluster.ledgers, writer, 300)
    await writer.close()
    for victim in cluster.processes:
        # In the payloads, all over one node at a time, while it runs.
        assert flip(victim, ledger, range(0, 300, 10)) == 30
        node = cluster.nodes.get(victim.member)
        assert node is not None
        with pytest.raises(CorruptEntry):
            await node.read(ledger, 0, max_entries=1, max_bytes=1)
        await check(cluster.ledgers, ledger, 299)
        assert flip(victim, ledger, range(0, 300, 10)) == 30


def flip(process: StorageProcess, ledger: int, entries: range) -> int:
    """Flip one bit in the payload of each of these entries; returns how many were found."""
    found = 0
    for path in process.journal_files():
        data = path.read_bytes()
        with path.open("r+b") as file:
            for entry in entries:
                half = content(ledger, entry)[:-8]
                place = data.find(half)
                if place >= 0:
                    file.seek(place + len(half))
                    file.write(bytes([data[place + len(half)] ^ 16]))
                    found += 1
    return found
