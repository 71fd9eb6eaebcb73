"""The promises of ``Node``, for a node in this process and for one behind gRPC."""

from __future__ import annotations

import asyncio

import pytest

from storage_grpc.loss_record import LossRecord
from storage_grpc.node import FencedLedger, LocalNode, MaybeLost, Node
from sulina.errors import Fenced, NotFound, Refused, TooLarge
from sulina.runtime.memory_disk import MemoryDisk
from tests.storage_service.serving import open_journal, remote, serving


async def read_all(node: Node, ledger: int, first: int = 0) -> list[bytes]:
    found = await node.read(ledger, first, max_entries=1000, max_bytes=1 << 30)
    assert [entry.entry for entry in found] == list(range(first, first + len(found)))
    assert {entry.ledger for entry in found} == {ledger}
    return [bytes(entry.payload) for entry in found]


async def fill(node: Node, ledger: int, count: int) -> list[bytes]:
    payloads = [b"%d/%d " % (ledger, entry) * (entry % 7 + 1) for entry in range(count)]
    await asyncio.gather(
        *(node.append(ledger, entry, entry - 1, payload) for entry, payload in enumerate(payloads))
    )
    return payloads


async def test_a_node_has_a_name(node: Node) -> None:
    assert node.id == "storage-1@01234567"


async def test_appended_entries_can_be_read(node: Node) -> None:
    payloads = await fill(node, 7, 50)
    assert await read_all(node, 7) == payloads
    assert await read_all(node, 7, 30) == payloads[30:]


async def test_the_largest_ids_are_kept(node: Node) -> None:
    ledger, entry = (1 << 64) - 1, (1 << 63) - 1
    await node.append(ledger, entry, entry - 1, b"last")
    (found,) = await node.read(ledger, entry, max_entries=2, max_bytes=1 << 70)
    assert (found.ledger, found.entry, found.lac) == (ledger, entry, entry - 1)


async def test_reads_are_bounded_by_entries_and_by_bytes(node: Node) -> None:
    payloads = [bytes([n]) * 100 for n in range(10)]
    await asyncio.gather(*(node.append(1, n, -1, payload) for n, payload in enumerate(payloads)))
    by_count = await node.read(1, 2, max_entries=3, max_bytes=1 << 20)
    by_bytes = await node.read(1, 2, max_entries=100, max_bytes=450)
    at_least_one = await node.read(1, 2, max_entries=100, max_bytes=1)
    assert [len(by_count), len(by_bytes), len(at_least_one)] == [3, 4, 1]


async def test_a_read_of_heads_returns_the_first_bytes_of_each(node: Node) -> None:
    payloads = await fill(node, 1, 5)
    found = await node.read(1, 0, max_entries=9, max_bytes=99, head=3)
    assert [bytes(entry.payload) for entry in found] == [payload[:3] for payload in payloads]


async def test_appends_are_stored_in_the_order_of_the_calls(node: Node) -> None:
    order: list[asyncio.Future[None]] = []
    waiting = [node.append(1, entry, -1, bytes(1000)) for entry in range(300)]
    for done in waiting:
        done.add_done_callback(order.append)
    await asyncio.gather(*waiting)
    assert order == waiting


async def test_failures_of_an_append_come_through_its_future(node: Node) -> None:
    await node.fence(3)
    wrong = {
        Refused: node.append(1, -5, -1, b"an id out of range"),
        TooLarge: node.append(1, 0, -1, bytes((1 << 20) + 1)),
        Fenced: node.append(3, 0, -1, b"fenced"),
    }
    for kind, done in wrong.items():
        with pytest.raises(kind):
            await done
    with pytest.raises(Refused):
        await node.append(1, 0, -1, b"")
    await node.append(1, 0, -1, b"and it goes on")


async def test_a_fenced_ledger_takes_only_the_writes_of_a_recovery(node: Node) -> None:
    await fill(node, 1, 4)
    assert await node.fence(1) == FencedLedger(lac=2, last_entry=3, certain=True)
    with pytest.raises(Fenced):
        await node.append(1, 4, 3, b"late")
    await node.append(1, 4, 3, b"recovered", recovery=True)
    assert (await read_all(node, 1, 4)) == [b"recovered"]


async def test_a_fence_shows_all_of_a_small_ledger(node: Node) -> None:
    payloads = await fill(node, 1, 4)
    fenced = await node.fence(1)
    assert [bytes(entry.payload) for entry in fenced.tail] == payloads
    assert [entry.lac for entry in fenced.tail] == [-1, 0, 1, 2]
    shown = fenced.shows(2)
    assert shown is not None and [entry.entry for entry in shown] == [2, 3]
    assert fenced.shows(4) == []


async def test_a_fence_shows_only_what_is_behind_the_lac_of_a_larger_one(node: Node) -> None:
    payloads = [bytes([n]) * 10_000 for n in range(4)]
    await asyncio.gather(*(node.append(1, n, n - 1, payload) for n, payload in enumerate(payloads)))
    fenced = await node.fence(1)
    assert [(entry.entry, bytes(entry.payload)) for entry in fenced.tail] == [(3, payloads[3])]
    assert fenced.shows(2) is None
    assert fenced.shows(3) is not None


async def test_a_fence_shows_nothing_where_much_is_behind_the_lac(node: Node) -> None:
    await asyncio.gather(*(node.append(1, n, -1, b"x" * 10_000) for n in range(4)))
    await asyncio.gather(*(node.append(2, n, -1, b"x") for n in range(200)))
    await node.append(3, 0, -1, b"x" * 100_000)
    assert [(await node.fence(ledger)).tail for ledger in (1, 2, 3)] == [()] * 3


async def test_a_recovery_read_fences_before_it_reads(node: Node) -> None:
    payloads = await fill(node, 1, 3)
    found = await node.recovery_read(1, 1, max_entries=9, max_bytes=1 << 20)
    assert [(e.entry, bytes(e.payload)) for e in found] == [(1, payloads[1]), (2, payloads[2])]
    with pytest.raises(Fenced):
        await node.append(1, 3, 2, b"late")


async def test_a_recovery_read_fences_also_when_there_is_no_such_entry(node: Node) -> None:
    with pytest.raises(NotFound):
        await node.recovery_read(1, 0, max_entries=1, max_bytes=1)
    with pytest.raises(Fenced):
        await node.append(1, 0, -1, b"late")


async def test_a_deleted_ledger_is_gone_and_takes_nothing_more(node: Node) -> None:
    await fill(node, 1, 3)
    await fill(node, 2, 3)
    await node.delete(1)
    with pytest.raises(NotFound):
        await node.read(1, 0, max_entries=1, max_bytes=1)
    with pytest.raises(NotFound):
        await node.append(1, 3, 2, b"write after delete")
    with pytest.raises(NotFound):
        await node.fence(1)
    assert len(await read_all(node, 2)) == 3


async def test_a_node_that_may_have_lost_entries_denies_only_what_it_is_sure_of(
    where: str,
) -> None:
    store = await open_journal(MemoryDisk())

    async def check(node: Node) -> None:
        await node.append(5, 0, -1, b"began here")
        with pytest.raises(NotFound):
            await node.read(5, 1, max_entries=1, max_bytes=1)
        with pytest.raises(MaybeLost):
            await node.read(6, 0, max_entries=1, max_bytes=1)
        with pytest.raises(MaybeLost):
            await node.recovery_read(6, 0, max_entries=1, max_bytes=1)
        assert (await node.fence(5)).certain
        assert not (await node.fence(6)).certain

    if where == "local":
        await check(LocalNode("storage-1", store, LossRecord(may_have_lost=True)))
    else:
        async with serving(store, may_have_lost=True) as server, remote(server.port) as far:
            await check(far)
    await store.close()
