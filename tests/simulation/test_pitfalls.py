"""Known pitfalls of the ledger protocol, one scenario each.

Where a safeguard can be left out, the same scenario shows the damage without it, which proves that
the test can fail.
"""

from __future__ import annotations

import asyncio

import pytest

from broker_containers.topic_log.ledger_settings import LedgerSettings
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topic_log.tail_cache import CachedFrame
from storage_grpc.node import MaybeLost
from storage_grpc.quorum.writer import QuorumWriter
from sulina.errors import CorruptEntry, Fenced, NotFound, Retriable, SulinaError, Unavailable
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.keys import ledger_metadata, namespaces, topic_lifecycle
from sulina.metadata.keys.ledgers import LedgerIds
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import Compacted
from sulina.names import TopicName
from sulina.runtime.memory_disk import MemoryDisk
from sulina.wire.encode import Origin, encode_frame
from tests.simulation.bench import LEDGER, GatedNode, QuorumBench, on_bench
from tests.support.logs import append

_TOPIC = TopicName.parse("/default/t")


def _confirmed(appended: asyncio.Future[None]) -> bool:
    return appended.done() and not appended.cancelled() and appended.exception() is None


# ---- unfenced recovery reads lose acknowledged data ----


async def _late_append(bench: QuorumBench) -> tuple[bool, int]:
    """b has the entry before it is fenced; c is asked for it before it gets it."""
    a, b, c = bench.nodes
    writer = await bench.ledgers().create(LEDGER)
    a.hold("append")
    c.hold("append", "fence")
    appended = writer.append(b"x")
    await bench.settle()
    b.hold("read")
    last = await bench.ledgers().recover(LEDGER)
    c.release("append")
    await bench.settle()
    return _confirmed(appended), last


def test_a_recovery_read_fences_so_that_no_late_append_is_acknowledged() -> None:
    assert on_bench(_late_append) == (False, -1)


def test_unfenced_recovery_reads_lose_acknowledged_data() -> None:
    assert on_bench(_late_append, without="fence_on_recovery_read") == (True, -1)


# ---- recovery that looks at an older fragment ----


async def _moved_ensemble(bench: QuorumBench) -> int:
    a, b, c, *_ = bench.nodes
    writer = await bench.ledgers().create(LEDGER)
    await writer.append(b"first")
    a.down = b.down = True
    await writer.append(b"second")
    await writer.append(b"third")
    a.down = b.down = False
    c.hold("read", "fence")
    return await bench.ledgers().recover(LEDGER)


def test_recovery_asks_the_ensemble_of_the_last_fragment() -> None:
    assert on_bench(_moved_ensemble, 5) == 2


def test_recovery_that_looks_at_an_older_fragment_loses_entries() -> None:
    assert on_bench(_moved_ensemble, 5, without="recover_from_last_fragment") < 2


# ---- confirming on an ensemble that is not in the metadata ----


async def _unwritten_change(bench: QuorumBench) -> tuple[bool, bool]:
    """a is replaced by d while the metadata store does not answer."""
    a, _, c, _ = bench.nodes
    writer = await bench.ledgers().create(LEDGER)
    answer = asyncio.Event()
    txn = bench.metadata.txn

    async def slow_txn(*args: object) -> object:
        await answer.wait()
        return await txn(*args)  # type: ignore[arg-type]

    bench.metadata.txn = slow_txn  # type: ignore[method-assign, assignment]
    a.down = True
    c.hold("append")
    appended = writer.append(b"x")
    await bench.settle()
    before = _confirmed(appended)
    answer.set()
    await bench.settle()
    return before, _confirmed(appended)


def test_a_new_node_counts_only_once_it_is_in_the_metadata() -> None:
    assert on_bench(_unwritten_change, 4) == (False, True)


def test_confirming_on_an_ensemble_that_is_not_in_the_metadata_is_what_the_rule_prevents() -> None:
    assert on_bench(_unwritten_change, 4, without="commit_before_confirm") == (True, True)


# ---- an ensemble change racing an acknowledgement ----


async def _ack_of_a_failed_node(bench: QuorumBench) -> bool:
    """a has the entry and fails; then b has it, and neither c nor d, who are left with b."""
    a, b, c, d = bench.nodes
    writer = await bench.ledgers().create(LEDGER)
    for node in (b, c, d):
        node.hold("append")
    appended = writer.append(b"x")
    await bench.settle()
    a.down = True
    writer.append(b"y")
    await bench.settle()
    b.release("append")
    await bench.settle()
    return _confirmed(appended)


def test_a_node_that_failed_does_not_count_for_entries_above_the_lac() -> None:
    assert on_bench(_ack_of_a_failed_node, 4) is False


def test_an_ensemble_change_racing_an_ack_confirms_too_early_without_the_rule() -> None:
    assert on_bench(_ack_of_a_failed_node, 4, without="drop_failed_from_confirmed") is True


# ---- corruption, wiped disks, crashes ----


def _damage(node: GatedNode, payload: bytes) -> None:
    for name in sorted(node.disk._files):
        at = node.disk.content(name).find(payload)
        if at >= 0:
            node.disk.flip(name, at)


async def _recover_with_one_damaged_copy(bench: QuorumBench) -> int | str:
    """Only a and b have the entry; a's is damaged and b is silent."""
    a, b, c = bench.nodes
    c.hold("append")
    writer = await bench.ledgers().create(LEDGER)
    await writer.append(b"precious")
    _damage(a, b"precious")
    b.hold("read", "fence")
    try:
        return await bench.ledgers().recover(LEDGER)
    except Retriable:
        return "unknown"


def test_a_corrupt_file_is_not_answered_as_no_such_entry() -> None:
    assert on_bench(_recover_with_one_damaged_copy) == "unknown"


def test_taking_an_unknown_answer_for_a_denial_cuts_the_ledger() -> None:
    assert on_bench(_recover_with_one_damaged_copy, without="unknown_is_not_absent") == -1


def test_a_damaged_entry_is_called_damaged_also_after_a_restart() -> None:
    async def scenario(bench: QuorumBench) -> None:
        (a,) = bench.nodes
        await a.node.append(LEDGER, 0, -1, b"precious")
        _damage(a, b"precious")
        with pytest.raises(CorruptEntry):
            await a.node.read(LEDGER, 0, max_entries=1, max_bytes=1)
        await a.lose_power()
        with pytest.raises(SulinaError) as told:
            await a.node.read(LEDGER, 0, max_entries=1, max_bytes=1)
        assert not isinstance(told.value, NotFound)

    on_bench(scenario, 1)


def test_one_flipped_bit_on_one_node_does_not_spread_to_others() -> None:
    async def scenario(bench: QuorumBench) -> None:
        a, b, c = bench.nodes
        c.hold("append")
        writer = await bench.ledgers().create(LEDGER)
        await writer.append(b"precious")
        _damage(a, b"precious")
        c.release("append")
        assert await bench.ledgers().recover(LEDGER) == 0
        for node in (b, c):
            (entry,) = await node.node.read(LEDGER, 0, max_entries=1, max_bytes=1)
            assert entry.payload == b"precious"

    on_bench(scenario)


def test_a_wiped_node_that_rejoins_is_another_member() -> None:
    async def scenario(bench: QuorumBench) -> None:
        a, b, c = bench.nodes
        c.hold("append")
        writer = await bench.ledgers().create(LEDGER)
        await writer.append(b"x")
        before = a.id
        a.disk = MemoryDisk()
        await a.start()
        a.id = a.id[:-1] + "#"  # whatever the new incarnation is, it is not the old one
        assert a.id != before
        b.hold("read", "fence")
        with pytest.raises(Unavailable):
            await bench.ledgers().recover(LEDGER)
        b.release("read", "fence")
        assert await bench.ledgers().recover(LEDGER) == 0

    on_bench(scenario)


def test_one_hung_node_does_not_block_fencing_and_recovery() -> None:
    async def scenario(bench: QuorumBench) -> None:
        writer = await bench.ledgers().create(LEDGER)
        await writer.append(b"x")
        await bench.settle()
        bench.nodes[2].hold("append", "read", "fence")
        began = bench.clock.now()
        assert await bench.ledgers().recover(LEDGER) == 0
        # The rewriting of an entry waits for all once, never for ever.
        assert bench.clock.now() - began <= bench.timeouts.call

    on_bench(scenario)


def test_a_write_after_a_delete_is_refused_also_after_a_restart() -> None:
    async def scenario(bench: QuorumBench) -> None:
        (a,) = bench.nodes
        await a.node.append(LEDGER, 0, -1, b"x")
        await a.node.delete(LEDGER)
        for _ in range(2):
            with pytest.raises(NotFound):
                await a.node.append(LEDGER, 1, 0, b"y")
            assert a.store.stat(LEDGER) is None
            await a.lose_power()

    on_bench(scenario, 1)


def test_a_fence_survives_a_crash() -> None:
    async def scenario(bench: QuorumBench) -> None:
        (a,) = bench.nodes
        await a.node.append(LEDGER, 0, -1, b"x")
        await a.node.fence(LEDGER)
        await a.lose_power()
        with pytest.raises(Fenced):
            await a.node.append(LEDGER, 1, 0, b"y")

    on_bench(scenario, 1)


def test_a_tail_lost_in_a_crash_is_not_denied() -> None:
    async def scenario(bench: QuorumBench) -> None:
        (a,) = bench.nodes
        await a.node.append(LEDGER, 0, -1, b"x")
        name = max(n for n in a.disk._files if n.endswith(".log"))
        a.disk.cut(name, a.disk.content(name).find(b"x\0\0\0\0\0\0\0"))
        await a.lose_power()
        with pytest.raises(MaybeLost):
            await a.node.read(LEDGER, 0, max_entries=1, max_bytes=1)

    on_bench(scenario, 1)


def test_a_fence_lost_with_the_tail_of_a_journal_lets_no_owner_of_old_confirm() -> None:
    async def scenario(bench: QuorumBench) -> tuple[bool, int]:
        a, _, c = bench.nodes
        writer = await bench.ledgers().create(LEDGER)
        for node in bench.nodes:
            node.hold("append")
        appended = writer.append(b"x")
        c.hold("fence", "read")
        before = {name: a.disk.content(name) for name in await a.disk.list()}
        last = await bench.ledgers().recover(LEDGER)
        for name, content in before.items():
            await a.disk.replace(name, content)
        await a.lose_power()
        a.release("append")
        c.release("append")
        await bench.settle(0.5)
        return _confirmed(appended), last

    assert on_bench(scenario) == (False, -1)


def test_nothing_is_acknowledged_before_it_is_synced() -> None:
    async def scenario(bench: QuorumBench) -> None:
        (a,) = bench.nodes
        synced = asyncio.Event()

        async def before(operation: str, name: str) -> None:
            if operation == "sync":
                await synced.wait()

        a.disk.before = before
        appended = a.node.append(LEDGER, 0, -1, b"x")
        await bench.settle()
        assert not appended.done()
        synced.set()
        await appended

    on_bench(scenario, 1)


# ---- the metadata store is no lock ----


def test_a_watch_across_a_compaction_is_told_that_events_are_lost() -> None:
    async def scenario(bench: QuorumBench) -> None:
        for number in range(5):
            await bench.metadata.put("/k", str(number).encode())
        revision = await bench.metadata.put("/k", b"last")
        watch = bench.metadata.watch("/k", from_revision=2)
        await bench.metadata.compact(revision)
        with pytest.raises(Compacted):
            await anext(watch)

    on_bench(scenario, 1)


async def _topic(store: EmbeddedStore) -> None:
    await namespaces.create_first(store)
    await topic_lifecycle.create(store, _TOPIC, TopicRecord())


async def _open(bench: QuorumBench) -> ManagedLedger:
    return await ManagedLedger.open(
        _TOPIC,
        bench.ledgers(),
        bench.metadata,
        LedgerIds(bench.metadata),
        bench.clock,
        LedgerSettings(),
    )


def _append(log: ManagedLedger, sequence: int) -> asyncio.Future[CachedFrame]:
    return append(log, encode_frame(Origin("p"), sequence, [b"r%d" % sequence], 1))


def test_an_owner_that_believes_in_its_lease_is_fenced_all_the_same() -> None:
    async def scenario(bench: QuorumBench) -> None:
        await _topic(bench.metadata)
        old = await _open(bench)
        lease = await bench.metadata.grant(5)
        await _append(old, 0)
        assert lease.alive()  # and yet another takes over
        new = await _open(bench)
        with pytest.raises(SulinaError):
            await _append(old, 1)
        assert old.end == 1
        await _append(new, 1)
        assert new.end == 2 and new.epoch > old.epoch

    on_bench(scenario)


# ---- found by the simulation ----


def test_a_ledger_is_recovered_after_all_its_nodes_lost_power() -> None:
    async def scenario(bench: QuorumBench) -> None:
        writer = await bench.ledgers().create(LEDGER)
        await writer.append(b"x")
        for node in bench.nodes:
            await node.lose_power()
        assert await bench.ledgers().recover(LEDGER) == 0

    on_bench(scenario)


def test_two_unsure_nodes_do_not_outvote_a_silent_one() -> None:
    async def scenario(bench: QuorumBench) -> None:
        a, b, c = bench.nodes
        c.hold("append")
        writer = await bench.ledgers().create(LEDGER)
        await writer.append(b"x")
        for node in (a, c):
            await node.lose_power()
        _damage(a, b"x")
        b.hold("read")
        with pytest.raises(Unavailable):
            await bench.ledgers().recover(LEDGER)

    on_bench(scenario)


def test_entries_behind_the_end_of_a_closed_ledger_are_not_served() -> None:
    async def scenario(bench: QuorumBench) -> None:
        a, b, c = bench.nodes
        ledgers = bench.ledgers()
        writer = await ledgers.create(LEDGER)
        await writer.append(b"kept")
        b.hold("append")
        c.hold("append")
        writer.append(b"never confirmed")
        await bench.settle()
        assert a.has(1)
        a.hold("read", "fence")
        assert await bench.ledgers().recover(LEDGER) == 0
        a.release("read", "fence")
        for node in (b, c):
            node.hold("read")
        found = await bench.ledgers().read(LEDGER, 0, max_entries=100, max_bytes=1 << 20)
        assert [entry.payload for entry in found] == [b"kept"]

    on_bench(scenario)


def test_a_reader_comes_back_to_what_was_not_confirmed_when_it_looked() -> None:
    async def scenario(bench: QuorumBench) -> None:
        await _topic(bench.metadata)
        log = await _open(bench)
        await _append(log, 0)
        reader = log.reader(0)
        b, c = bench.nodes[1:]
        b.hold("append")
        c.hold("append")
        second = _append(log, 1)
        await bench.settle()
        for node in (b, c):
            node.hold("read")  # a has the second frame, unconfirmed
        assert [frame.base for frame in await reader.read(1 << 20)] == [0]
        for node in (b, c):
            node.release("append", "read")
        await second
        assert [frame.base for frame in await reader.read(1 << 20)] == [1]

    on_bench(scenario)


def test_no_ensemble_has_one_machine_twice() -> None:
    async def scenario(bench: QuorumBench) -> None:
        a, b, c = bench.nodes
        writer = await bench.ledgers().create(LEDGER)
        await writer.append(b"x")
        a.down = b.down = True
        writer.append(b"y")
        await bench.settle()
        a.disk = MemoryDisk()
        await a.start()
        a.id = "a@fresh"
        a.down = False
        await bench.settle(1.0)
        assert isinstance(writer, QuorumWriter)
        (*_, fragment) = (await ledger_metadata.get(bench.metadata, LEDGER)).value.fragments
        assert fragment.ensemble == ("a@fresh", b.id, c.id)

    on_bench(scenario)


def test_a_node_that_goes_while_a_ledger_is_created_is_replaced() -> None:
    async def scenario(bench: QuorumBench) -> None:
        a, b, c, d, e = bench.nodes
        txn = bench.metadata.txn

        async def txn_in_the_wrong_moment(*args: object) -> object:
            a.id, b.id = "a@fresh", "b@fresh"
            return await txn(*args)  # type: ignore[arg-type]

        bench.metadata.txn = txn_in_the_wrong_moment  # type: ignore[method-assign, assignment]
        writer = await bench.ledgers().create(LEDGER)
        await writer.append(b"x")
        assert writer.lac == 0 and c.has(0) and (d.has(0) or e.has(0) or a.has(0) or b.has(0))

    on_bench(scenario, 5)


def test_a_node_that_was_replaced_is_taken_back_when_its_replacement_goes() -> None:
    async def scenario(bench: QuorumBench) -> None:
        a, b, c = bench.nodes
        c.down = True
        writer = await bench.ledgers().create(LEDGER)
        await writer.append(b"on a and b")
        b.down, c.down = True, False
        await writer.append(b"on a and c")
        a.down, b.down = True, False
        await writer.append(b"on b and c")
        assert b.has(2) and c.has(2)
        a.down, b.down = False, True
        assert await bench.ledgers().recover(LEDGER) == 2

    on_bench(scenario)


@pytest.mark.parametrize("calls", range(6))
def test_the_end_and_the_sequences_survive_an_owner_that_is_lost_while_it_deletes_all_records(
    calls: int,
) -> None:
    async def scenario(bench: QuorumBench) -> None:
        await _topic(bench.metadata)
        old = await _open(bench)
        for sequence in range(3):
            await _append(old, sequence)
        txn, made = bench.metadata.txn, 0

        async def txn_until_the_owner_is_lost(*args: object) -> object:
            nonlocal made
            made += 1
            if made > calls:
                await asyncio.Event().wait()
            return await txn(*args)  # type: ignore[arg-type]

        async def delete_all() -> None:
            await old.begin()
            await old.removal.trim(old.refs[:-1])

        bench.metadata.txn = txn_until_the_owner_is_lost  # type: ignore[method-assign, assignment]
        deleting = asyncio.create_task(delete_all())
        await bench.settle(1.0)
        bench.metadata.txn = txn  # type: ignore[method-assign]
        new = await _open(bench)
        assert new.end == 3
        assert new.dedup.snapshot() == old.dedup.snapshot()
        await _append(new, 3)
        assert new.end == 4
        deleting.cancel()

    on_bench(scenario)
