"""One client's stream of appends: entries in, outcomes out, in order.

One task receives messages and passes their entries to the node; another sends outcomes as entries
become durable. No message is received while the store has too much to write or too many outcomes
are pending, so flow control holds the client back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from storage_grpc.entries import EntryStore
from storage_grpc.node import Node
from storage_grpc.remote.wire.codes import code_of
from storage_grpc.remote.wire.layout import (
    RECOVERY,
    TRACED,
    DamagedMessage,
    ReceivedEntry,
    pack,
    pack_outcome,
    unpack_entries,
)
from sulina.errors import (
    CorruptEntry,
    Overloaded,
    StorageFailed,
    SulinaError,
    Unavailable,
    UnknownOutcome,
)
from sulina.runtime import stages
from sulina.runtime.stages import Stage
from sulina.runtime.tasks import stop_tasks

_log = logging.getLogger(__name__)

_MAX_PENDING = 65_536
"""Entries of one client without an outcome."""
_MAX_OUTCOMES = 4096
"""Outcomes in one message."""


class _PendingOutcome(NamedTuple):
    ledger: int
    entry: int
    stored: asyncio.Future[None]
    traced: memoryview | None
    """The payload of an entry that is traced."""


class AppendSession:
    """Serves one stream: call ``run`` once; ``stop`` ends it cleanly."""

    def __init__(
        self,
        node: Node,
        store: EntryStore,
        requests: AsyncIterator[bytes],
        write: Callable[[bytes], Awaitable[None]],
        disk_failed: Callable[[], None],
    ) -> None:
        self._node = node
        self._store = store
        self._requests = requests
        self._write = write
        self._disk_failed = disk_failed
        self._pending: deque[_PendingOutcome] = deque()
        self._wake = asyncio.Event()
        """Set for the answering task: an entry is pending, or receiving ended."""
        self._room = asyncio.Event()
        """Set for the receiving task: outcomes were sent."""
        self._error: SulinaError | None = None
        self._receiving = asyncio.create_task(self._receive(), name="append-receive")
        self._receiving.add_done_callback(self._received)

    async def run(self) -> SulinaError | None:
        """Serve until the client ends the stream and every received entry is answered.

        Returns the error to end the stream with, if any.
        """
        try:
            await self._answer()
        finally:
            await stop_tasks(self._receiving)
            for pending in self._pending:
                # The client is gone; otherwise failures would be logged as unhandled.
                pending.stored.add_done_callback(_error)
        return self._error

    def stop(self) -> None:
        """Receive nothing more; ``run`` returns when all received entries are answered."""
        if not self._receiving.done():
            self._error = Unavailable("the node is stopping: use another one")
            self._receiving.cancel()

    async def _receive(self) -> None:
        async for message in self._requests:
            for entry in unpack_entries(message):
                traced = _trace(entry.payload) if entry.flags & TRACED else None
                stored = await self._append(entry)
                self._pending.append(_PendingOutcome(entry.ledger, entry.entry, stored, traced))
                self._wake.set()
            await self._store.wait_writable()
            while len(self._pending) > _MAX_PENDING:
                self._room.clear()
                await self._room.wait()

    async def _append(self, entry: ReceivedEntry) -> asyncio.Future[None]:
        """Pass an entry to the node; waits while the store has too much to write."""
        recovery = bool(entry.flags & RECOVERY)
        while True:
            stored = self._node.append(
                entry.ledger, entry.entry, entry.lac, entry.payload, recovery=recovery
            )
            if not (stored.done() and isinstance(_error(stored), Overloaded)):
                return stored
            await self._store.wait_writable()

    def _received(self, receiving: asyncio.Task[None]) -> None:
        error = None if receiving.cancelled() else receiving.exception()
        if isinstance(error, DamagedMessage):
            self._error = CorruptEntry(f"{error}; nothing of this message was stored")
        elif error is not None:
            _log.error("a stream of appends failed", exc_info=error)
            self._error = UnknownOutcome("the node failed unexpectedly; see its log")
        self._wake.set()

    async def _answer(self) -> None:
        pending = self._pending
        while pending or not self._receiving.done():
            if not pending:
                self._wake.clear()
                await self._wake.wait()
                continue
            if not pending[0].stored.done():
                # Not awaited directly: cancelling this task must not cancel the append.
                await asyncio.wait((pending[0].stored,))
            outcomes: list[bytes] = []
            while pending and pending[0].stored.done() and len(outcomes) < _MAX_OUTCOMES:
                outcomes.append(self._outcome(pending.popleft()))
            self._room.set()
            await self._write(pack(outcomes, sum(map(len, outcomes))))

    def _outcome(self, pending: _PendingOutcome) -> bytes:
        error = _error(pending.stored)
        if error is None:
            times = "" if pending.traced is None else _end_trace(pending.traced)
            return pack_outcome(pending.ledger, pending.entry, 0, times)
        if isinstance(error, StorageFailed):
            self._disk_failed()
        if not isinstance(error, SulinaError):
            _log.error("an append failed", exc_info=error)
        return pack_outcome(pending.ledger, pending.entry, code_of(error), str(error))


def _trace(payload: memoryview) -> memoryview:
    stages.begin(payload)
    stages.mark(payload, Stage.AT_NODE)
    return payload


def _end_trace(payload: memoryview) -> str:
    stages.mark(payload, Stage.ANSWERED)
    return stages.end(payload).hex()


def _error(stored: asyncio.Future[None]) -> BaseException | None:
    return UnknownOutcome("the append was cancelled") if stored.cancelled() else stored.exception()
