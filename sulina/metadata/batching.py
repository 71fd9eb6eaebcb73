"""Combines many small calls to a metadata store into few large ones.

When a broker takes over a thousand topics, each needs a handful of reads and swaps, but a remote
store answers perhaps a thousand calls per second. Calls made while others are in flight are
combined: reads into one transaction, and transactions into one that succeeds if all their
comparisons hold. If one does not, or one of them is invalid, the two halves are tried, and so on,
until the one that failed is alone: it must not make dozens of others as many calls. The outcome is
always one that the calls could have had one after the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sulina.errors import Refused, SulinaError, Unavailable, UnknownOutcome
from sulina.metadata.check import MAX_TXN_BYTES, MAX_TXN_OPS, check_txn
from sulina.metadata.lease import Lease
from sulina.metadata.store import (
    Compare,
    Delete,
    DeletePrefix,
    Get,
    GetPrefix,
    KeyValue,
    Listing,
    MetadataStore,
    Op,
    Put,
    ReplicatedStore,
    TxnResult,
    Watch,
)

_UNDER_WAY: Final = 2
"""Concurrent calls to the store; calls that arrive meanwhile are combined. Few, because each call
costs every member of the store as much as dozens of further operations in one."""
_WORTH_A_CALL: Final = 32
"""While a call is in flight, another one is sent only if this many requests are waiting."""
_SHORT: Final = 16
"""Listings of up to this many keys are combined; longer ones are read separately."""


@dataclass(slots=True, eq=False)
class _Call:
    compares: tuple[Compare, ...]
    then: tuple[Op, ...]
    otherwise: tuple[Op, ...]
    size: int
    answer: asyncio.Future[TxnResult]

    @property
    def writes(self) -> list[str]:
        return [op.key for op in self.then if isinstance(op, Put | Delete)]

    @property
    def only_reads(self) -> bool:
        return all(isinstance(op, Get | GetPrefix) for op in (*self.then, *self.otherwise))

    @property
    def never_combined(self) -> bool:
        """Deleting a prefix may overlap with any key, so it is never combined."""
        return any(isinstance(op, DeletePrefix) for op in self.then)


@dataclass(slots=True)
class _Batch:
    calls: list[_Call] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    listed: tuple[str, ...] = ()
    compares: int = 0
    ops: int = 0
    size: int = 0

    def takes(self, call: _Call) -> bool:
        if not self.calls:
            return True
        if call.never_combined or self.calls[0].never_combined:
            return False
        writes = call.writes
        touched = {*writes, *(compare.key for compare in call.compares)}
        return (
            self.compares + len(call.compares) <= MAX_TXN_OPS
            and self.ops + len(call.then) <= MAX_TXN_OPS
            and self.size + call.size <= MAX_TXN_BYTES
            # A call that compares what another one changes would not see the change.
            and self.keys.isdisjoint(touched)
            # A listing has the transaction's revision: no later call may change its keys.
            and not any(key.startswith(self.listed) for key in writes)
        )

    def add(self, call: _Call) -> None:
        self.calls.append(call)
        self.keys.update(call.writes)
        self.listed += tuple(op.prefix for op in call.then if isinstance(op, GetPrefix))
        self.compares += len(call.compares)
        self.ops += len(call.then)
        self.size += call.size


class BatchingStore:
    """A ``MetadataStore`` over another one, which it closes. Any number of tasks may use it.

    A cancelled caller's call is still made. The queue is bounded by the callers: each waits for
    one call.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._waiting: deque[_Call] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = False

    # ---- combined calls ----

    async def get(self, key: str) -> KeyValue | None:
        result = await self._call((), (Get(key),), ())
        return result.responses[0].item

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        return (await self._call((), (Put(key, value, lease),), ())).revision

    async def delete(self, key: str) -> bool:
        return (await self._call((), (Delete(key),), ())).responses[0].deleted > 0

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> TxnResult:
        return await self._call(tuple(compares), tuple(then), tuple(otherwise))

    async def _call(
        self, compares: tuple[Compare, ...], then: tuple[Op, ...], otherwise: tuple[Op, ...]
    ) -> TxnResult:
        size = check_txn(compares, then, otherwise)
        answer: asyncio.Future[TxnResult] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(compares, then, otherwise, size, answer))
        if not self._woken:
            # Include further calls of this iteration of the event loop.
            self._woken = True
            asyncio.get_running_loop().call_soon(self._wake)
        return await answer

    def _wake(self) -> None:
        self._woken = False
        while self._waiting and (
            not self._tasks
            or (len(self._tasks) < _UNDER_WAY and len(self._waiting) >= _WORTH_A_CALL)
        ):
            batch = _Batch()
            while self._waiting and batch.takes(self._waiting[0]):
                batch.add(self._waiting.popleft())
            task = asyncio.create_task(self._send(batch.calls))
            self._tasks.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake()

    async def _send(self, calls: list[_Call]) -> None:
        parts = [calls]
        try:
            while parts:
                part = parts.pop()
                if len(part) == 1:
                    await self._send_one(part[0])
                elif not await self._send_combined(part):
                    middle = len(part) // 2
                    parts += [part[middle:], part[:middle]]  # the last is sent next: in order
        except asyncio.CancelledError:
            for call in calls:
                call.answer.cancel()
            raise

    async def _send_combined(self, calls: list[_Call]) -> bool:
        """False if nothing happened, because a comparison failed or a call was invalid."""
        try:
            result = await self._store.txn(
                [compare for call in calls for compare in call.compares],
                [op for call in calls for op in call.then],
            )
        except Refused:
            return False
        except SulinaError as error:
            for call in calls:
                _fail(call, _for_reader(error) if call.only_reads else type(error)(*error.args))
            return True
        if not result.succeeded:
            return False
        at = 0
        for call in calls:
            responses = result.responses[at : at + len(call.then)]
            at += len(call.then)
            if not call.answer.done():
                call.answer.set_result(TxnResult(True, result.revision, responses))
        return True

    async def _send_one(self, call: _Call) -> None:
        try:
            result = await self._store.txn(call.compares, call.then, call.otherwise)
        except SulinaError as error:
            _fail(call, error)
        else:
            if not call.answer.done():
                call.answer.set_result(result)

    async def range(
        self,
        prefix: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        keys_only: bool = False,
    ) -> Listing:
        if limit is None and after is None and not keys_only:
            result = await self._call((), (GetPrefix(prefix, _SHORT),), ())
            found = result.responses[0]
            if not found.more:
                return Listing(found.items, result.revision, more=False)
        return await self._store.range(prefix, limit=limit, after=after, keys_only=keys_only)

    # ---- calls passed through ----

    async def silent_members(self) -> Sequence[str]:
        """See ``ReplicatedStore``; a store of one process has none."""
        if isinstance(self._store, ReplicatedStore):
            return await self._store.silent_members()
        return ()

    async def grant(self, ttl_seconds: int) -> Lease:
        return await self._store.grant(ttl_seconds)

    def watch(self, prefix: str, *, from_revision: int) -> Watch:
        return self._store.watch(prefix, from_revision=from_revision)

    async def compact(self, revision: int) -> None:
        await self._store.compact(revision)

    async def close(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._store.close()


def _for_reader(error: SulinaError) -> SulinaError:
    """What a call that changes nothing fails with, whatever is known of the others."""
    if isinstance(error, UnknownOutcome):
        return Unavailable("the metadata store does not answer: check that it runs, and try again")
    return type(error)(*error.args)


def _fail(call: _Call, error: SulinaError) -> None:
    if not call.answer.done():
        call.answer.set_exception(error)
