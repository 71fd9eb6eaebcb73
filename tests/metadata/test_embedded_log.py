"""The embedded store's files: torn, damaged, exchanged for snapshots; requests durable together."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.errors import CorruptEntry, NotFound, Overloaded, StorageFailed, StorageFull
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.embedded.state import Change, KeyStored, LeaseGranted, LeaseRevoked, StoreState
from sulina.metadata.embedded.uncommitted import MAX_LEASES, UncommittedChanges
from sulina.metadata.store import (
    Absent,
    Delete,
    DeletePrefix,
    Event,
    Get,
    KeyValue,
    Listing,
    ModRevisionIs,
    Op,
    Put,
)
from sulina.runtime.memory_disk import MemoryDisk
from tests.metadata.harness import take
from tests.metadata.manual_clock import ManualClock

LOG = "metadata-00000000000000000001.log"
SNAPSHOT = "metadata.snapshot"


async def opened(disk: MemoryDisk, max_log_bytes: int = 1_000_000) -> EmbeddedStore:
    return await EmbeddedStore.open(ManualClock(), disk, max_log_bytes=max_log_bytes)


async def content(disk: MemoryDisk) -> Listing:
    store = await opened(disk)
    try:
        return await store.range("")
    finally:
        await store.close()


async def test_a_log_torn_at_any_byte_gives_the_whole_transactions_before_it() -> None:
    disk = MemoryDisk()
    store = await opened(disk)
    ends = [0]
    states = [await store.range("")]
    for number in range(4):
        await store.txn((), [Put("/same", bytes(number)), Put(f"/{number}", b"value")])
        ends.append(len(disk.content(LOG)))
        states.append(await store.range(""))
    await store.close()
    for size in range(ends[-1] + 1):
        whole = max(index for index, end in enumerate(ends) if end <= size)
        torn = disk.copy()
        torn.cut(LOG, size)
        store = await opened(torn)
        assert await store.range("") == states[whole], size
        # It is cut to the last whole transaction, and the next one takes its place.
        assert len(torn.content(LOG)) == ends[whole]
        revision = await store.put("/next", b"")
        assert revision == states[whole].revision + 1
        after = await store.range("")
        await store.close()
        assert await content(torn) == after


async def test_a_last_transaction_with_any_bit_wrong_is_cut() -> None:
    disk = MemoryDisk()
    store = await opened(disk)
    await store.put("/a", b"1")
    kept = await store.range("")
    end = len(disk.content(LOG))
    await store.put("/a", b"2")
    await store.close()
    for position in range(end, len(disk.content(LOG))):
        torn = disk.copy()
        torn.flip(LOG, position, position % 8)
        assert await content(torn) == kept


async def test_damage_before_acknowledged_transactions_is_reported_not_cut() -> None:
    disk = MemoryDisk()
    store = await opened(disk)
    await store.put("/a", b"1")
    end = len(disk.content(LOG))
    await store.put("/a", b"2")
    await store.close()
    for position in range(end):
        damaged = disk.copy()
        damaged.flip(LOG, position, position % 8)
        before = damaged.content(LOG)
        with pytest.raises(CorruptEntry, match="changes 1 to 1 cannot be read"):
            await opened(damaged)
        assert damaged.content(LOG) == before


@pytest.mark.parametrize("more", [0, 1])
async def test_a_lost_snapshot_is_reported_even_if_nothing_follows_it(more: int) -> None:
    disk = MemoryDisk()
    store = await opened(disk, max_log_bytes=1)
    for number in range(1 + more):
        await store.put("/a", str(number).encode())
    await store.close()
    await disk.remove(SNAPSHOT)
    with pytest.raises(CorruptEntry, match="changes 1 to 1 cannot be read"):
        await opened(disk)


async def test_the_log_is_exchanged_for_a_snapshot_when_it_is_long() -> None:
    disk = MemoryDisk()
    store = await opened(disk, max_log_bytes=5_000)
    for number in range(200):
        await store.put(f"/{number % 7}", bytes(100))
    before = await store.range("")
    await store.close()
    snapshot, *logs = sorted(await disk.list(), reverse=True)
    assert snapshot == SNAPSHOT
    assert len(logs) == 1
    assert len(disk.content(logs[0])) < 5_500
    assert await content(disk) == before


async def test_snapshots_become_rarer_as_the_store_grows() -> None:
    snapshots = 0

    async def count(operation: str, name: str) -> None:
        nonlocal snapshots
        snapshots += operation == "replace"

    disk = MemoryDisk(before=count)
    store = await opened(disk, max_log_bytes=1_000)
    for number in range(300):
        await store.put(f"/{number}", bytes(100))
    await store.close()
    # 60 kB in logs of 1 kB would be 60; each waits until the log is as long as the last snapshot.
    assert 3 <= snapshots <= 10


@pytest.mark.parametrize("failing", ["replace", "open", "list", "remove"])
@pytest.mark.parametrize("error", [StorageFull("no space"), StorageFailed("broken")])
async def test_a_snapshot_that_fails_costs_nothing_but_space(
    failing: str, error: Exception
) -> None:
    disk = MemoryDisk()
    store = await opened(disk, max_log_bytes=1_000)

    attempts = 0

    async def fail(operation: str, name: str) -> None:
        nonlocal attempts
        if operation == failing:
            attempts += 1
            raise error

    disk.before = fail
    for number in range(50):
        await store.put(f"/{number}", bytes(100))
    assert 1 <= attempts <= 10  # tried again from time to time, not at every change
    crashed = disk.copy()
    disk.before = None
    before = await store.range("")
    assert len(before.items) == 50
    assert await content(crashed) == before
    for number in range(100):
        await store.put(f"/{number}", bytes(100))
    before = await store.range("")
    await store.close()
    assert len(await disk.list()) == 2
    assert await content(disk) == before


async def test_a_crash_at_any_step_of_a_snapshot_loses_nothing() -> None:
    disks: list[MemoryDisk] = []
    steps: list[str] = []
    disk = MemoryDisk()

    async def remember(operation: str, name: str) -> None:
        steps.append(operation)
        disks.append(disk.copy())

    store = await opened(disk, max_log_bytes=300)
    await store.put("/a", bytes(100))
    before = await store.range("")
    disk.before = remember
    revision = await store.put("/b", bytes(200))
    after = await store.range("")
    await store.close()
    disk.before = None
    assert [step for step in steps if step in ("write", "replace", "open", "remove")] == [
        "write",
        "replace",
        "open",
        "remove",
    ]
    states = [await content(each) for each in [*disks, disk]]
    assert all(state in (before, after) for state in states)
    assert [state.revision for state in states] == sorted(state.revision for state in states)
    assert states[-1].revision == revision


async def test_damage_to_what_the_snapshot_covers_does_not_matter() -> None:
    disk = MemoryDisk()

    async def fail(operation: str, name: str) -> None:
        if operation == "open":
            raise StorageFull("no space")

    store = await opened(disk, max_log_bytes=300)
    disk.before = fail  # so that the old log goes on behind the snapshot
    for number in range(5):
        await store.put(f"/{number}", bytes(100))
    before = await store.range("")
    await store.close()
    disk.before = None
    assert await disk.list() == [LOG, SNAPSHOT]
    disk.flip(LOG, 30)
    assert await content(disk) == before


async def test_a_power_cut_during_writes_keeps_every_answered_one() -> None:
    for seed in range(150):
        chance = random.Random(seed)
        disk = MemoryDisk()
        store = await opened(disk, max_log_bytes=chance.choice((500, 1_000_000)))
        answered = -1

        async def write(store: EmbeddedStore = store, chance: random.Random = chance) -> None:
            nonlocal answered
            for number in range(100):
                await store.txn(
                    (), [Put("/a", str(number).encode()), Put("/b", bytes(chance.randrange(2_000)))]
                )
                answered = number

        writing = asyncio.create_task(write())
        for _ in range(chance.randrange(150)):
            await asyncio.sleep(0)
        successor = disk.crash(chance)
        kept = answered
        await asyncio.wait([writing])
        assert writing.done()
        writing.exception()
        await store.close()
        listing = await content(successor)
        found = int(listing.items[0].value) if listing.items else -1
        assert found in (kept, kept + 1), seed
        assert len({item.mod_revision for item in listing.items}) <= 1


Request = Callable[[EmbeddedStore], Awaitable[object]]


def transact(key: str, revision: int, op: Op) -> Request:
    return lambda store: store.txn([ModRevisionIs(key, revision)], [op, Get(key)], [Get(key)])


def revoke(lease: int) -> Request:
    return lambda store: store.revoke_lease(lease)


async def grant(store: EmbeddedStore) -> int:
    return (await store.grant(10)).id


keys = st.sampled_from(["/a", "/a/x", "/a/y", "/b"])
leases = st.integers(0, 3)
puts = st.builds(Put, keys, st.binary(max_size=2), leases)
ops = puts | st.builds(Delete, keys) | st.builds(DeletePrefix, st.sampled_from(["/a", "/a/", "/b"]))
requests = st.one_of(
    st.just(grant),
    st.builds(revoke, leases),
    st.builds(transact, keys, st.integers(0, 5), ops),
    st.builds(lambda op: lambda store: store.txn((), [op]), ops),
)


async def outcome_of(store: EmbeddedStore, request: Request) -> object:
    try:
        return await request(store)
    except NotFound as error:
        return str(error)


async def result(store: EmbeddedStore) -> tuple[object, list[Event], KeyValue | None]:
    """Everything there is to see of a store, and whether leases still work in it."""
    listing = await store.range("")
    mark = await store.put("/mark", b"")
    watch = store.watch("", from_revision=1)
    events: list[Event] = []
    while not events or events[-1].mod_revision < mark:
        events += await take(watch, 1)
    for lease in range(1, 4):
        await store.revoke_lease(lease)
    left = await store.range("")
    return (listing, left), events, await store.get("/mark")


@settings(max_examples=200, deadline=None)
@given(before=st.lists(requests, max_size=8), group=st.lists(requests, max_size=8))
def test_a_group_gives_what_its_requests_give_one_by_one(
    before: list[Request], group: list[Request]
) -> None:
    async def check() -> None:
        disk = MemoryDisk()
        together = await EmbeddedStore.open(ManualClock(), disk)
        apart = await EmbeddedStore.open(ManualClock())
        for request in before:
            assert await outcome_of(together, request) == await outcome_of(apart, request)
        expected = [await outcome_of(apart, request) for request in group]
        found = await asyncio.gather(*(outcome_of(together, request) for request in group))
        assert found == expected
        assert await result(together) == await result(apart)
        listing = await together.range("")
        await together.close()
        reopened = await EmbeddedStore.open(ManualClock(), disk)
        assert await reopened.range("") == listing
        await reopened.close()
        await apart.close()

    asyncio.run(check())


async def test_a_swap_sees_the_swap_before_it_in_the_same_group() -> None:
    store = await EmbeddedStore.open(ManualClock())
    first, second, third = await asyncio.gather(
        store.txn([Absent("/a")], [Put("/a", b"1")]),
        store.txn([Absent("/a")], [Put("/a", b"2")]),
        store.txn([ModRevisionIs("/a", 2)], [Put("/a", b"3")]),
    )
    assert (first.succeeded, second.succeeded, third.succeeded) == (True, False, True)
    await store.close()


async def test_a_key_let_go_in_the_same_group_does_not_go_with_its_lease() -> None:
    store = await EmbeddedStore.open(ManualClock())
    lease = await store.grant(10)
    await store.put("/a", b"", lease=lease.id)
    await asyncio.gather(store.put("/a", b""), lease.revoke())
    assert await store.get("/a") is not None
    await store.close()


async def test_a_bounded_number_of_changes_waits_for_the_disk() -> None:
    reached, open_gate = asyncio.Event(), asyncio.Event()

    async def gate(operation: str, name: str) -> None:
        if operation == "sync":
            reached.set()
            await open_gate.wait()

    disk = MemoryDisk()
    store = await EmbeddedStore.open(ManualClock(), disk)
    disk.before = gate
    value = bytes(1_000_000)
    writes = [asyncio.create_task(store.put("/first", b""))]
    await reached.wait()
    writes += [asyncio.create_task(store.put("/a", value)) for _ in range(100)]
    await asyncio.sleep(0)
    refused = [write for write in writes if write.done()]
    assert 30 < len(refused) < 50
    for write in refused:
        assert isinstance(write.exception(), Overloaded)
    open_gate.set()
    taken = await asyncio.gather(*(write for write in writes if write not in refused))
    assert sorted(taken) == list(range(2, 2 + len(taken)))
    await store.close()


def test_a_state_forgets_which_lease_a_key_had_before() -> None:
    state = StoreState()
    changes: list[Change] = [
        LeaseGranted(1, 10),
        LeaseGranted(2, 10),
        KeyStored(KeyValue("/a", b"", 2, 2, 1, 1)),
        KeyStored(KeyValue("/a", b"", 2, 3, 2, 2)),
        LeaseRevoked(1),
    ]
    for change in changes:
        state.apply(change)
    assert list(state.bound_to(1)) == []
    assert list(state.bound_to(2)) == ["/a"]


def test_a_bounded_number_of_leases_is_given() -> None:
    uncommitted = UncommittedChanges(StoreState())
    for _ in range(MAX_LEASES):
        uncommitted.grant(10)
    with pytest.raises(Overloaded, match="leases"):
        uncommitted.grant(10)
