"""One client's stream of appends: entries in, outcomes out, in order.

Two tasks: one takes messages and hands their entries to the node, one sends outcomes as entries
become durable. Bounded on both sides: no message is taken while the store has too much to write or
too many outcomes are owed, so what a client sends waits in its own memory.
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

_log = logging.getLogger(__name__)

_MAX_OWED = 65_536
"""Outcomes owed to one client."""
_MAX_ANSWERS = 4096
"""Outcomes in one message."""


class _Owed(NamedTuple):
    ledger: int
    entry: int
    stored: asyncio.Future[None]


class AppendSession:
    """Serves one stream: call ``run`` once; ``stop`` ends it in order."""

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
        self._owed: deque[_Owed] = deque()
        self._wake = asyncio.Event()
        """For the answering task: something is owed, or the taking ended."""
        self._room = asyncio.Event()
        """For the taking task: fewer outcomes are owed."""
        self._error: SulinaError | None = None
        self._taking = asyncio.create_task(self._take(), name="append-take")
        self._taking.add_done_callback(self._took)

    async def run(self) -> SulinaError | None:
        """Serve until the client ends the stream; everything taken is answered then.

        Returns the error that the stream must end with, if any.
        """
        try:
            await self._answer()
        finally:
            self._taking.cancel()
            await asyncio.gather(self._taking, return_exceptions=True)
            for owed in self._owed:
                # Nobody is left to be told; without this, failures would be logged as unhandled.
                owed.stored.add_done_callback(_error)
        return self._error

    def stop(self) -> None:
        """Take nothing more; ``run`` returns when all that was taken is answered."""
        if not self._taking.done():
            self._error = Unavailable("the node is stopping: use another one")
            self._taking.cancel()

    async def _take(self) -> None:
        async for message in self._requests:
            for entry in unpack_entries(message):
                stored = await self._append(entry)
                self._owed.append(_Owed(entry.ledger, entry.entry, stored))
                self._wake.set()
            await self._store.wait_writable()
            while len(self._owed) > _MAX_OWED:
                self._room.clear()
                await self._room.wait()

    async def _append(self, entry: ReceivedEntry) -> asyncio.Future[None]:
        """Hand an entry over; waits as long as the store has too much to write."""
        recovery = bool(entry.flags & RECOVERY)
        while True:
            stored = self._node.append(
                entry.ledger, entry.entry, entry.lac, entry.payload, recovery=recovery
            )
            if not (stored.done() and isinstance(_error(stored), Overloaded)):
                return stored
            await self._store.wait_writable()

    def _took(self, taking: asyncio.Task[None]) -> None:
        error = None if taking.cancelled() else taking.exception()
        if isinstance(error, DamagedMessage):
            self._error = CorruptEntry(f"{error}; nothing of that message was stored")
        elif error is not None:
            _log.error("a stream of appends failed", exc_info=error)
            self._error = UnknownOutcome("the node failed at something unexpected; see its log")
        self._wake.set()

    async def _answer(self) -> None:
        owed = self._owed
        while owed or not self._taking.done():
            if not owed:
                self._wake.clear()
                await self._wake.wait()
                continue
            if not owed[0].stored.done():
                # Not awaited itself: this task's end must not cancel what the store works on.
                await asyncio.wait((owed[0].stored,))
            answers: list[bytes] = []
            while owed and owed[0].stored.done() and len(answers) < _MAX_ANSWERS:
                answers.append(self._outcome(owed.popleft()))
            self._room.set()
            await self._write(pack(answers, sum(map(len, answers))))

    def _outcome(self, owed: _Owed) -> bytes:
        error = _error(owed.stored)
        if error is None:
            return pack_outcome(owed.ledger, owed.entry, 0, "")
        if isinstance(error, StorageFailed):
            self._disk_failed()
        if not isinstance(error, SulinaError):
            _log.error("an append failed", exc_info=error)
        return pack_outcome(owed.ledger, owed.entry, code_of(error), str(error))


def _error(stored: asyncio.Future[None]) -> BaseException | None:
    return UnknownOutcome("the append was cancelled") if stored.cancelled() else stored.exception()
