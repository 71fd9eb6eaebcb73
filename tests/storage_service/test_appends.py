"""The stream of appends: held back, lost, damaged, stopped; every append has one outcome."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import cast

import grpc
import pytest

from storage_grpc.entries import Entry
from storage_grpc.journal import JournalSettings, JournalStore
from storage_grpc.loss_record import LossRecord
from storage_grpc.memory_store import MemoryEntryStore
from storage_grpc.node import LocalNode
from storage_grpc.remote import RemoteNode
from storage_grpc.remote.appends import Appends
from storage_grpc.remote.link import AppendCall
from storage_grpc.remote.wire.codes import CODE_KEY
from storage_grpc.remote.wire.layout import (
    TRACED,
    entry_head,
    pack,
    pack_entries,
    pack_outcome,
    unpack_outcomes,
)
from storage_grpc.remote.wire.service import SERVICE
from storage_grpc.service.append_session import AppendSession
from storage_grpc.service.server import Identity, StorageServer
from storage_grpc.storage_pb2 import CORRUPT_ENTRY, OK, TOO_LARGE, UNAVAILABLE, HelloReply
from sulina.errors import Overloaded, TooLarge, Unavailable, UnknownOutcome
from sulina.runtime import stages
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock
from sulina.runtime.stages import Stage
from tests.storage_service.serving import (
    INCARNATION,
    QUICK,
    SMALL,
    linked,
    open_journal,
    remote,
    serving,
)

TIGHT = replace(SMALL, max_pending_bytes=256 << 10)


class SyncGate:
    """Holds back the syncs of a disk until it is opened."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.reached = asyncio.Event()

    async def __call__(self, operation: str, _: str) -> None:
        if operation == "sync" and not self.open.is_set():
            self.reached.set()
            await self.open.wait()


async def gated(settings: JournalSettings = SMALL) -> tuple[JournalStore, SyncGate]:
    gate = SyncGate()
    return await open_journal(MemoryDisk(before=gate), settings), gate


async def test_appends_that_wait_share_a_message() -> None:
    async with serving() as server, linked(server.port) as link:
        call = link.open_appends(INCARNATION, "")
        await call.write(pack_entries([Entry(1, n, -1, b"%d" % n) for n in range(100)]))
        outcomes = []
        async for message in call:
            outcomes += [(o.ledger, o.entry, o.code) for o in unpack_outcomes(message)]
            if len(outcomes) == 100:
                break
        assert outcomes == [(1, n, 0) for n in range(100)]
        call.cancel()


async def test_a_store_with_too_much_to_write_holds_the_sender_back_and_refuses_nothing() -> None:
    store, gate = await gated(TIGHT)
    async with serving(store) as server, remote(server.port) as node:
        gate.open.clear()
        waiting = [node.append(1, n, -1, bytes(64 << 10)) for n in range(400)]
        await gate.reached.wait()
        # Other calls on the same connection are answered while the stream is held back.
        for _ in range(20):
            await node.stat(1)
        assert store.pending_bytes <= TIGHT.max_pending_bytes + (64 << 10)
        assert not any(done.done() for done in waiting)
        assert node.pending_bytes == 400 << 16
        gate.open.set()
        await asyncio.gather(*waiting)
        assert node.pending_bytes == 0
    await store.close()


async def test_a_client_that_reads_no_outcomes_does_not_keep_payloads_in_memory() -> None:
    """Whether it asks for the times of its entries or not."""

    class Message(bytearray):
        """One that can be watched until it is freed."""

    messages: list[weakref.ref[Message]] = []
    sent = 0

    async def requests() -> AsyncIterator[bytes]:
        nonlocal sent
        for sent in range(40):
            payload = bytes(1000)
            head = entry_head(1, sent, -1, TRACED if sent % 2 else 0, payload)
            message = Message(pack([head, payload], len(head) + len(payload)))
            messages.append(weakref.ref(message))
            yield message  # type: ignore[misc]
            del message

    async def stuck(outcomes: bytes) -> None:
        await asyncio.Event().wait()

    store = await open_journal(MemoryDisk())
    node = LocalNode("storage-1", store, LossRecord(may_have_lost=False, life=""))
    session = AppendSession(node, store, requests(), stuck, disk_failed=lambda: None)
    serving = asyncio.create_task(session.run())
    while sent < 39 or store.pending_bytes:
        assert not serving.done()
        await asyncio.sleep(0)
    gc.collect()
    assert len([message for message in messages if message() is not None]) < 5
    serving.cancel()
    await asyncio.wait([serving])
    await store.close()


async def test_a_client_bounds_what_is_unanswered() -> None:
    store, gate = await gated()
    settings = replace(QUICK, max_pending_bytes=100_000)
    async with serving(store) as server, remote(server.port, settings) as node:
        gate.open.clear()
        waiting = [node.append(1, n, -1, bytes(10_000)) for n in range(10)]
        with pytest.raises(Overloaded):
            await node.append(1, 10, -1, bytes(10_000))
        gate.open.set()
        await asyncio.gather(*waiting)
        await node.append(1, 10, -1, bytes(10_000))
    await store.close()


class CountedCall:
    """A stream of appends that counts its messages."""

    def __init__(self, call: AppendCall) -> None:
        self._call = call
        self.messages: asyncio.Queue[int] = asyncio.Queue()
        """The size of each message that was sent."""

    async def write(self, message: bytes) -> None:
        await self._call.write(message)
        self.messages.put_nowait(len(message))

    def cancel(self) -> bool:
        return self._call.cancel()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._call.__aiter__()


async def test_small_appends_collect_while_two_messages_are_unanswered() -> None:
    store, gate = await gated()
    async with serving(store) as server, linked(server.port) as link:
        call = CountedCall(link.open_appends(INCARNATION, ""))
        appends = Appends("storage-1", lambda: cast(AppendCall, call), 1 << 20, QUICK, RealClock())

        def append(entry: int, size: int) -> asyncio.Future[None]:
            return appends.append(1, entry, -1, bytes(size), recovery=False)

        gate.open.clear()
        waiting = []
        for entry in range(2):
            waiting.append(append(entry, 100))
            assert await call.messages.get() < 200
        waiting += [append(entry, 100) for entry in range(2, 100)]
        await link.hello(10)  # the sender had its turn
        assert call.messages.empty()
        # What is worth a message does not wait.
        waiting.append(append(100, 256 << 10))
        assert await call.messages.get() > (256 << 10) + 98 * 100
        waiting += [append(entry, 100) for entry in range(101, 200)]
        gate.open.set()
        await asyncio.gather(*waiting)
        assert 99 * 100 < await call.messages.get() < 99 * 200
        assert call.messages.empty()
        await append(200, 100)
        await appends.close()
    await store.close()


async def test_an_entry_over_the_limit_is_too_large_at_both_ends() -> None:
    async with serving(max_entry_bytes=1000) as server, remote(server.port) as node:
        await node.append(1, 0, -1, bytes(1000))
        with pytest.raises(TooLarge):
            await node.append(1, 1, -1, bytes(1001))
    # A client that ignores the limit gets an error of the node, not of gRPC.
    store = await open_journal(MemoryDisk())
    async with serving(store, max_entry_bytes=1 << 20) as server, linked(server.port) as link:
        call = link.open_appends(INCARNATION, "")
        await call.write(pack_entries([Entry(1, 0, -1, bytes(8 << 20)), Entry(1, 0, -1, b"ok")]))
        outcomes = []
        async for message in call:
            outcomes += [o.code for o in unpack_outcomes(message)]
            if len(outcomes) == 2:
                break
        assert outcomes == [TOO_LARGE, OK]
        call.cancel()
    await store.close()


async def test_bytes_damaged_on_the_way_are_never_stored() -> None:
    store = MemoryEntryStore()
    async with serving(store) as server, linked(server.port) as link:
        call = link.open_appends(INCARNATION, "")
        await call.write(pack_entries([Entry(1, 0, -1, b"whole")]))
        damaged = bytearray(pack_entries([Entry(1, 1, -1, b"first"), Entry(1, 2, -1, b"second")]))
        damaged[-3] ^= 4
        await call.write(bytes(damaged))
        answered = await call.read()
        assert isinstance(answered, bytes)
        assert [outcome.entry for outcome in unpack_outcomes(answered)] == [0]
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await call.read()
        assert ended.value.code() is grpc.StatusCode.DATA_LOSS
        assert (CODE_KEY, str(CORRUPT_ENTRY)) in tuple(ended.value.trailing_metadata())
    stat = store.stat(1)
    assert stat is not None and stat.last_entry == 0


@pytest.mark.parametrize("expected", ["f" * 32, INCARNATION[:8], ""])
async def test_a_node_of_another_incarnation_refuses(expected: str) -> None:
    async with serving() as server, linked(server.port) as link:
        call = link.open_appends(expected, "")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async for _ in call:
                pass
        assert (CODE_KEY, str(UNAVAILABLE)) in tuple(refused.value.trailing_metadata())


@pytest.mark.parametrize("known", ["the first", ""])
async def test_a_node_that_may_have_lost_a_fence_takes_nothing_from_who_does_not_know(
    known: str,
) -> None:
    store = MemoryEntryStore()
    async with serving(store, life="the second") as server, linked(server.port) as link:
        call = link.open_appends(INCARNATION, known)

        async def append() -> None:
            # The node refuses the stream when it opens: the write may already fail.
            await call.write(pack_entries([Entry(1, 0, -1, b"of an owner of old")]))
            await call.read()

        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await append()
        assert (CODE_KEY, str(UNAVAILABLE)) in tuple(refused.value.trailing_metadata())
        assert store.stat(1) is None


async def test_a_lost_stream_leaves_every_unanswered_append_with_an_unknown_outcome() -> None:
    store, gate = await gated()
    async with AsyncExitStack() as life, AsyncExitStack() as client:
        server = await life.enter_async_context(serving(store, stop_seconds=0))
        node = await client.enter_async_context(remote(server.port))
        gate.open.clear()
        waiting = [node.append(1, n, -1, bytes(10_000)) for n in range(100)]
        await gate.reached.wait()
        await life.aclose()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(result) for result in results} == {UnknownOutcome}
        assert node.pending_bytes == 0
        # Nothing listens: appends fail soon, now and after every pause.
        for _ in range(20):
            with pytest.raises((UnknownOutcome, Unavailable)):
                await node.append(1, 0, -1, b"nobody is there")
    gate.open.set()
    await store.close()


async def test_appends_go_on_when_the_node_is_back() -> None:
    store = MemoryEntryStore()
    async with AsyncExitStack() as life, AsyncExitStack() as client:
        server = await life.enter_async_context(serving(store))
        node = await client.enter_async_context(remote(server.port))
        await node.append(1, 0, -1, b"before")
        await life.aclose()
        with pytest.raises((UnknownOutcome, Unavailable)):
            await node.append(1, 1, 0, b"meanwhile")
        await life.enter_async_context(serving(store, port=server.port))
        while True:
            try:
                await node.append(1, 1, 0, b"after")
                break
            except (UnknownOutcome, Unavailable):
                await asyncio.sleep(0.02)
        found = await node.read(1, 0, max_entries=9, max_bytes=99)
        assert [bytes(entry.payload) for entry in found] == [b"before", b"after"]


async def test_an_append_that_its_caller_gave_up_does_not_disturb_the_others() -> None:
    store, gate = await gated()
    async with serving(store) as server, remote(server.port) as node:
        gate.open.clear()
        first, second, third = (node.append(1, n, -1, b"x") for n in range(3))
        await gate.reached.wait()
        second.cancel()
        gate.open.set()
        await asyncio.gather(first, third)
        assert len(await node.read(1, 0, max_entries=9, max_bytes=99)) == 3
    await store.close()


async def test_a_closed_client_leaves_no_append_without_an_outcome() -> None:
    store, gate = await gated()
    async with serving(store) as server:
        async with remote(server.port) as node:
            unsent = node.append(1, 0, -1, b"not even sent")
            await node.close()
            with pytest.raises(UnknownOutcome):
                await unsent
            with pytest.raises(Unavailable):
                await node.append(1, 0, -1, b"closed")
        async with remote(server.port) as node:
            gate.open.clear()
            waiting = [node.append(1, n, -1, bytes(10_000)) for n in range(50)]
            await gate.reached.wait()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(result) for result in results} == {UnknownOutcome}
        gate.open.set()
    await store.close()


async def test_a_stop_in_order_answers_what_was_taken_and_closes_cleanly() -> None:
    store, gate = await gated()
    identity = Identity("storage-1", INCARNATION, LossRecord(may_have_lost=False), 1 << 20)
    server = await StorageServer(identity, store).start("127.0.0.1", 0)
    async with remote(server.port) as node:
        await node.append(1, 0, -1, b"the stream is open")
        gate.open.clear()
        waiting = [node.append(1, n, -1, bytes(1000)) for n in range(1, 50)]
        await gate.reached.wait()
        stopping = asyncio.create_task(server.stop(10))
        late = node.append(1, 50, -1, b"late")
        gate.open.set()
        await stopping
        results = await asyncio.gather(*waiting, late, return_exceptions=True)
        answered = [result for result in results if result is None]
        assert len(answered) >= 1
        # Received entries succeeded; the others have an unknown outcome.
        assert results[: len(answered)] == answered
        assert {type(result) for result in results[len(answered) :]} <= {UnknownOutcome}
        stat = store.stat(1)
        assert stat is not None and stat.last_entry >= len(answered)
    await store.close()


async def answers(port_of: grpc.aio.Server, reply: bytes) -> int:
    """A peer that answers every message of appends with ``reply``."""

    async def append(
        requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> None:
        async for _ in requests:
            await context.write(reply)

    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(append)
    port_of.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(SERVICE, {"Append": handler})]
    )
    port = port_of.add_insecure_port("127.0.0.1:0")
    await port_of.start()
    return port


@pytest.mark.parametrize(
    "reply",
    [
        pack([pack_outcome(1, 1, 0, "")], 20),
        pack([pack_outcome(1, 0, 0, "")[:-1]], 19),
        b"no message of this service",
    ],
    ids=["another entry", "half an outcome", "garbage"],
)
async def test_answers_that_make_no_sense_are_unknown_outcomes(reply: bytes) -> None:
    server = grpc.aio.server()
    async with linked(await answers(server, reply)) as link:
        node = RemoteNode(
            link, HelloReply(id="x", incarnation="y", max_entry_bytes=99), QUICK, RealClock()
        )
        waiting = [node.append(1, n, -1, b"x") for n in range(3)]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(result) for result in results} == {UnknownOutcome}
        await node.close()
    await server.stop(0)


async def test_a_traced_append_tells_when_it_passed_the_stages_of_the_node() -> None:
    store = await open_journal(MemoryDisk())
    async with serving(store) as server, remote(server.port) as node:
        frame = memoryview(bytearray(b"a frame"))
        trace = stages.begin(frame)
        assert trace is not None
        await node.append(1, 0, -1, frame)
        stages.stored_by(frame, 2)
        await node.append(1, 1, 0, b"another frame, which is not traced")
    passed = [Stage.TO_NODE, Stage.AT_NODE, Stage.GROUPED, Stage.RESUMED, Stage.ANSWERED]
    assert [stamp.stage for stamp in trace.stamps] == [*passed, Stage.FROM_NODE]
    assert trace.stamps == sorted(trace.stamps)
    del frame
    assert not stages.traces
    await store.close()
