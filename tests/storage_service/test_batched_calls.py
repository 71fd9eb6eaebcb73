"""Calls made at the same time are sent as few; what is encoded decodes unchanged or not at all."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from storage_grpc import storage_pb2 as pb
from storage_grpc.entries import MAX_ENTRY, MAX_LEDGER, Entry
from storage_grpc.memory_store import MemoryEntryStore
from storage_grpc.node import FencedLedger
from storage_grpc.remote.call_batcher import CallBatcher
from storage_grpc.remote.link import Link
from storage_grpc.remote.node import RemoteNode
from storage_grpc.remote.wire.layout import (
    DamagedMessage,
    pack,
    pack_entries,
    pack_outcome,
    unpack_entries,
    unpack_outcomes,
)
from storage_grpc.service.batched_calls import BatchedCalls
from sulina.errors import Fenced, NotFound, Refused, Unavailable, UnknownOutcome
from sulina.runtime.real_clock import RealClock
from tests.storage_service.serving import QUICK, linked, serving


class CountingLink(Link):
    """Counts the calls of each method."""

    def __init__(self, port: int) -> None:
        super().__init__(f"127.0.0.1:{port}", QUICK)
        self.asked: Counter[str] = Counter()

    async def ask_raw(self, name: str, request: Message, *more: Any, **others: Any) -> bytes:
        self.asked[name] += 1
        return await super().ask_raw(name, request, *more, **others)


async def with_node(
    store: MemoryEntryStore, work: Callable[[RemoteNode, CountingLink], Awaitable[None]]
) -> None:
    async with serving(store) as server:
        link = CountingLink(server.port)
        node = RemoteNode(link, await link.hello(5), QUICK, RealClock())
        try:
            link.asked.clear()
            await work(node, link)
        finally:
            await node.close()
            await link.close()


async def test_fences_of_many_ledgers_go_together_and_hold() -> None:
    async def work(node: RemoteNode, link: CountingLink) -> None:
        await asyncio.gather(*(node.append(ledger, 0, -1, b"x") for ledger in range(1, 101)))
        found = await asyncio.gather(*(node.fence(ledger) for ledger in range(1, 102)))
        assert [each.last_entry for each in found] == [0] * 100 + [-1]
        assert [each.tail[0].ledger for each in found[:100]] == list(range(1, 101))
        assert link.asked == {"Many": 1}
        with pytest.raises(Fenced):
            await node.append(77, 1, 0, b"late")

    await with_node(MemoryEntryStore(), work)


async def test_a_call_alone_goes_as_it_always_did() -> None:
    async def work(node: RemoteNode, link: CountingLink) -> None:
        await node.append(1, 0, -1, b"entry")
        await node.fence(1)
        await node.recovery_read(1, 0, max_entries=1, max_bytes=1)
        await node.read(1, 0, max_entries=1, max_bytes=1)
        assert link.asked == {"Fence": 1, "RecoveryRead": 1, "Read": 1}

    await with_node(MemoryEntryStore(), work)


async def test_reads_together_have_each_their_own_outcome() -> None:
    async def work(node: RemoteNode, link: CountingLink) -> None:
        await asyncio.gather(*(node.append(1, entry, -1, b"%d" % entry) for entry in range(3)))
        await node.delete(2)
        heads, whole, absent, gone = await asyncio.gather(
            node.read(1, 0, max_entries=9, max_bytes=99, head=1),
            node.recovery_read(1, 1, max_entries=9, max_bytes=99),
            node.recovery_read(1, 3, max_entries=9, max_bytes=99),
            node.recovery_read(2, 0, max_entries=9, max_bytes=99),
            return_exceptions=True,
        )
        assert isinstance(heads, list) and isinstance(whole, list)
        assert [bytes(entry.payload) for entry in heads] == [b"0", b"1", b"2"]
        assert [bytes(entry.payload) for entry in whole] == [b"1", b"2"]
        assert isinstance(absent, NotFound) and isinstance(gone, NotFound)
        assert link.asked["Many"] == 1

    await with_node(MemoryEntryStore(), work)


async def test_what_does_not_fit_into_one_answer_is_read_all_the_same() -> None:
    large = b"x" * (2 << 20)

    async def work(node: RemoteNode, link: CountingLink) -> None:
        await asyncio.gather(*(node.append(ledger, 0, -1, large) for ledger in range(24)))
        found = await asyncio.gather(
            *(node.recovery_read(ledger, 0, max_entries=9, max_bytes=99) for ledger in range(24))
        )
        assert [len(entries[0].payload) for entries in found] == [len(large)] * 24
        # After eight the answer has 16 MiB, and the others are made as single calls.
        assert link.asked == {"Many": 1, "RecoveryRead": 16}

    await with_node(MemoryEntryStore(), work)


async def test_a_caller_that_gives_up_takes_nobody_along() -> None:
    async def work(node: RemoteNode, link: CountingLink) -> None:
        given_up = asyncio.ensure_future(node.fence(1))
        others = [asyncio.ensure_future(node.fence(ledger)) for ledger in (2, 3)]
        await asyncio.sleep(0)
        given_up.cancel()
        assert await asyncio.gather(*others) == [FencedLedger(-1, -1, True)] * 2

    await with_node(MemoryEntryStore(), work)


async def test_a_node_that_is_gone_leaves_every_outcome_unknown() -> None:
    async with serving() as server, linked(server.port) as link:
        node = RemoteNode(link, await link.hello(5), QUICK, RealClock())
        await server.stop(0)
        found = await asyncio.gather(*(node.fence(n) for n in range(9)), return_exceptions=True)
        assert {type(error) for error in found} <= {UnknownOutcome, Unavailable}
        await node.close()


async def test_an_answer_with_too_few_parts_is_no_answer() -> None:
    async def together(request: pb.ManyRequest) -> pb.ManyReply:
        return pb.ManyReply(answers=[pb.Told()])

    async def alone() -> pb.Told:
        raise AssertionError("nobody goes alone here")

    gather = CallBatcher("storage-1", together)
    found = await asyncio.gather(
        *(gather.call(pb.Ask(fence=pb.FenceRequest(ledger=n)), alone) for n in range(2)),
        return_exceptions=True,
    )
    assert [type(error) for error in found] == [UnknownOutcome] * 2


async def test_closing_tells_everybody_who_waits() -> None:
    async def together(request: pb.ManyRequest) -> pb.ManyReply:
        await asyncio.Event().wait()
        raise AssertionError

    async def alone() -> pb.Told:
        await asyncio.Event().wait()
        raise AssertionError

    gather = CallBatcher("storage-1", together)
    waiting = []
    for _ in range(4):  # two sets under way, and what waits behind them
        waiting += [
            asyncio.ensure_future(gather.call(pb.Ask(fence=pb.FenceRequest(ledger=n)), alone))
            for n in range(2)
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await gather.close()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(error) for error in found] == [UnknownOutcome] * 8


async def test_a_node_refuses_asks_that_it_does_not_know_and_answers_the_others() -> None:
    async def fence(request: pb.FenceRequest) -> pb.FenceReply:
        return pb.FenceReply(lac=5)

    async def read(request: object) -> bytes:
        raise ValueError("a bug")

    many = BatchedCalls(fence, read, read, 1 << 20)
    asks = [pb.Ask(), pb.Ask(fence=pb.FenceRequest(ledger=1)), pb.Ask(read=pb.ReadRequest())]
    reply = await many.answer(pb.ManyRequest(asks=asks))
    assert isinstance(reply, pb.ManyReply)
    assert [told.code for told in reply.answers] == [pb.REFUSED, pb.OK, pb.UNKNOWN_OUTCOME]
    assert reply.answers[1].fence.lac == 5
    with pytest.raises(Refused):
        await many.answer(pb.ManyRequest(asks=[pb.Ask()] * 5000))


entries = st.lists(
    st.builds(
        Entry,
        ledger=st.integers(0, MAX_LEDGER),
        entry=st.integers(0, MAX_ENTRY),
        lac=st.integers(-1, MAX_ENTRY),
        payload=st.binary(max_size=300),
    ),
    max_size=8,
)


def as_entries(message: bytes) -> list[Entry]:
    return [Entry(e.ledger, e.entry, e.lac, bytes(e.payload)) for e in unpack_entries(message)]


@given(entries)
def test_entries_come_out_as_they_went_in(sent: list[Entry]) -> None:
    assert as_entries(pack_entries(sent)) == sent


@given(entries)
def test_a_message_is_what_protobuf_makes_of_it(sent: list[Entry]) -> None:
    message = pack_entries(sent)
    content = pb.Entries.FromString(message).entries
    assert as_entries(pb.Entries(entries=content).SerializeToString()) == sent


def test_payloads_are_views_of_the_message_and_not_copies() -> None:
    message = pack_entries([Entry(1, 2, 3, b"payload")])
    (received,) = unpack_entries(message)
    assert received.payload.obj is message


@given(entries.filter(bool), st.data())
def test_a_flipped_bit_is_always_noticed(sent: list[Entry], data: st.DataObject) -> None:
    message = bytearray(pack_entries(sent))
    place = data.draw(st.integers(0, 8 * len(message) - 1))
    message[place // 8] ^= 1 << place % 8
    with pytest.raises(DamagedMessage):
        unpack_entries(bytes(message))


@given(entries.filter(bool), st.data())
def test_a_message_that_was_cut_is_always_noticed(sent: list[Entry], data: st.DataObject) -> None:
    message = pack_entries(sent)
    with pytest.raises(DamagedMessage):
        unpack_entries(message[: data.draw(st.integers(1, len(message) - 1))])


@given(st.binary(max_size=200))
def test_any_bytes_are_understood_or_refused(garbage: bytes) -> None:
    for message in (garbage, pack([garbage], len(garbage))):
        try:
            unpack_entries(message)
            list(unpack_outcomes(message))
        except DamagedMessage:
            pass


@given(
    st.lists(
        st.tuples(
            st.integers(0, MAX_LEDGER),
            st.integers(0, MAX_ENTRY),
            st.integers(0, 65535),
            st.text(max_size=40),
        ),
        max_size=8,
    )
)
def test_outcomes_come_out_as_they_went_in(sent: list[tuple[int, int, int, str]]) -> None:
    parts = [pack_outcome(*outcome) for outcome in sent]
    assert [tuple(o) for o in unpack_outcomes(pack(parts, sum(map(len, parts))))] == sent


def test_a_long_sentence_is_cut() -> None:
    part = pack_outcome(1, 2, 3, "ü" * 4000)
    (outcome,) = unpack_outcomes(pack([part], len(part)))
    assert outcome.message.startswith("ü" * 499)
    assert len(outcome.message) <= 1000
