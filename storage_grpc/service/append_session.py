"""One client's stream of appends: entries in, outcomes out, in order.

One task receives messages and passes their entries to the node; another sends outcomes as entries
become durable. No message is received while the store has too much to write or too many outcomes
are pending, so flow control holds the client back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from storage_grpc.entries import EntryStore
from storage_grpc.node import LocalNode
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
from sulina.runtime.stages import FrameTrace, Stage
from sulina.runtime.tasks import stop_tasks

_log = logging.getLogger(__name__)

_MAX_PENDING = 65_536
"""Entries of one client without an outcome."""
_MAX_OUTCOMES = 4096
"""Outcomes in one message."""


class _PendingOutcome:
    """A received entry, without its payload: the client may take long to read outcomes.

    A plain class for speed: every append creates one.
    """

    __slots__ = ("_wake", "entry", "error", "ledger", "settled", "trace")

    def __init__(self, received: ReceivedEntry, wake: asyncio.Event) -> None:
        self.ledger = received.ledger
        self.entry = received.entry
        self.trace = stages.begin(received.payload) if received.flags & TRACED else None
        if self.trace is not None:
            self.trace.mark(Stage.AT_NODE)
        self.settled = False
        self.error: SulinaError | None = None
        self._wake = wake

    def settle(self, error: SulinaError | None) -> None:
        """The entry is stored, or is not because of ``error``."""
        self.error, self.settled = error, True
        self._wake.set()


class AppendSession:
    """Serves one stream: call ``run`` once; ``stop`` ends it cleanly."""

    def __init__(
        self,
        node: LocalNode,
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
        """Set for the answering task: an outcome is known, or receiving ended."""
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
        return self._error

    def stop(self) -> None:
        """Receive nothing more; ``run`` returns when all received entries are answered."""
        if not self._receiving.done():
            self._error = Unavailable("the node is stopping: use another one")
            self._receiving.cancel()

    async def _receive(self) -> None:
        async for message in self._requests:
            for entry in unpack_entries(message):
                await self._append(entry)
            await self._store.wait_writable()
            while len(self._pending) > _MAX_PENDING:
                self._room.clear()
                await self._room.wait()

    async def _append(self, entry: ReceivedEntry) -> None:
        """Pass an entry to the node; waits while the store has too much to write."""
        pending = _PendingOutcome(entry, self._wake)
        while True:
            try:
                self._node.submit(
                    entry.ledger,
                    entry.entry,
                    entry.lac,
                    entry.payload,
                    pending.settle,
                    recovery=bool(entry.flags & RECOVERY),
                )
            except Overloaded:
                await self._store.wait_writable()
                continue
            except SulinaError as error:
                pending.settle(error)
            self._pending.append(pending)
            return

    def _received(self, receiving: asyncio.Task[None]) -> None:
        error = None if receiving.cancelled() else receiving.exception()
        if isinstance(error, DamagedMessage):
            self._error = CorruptEntry(f"{error}; nothing of this message was stored")
        elif error is not None:
            _log.error("a stream of appends failed", exc_info=error)
            self._error = UnknownOutcome("the node failed unexpectedly; see its log")
        self._wake.set()

    async def _answer(self) -> None:
        while self._pending or not self._receiving.done():
            outcomes = [self._outcome(each) for each in self._take_settled()]
            if outcomes:
                self._room.set()
                await self._write(pack(outcomes, sum(map(len, outcomes))))
            else:
                self._wake.clear()
                await self._wake.wait()

    def _take_settled(self) -> Iterator[_PendingOutcome]:
        """Remove the first entries whose outcomes are known, up to a message full of them."""
        pending = self._pending
        for _ in range(_MAX_OUTCOMES):
            if not (pending and pending[0].settled):
                return
            yield pending.popleft()

    def _outcome(self, pending: _PendingOutcome) -> bytes:
        error = pending.error
        if error is None:
            times = "" if pending.trace is None else _times(pending.trace)
            return pack_outcome(pending.ledger, pending.entry, 0, times)
        if isinstance(error, StorageFailed):
            self._disk_failed()
        return pack_outcome(pending.ledger, pending.entry, code_of(error), str(error))


def _times(trace: FrameTrace) -> str:
    trace.mark(Stage.ANSWERED)
    return stages.pack(trace.stamps).hex()
