"""Requests that become durable together: the same as one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.errors import NotFound, Overloaded
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
    ModRevisionIs,
    Op,
    Put,
    VersionIs,
)
from sulina.runtime.memory_disk import MemoryDisk
from tests.metadata.harness import take
from tests.metadata.manual_clock import ManualClock

Request = Callable[[EmbeddedStore], Awaitable[object]]


def transact(key: str, version: int, op: Op) -> Request:
    return lambda store: store.txn([VersionIs(key, version)], [op, Get(key)], [Get(key)])


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
    st.builds(transact, keys, st.integers(0, 2), ops),
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
