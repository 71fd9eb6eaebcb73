"""The promises of every entry store."""

from __future__ import annotations

import asyncio
from functools import partial
from types import NoneType

import pytest

from storage_grpc.entries import EntryStore, LedgerStat
from sulina.errors import Closed, Fenced, NotFound, Refused, TooLarge
from tests.storage.stores import fill, payloads, read_all


async def test_an_entry_is_read_back_with_its_bytes_and_its_lac(store: EntryStore) -> None:
    await store.append(7, 0, -1, b"frame")
    [entry] = await read_all(store, 7)
    assert (entry.ledger, entry.entry, entry.lac, bytes(entry.payload)) == (7, 0, -1, b"frame")


@pytest.mark.parametrize("size", [1, 7, 8, 9, 511, 4096, 100_000])
async def test_entries_of_any_size_come_back_whole(store: EntryStore, size: int) -> None:
    content = bytes(i * 31 & 0xFF for i in range(size))
    await fill(store, 1, [content, content[::-1]])
    assert await payloads(store, 1) == [content, content[::-1]]


async def test_a_payload_may_be_any_buffer_or_several(store: EntryStore) -> None:
    await store.append(1, 0, -1, bytearray(b"abc"))
    await store.append(1, 1, 0, memoryview(b"xabcx")[1:4])
    await store.append(1, 2, 1, [b"a", memoryview(b"bc"), bytearray(b"")])
    assert await payloads(store, 1) == [b"abc"] * 3


async def test_futures_are_done_in_the_order_of_the_appends(store: EntryStore) -> None:
    finished: list[tuple[int, int]] = []

    def note(entry: int, ledger: int, _: asyncio.Future[None]) -> None:
        finished.append((entry, ledger))

    waiting = []
    for entry in range(50):
        for ledger in (1, 2):
            done = store.append(ledger, entry, entry - 1, b"x" * 600)
            done.add_done_callback(partial(note, entry, ledger))
            waiting.append(done)
    await asyncio.gather(*waiting)
    await asyncio.sleep(0)  # since Python 3.14, waiting for what is done does not run callbacks
    assert finished == [(entry, ledger) for entry in range(50) for ledger in (1, 2)]


async def test_ledgers_do_not_mix(store: EntryStore) -> None:
    for entry in range(20):
        await asyncio.gather(
            *(store.append(led, entry, entry - 1, b"%d:%d" % (led, entry)) for led in range(5))
        )
    for ledger in range(5):
        assert await payloads(store, ledger) == [b"%d:%d" % (ledger, e) for e in range(20)]


async def test_a_read_stops_at_its_limits_and_goes_on_from_there(store: EntryStore) -> None:
    await fill(store, 1, [bytes([i]) * 100 for i in range(30)])
    assert len(await store.read(1, 0, max_entries=4, max_bytes=1 << 20)) == 4
    assert len(await store.read(1, 0, max_entries=100, max_bytes=350)) == 3
    first = 0
    seen = []
    while first < 30:
        part = await store.read(1, first, max_entries=7, max_bytes=1 << 20)
        seen += [entry.entry for entry in part]
        first += len(part)
    assert seen == list(range(30))


async def test_a_read_returns_one_entry_even_when_it_is_over_the_limit(store: EntryStore) -> None:
    await fill(store, 1, [b"a" * 1000, b"b" * 1000])
    assert [e.entry for e in await store.read(1, 0, max_entries=9, max_bytes=1)] == [0]


async def test_only_the_head_of_each_entry_can_be_read(store: EntryStore) -> None:
    await fill(store, 1, [bytes([i]) * (50 + i) for i in range(40)])
    heads = await store.read(1, 0, max_entries=100, max_bytes=1000, head=10)
    assert [(e.entry, bytes(e.payload)) for e in heads] == [(i, bytes([i]) * 10) for i in range(40)]
    assert len(await store.read(1, 0, max_entries=100, max_bytes=35, head=10)) == 3


async def test_what_is_not_there_is_not_found(store: EntryStore) -> None:
    await fill(store, 1, [b"a"])
    for ledger, entry in ((1, 1), (1, 100), (2, 0)):
        with pytest.raises(NotFound):
            await read_all(store, ledger, entry)
    assert store.stat(2) is None


async def test_a_gap_ends_a_read_and_entries_behind_it_can_be_read(store: EntryStore) -> None:
    for entry in (3, 4, 8, 9, 0):
        await store.append(1, entry, -1, b"%d" % entry)
    assert [e.entry for e in await read_all(store, 1, 3)] == [3, 4]
    assert [e.entry for e in await read_all(store, 1, 8)] == [8, 9]
    with pytest.raises(NotFound):
        await read_all(store, 1, 5)
    assert store.stat(1) == LedgerStat(0, 9, 0, -1, False, 5)
    await fill(store, 1, [b"5", b"6", b"7"], first=5)
    assert [e.entry for e in await read_all(store, 1, 3)] == list(range(3, 10))


async def test_the_same_entry_again_is_fine_and_other_bytes_are_refused(
    store: EntryStore,
) -> None:
    await fill(store, 1, [b"zero", b"one", b"two"])
    await store.append(1, 1, 0, b"one")
    with pytest.raises(Refused, match="other bytes"):
        await store.append(1, 1, 0, b"eno")
    with pytest.raises(Refused, match="other bytes"):
        await store.append(1, 1, 0, b"one and more")
    assert await payloads(store, 1) == [b"zero", b"one", b"two"]
    stat = store.stat(1)
    assert stat is not None
    assert stat.bytes == 10


async def test_the_same_entry_twice_without_waiting_is_stored_once(store: EntryStore) -> None:
    results = await asyncio.gather(
        store.append(1, 0, -1, b"first"),
        store.append(1, 0, -1, b"first"),
        store.append(1, 0, -1, b"other"),
        store.append(1, 1, 0, b"next"),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [NoneType, NoneType, Refused, NoneType]
    assert await payloads(store, 1) == [b"first", b"next"]


async def test_a_fenced_ledger_refuses_writers_but_not_recovery(store: EntryStore) -> None:
    await fill(store, 1, [b"a", b"b", b"c"])
    assert await store.fence(1) == 1
    with pytest.raises(Fenced):
        await store.append(1, 3, 2, b"d")
    await store.append(1, 3, 2, b"d", recovery=True)
    assert await payloads(store, 1) == [b"a", b"b", b"c", b"d"]
    assert await store.fence(1) == 2


async def test_fencing_an_unknown_ledger_creates_it_fenced(store: EntryStore) -> None:
    assert await store.fence(9) == -1
    with pytest.raises(Fenced):
        await store.append(9, 0, -1, b"late")
    assert store.ledgers() == [9]
    assert store.stat(9) == LedgerStat(-1, -1, -1, -1, True, 0)


async def test_a_fence_answers_with_the_lac_of_all_that_was_appended_before(
    store: EntryStore,
) -> None:
    waiting = [store.append(1, entry, entry - 1, b"x" * 500) for entry in range(40)]
    assert await store.fence(1) == 38
    assert all(done.done() and done.exception() is None for done in waiting)


async def test_appends_are_refused_from_the_moment_of_the_fence(store: EntryStore) -> None:
    fence = asyncio.ensure_future(store.fence(1))
    await asyncio.sleep(0)
    with pytest.raises(Fenced):
        await store.append(1, 0, -1, b"late")
    assert await fence == -1


async def test_a_write_after_delete_is_refused(store: EntryStore) -> None:
    await fill(store, 1, [b"a", b"b"])
    await fill(store, 2, [b"kept"])
    await store.delete(1)
    with pytest.raises(NotFound, match="deleted"):
        await store.append(1, 2, 1, b"late")
    with pytest.raises(NotFound, match="deleted"):
        await store.append(1, 0, -1, b"late", recovery=True)
    with pytest.raises(NotFound):
        await read_all(store, 1)
    with pytest.raises(NotFound):
        await store.fence(1)
    assert store.stat(1) is None
    assert store.ledgers() == [2]
    assert await payloads(store, 2) == [b"kept"]


async def test_deleting_an_unknown_ledger_keeps_it_from_being_created(store: EntryStore) -> None:
    await store.delete(5)
    await store.delete(5)
    with pytest.raises(NotFound):
        await store.append(5, 0, -1, b"late")


async def test_stat_tells_first_last_lac_and_bytes(store: EntryStore) -> None:
    await fill(store, 3, [b"abc", b"de", b"f"], first=10)
    assert store.stat(3) == LedgerStat(10, 12, 12, 11, False, 6)


async def test_impossible_entries_are_refused(store: EntryStore) -> None:
    for ledger, entry, lac in (
        (-1, 0, 0),
        (1 << 64, 0, 0),
        (1, -1, 0),
        (1, 1 << 63, 0),
        (1, 0, -2),
    ):
        with pytest.raises(Refused):
            await store.append(ledger, entry, lac, b"x")
    with pytest.raises(Refused, match="empty"):
        await store.append(1, 0, -1, b"")
    with pytest.raises(TooLarge):
        await store.append(1, 0, -1, bytes((64 << 20) + 1))
    assert store.ledgers() == []
    await store.append((1 << 64) - 1, (1 << 63) - 1, (1 << 63) - 2, b"the largest ids")
    assert await payloads(store, (1 << 64) - 1, (1 << 63) - 1) == [b"the largest ids"]


async def test_waiting_for_room_brings_every_append_through(store: EntryStore) -> None:
    for entry in range(300):
        await store.wait_writable()
        store.append(1, entry, entry - 1, b"x" * 1000)
    await store.append(1, 300, 299, b"last")
    assert len(await read_all(store, 1)) == 301
    assert store.pending_bytes == 0


async def test_a_closed_store_says_so(store: EntryStore) -> None:
    await fill(store, 1, [b"a"])
    await store.close()
    await store.close()
    with pytest.raises(Closed):
        await store.append(1, 1, 0, b"b")
    with pytest.raises(Closed):
        await read_all(store, 1)
    with pytest.raises(Closed):
        await store.fence(1)
