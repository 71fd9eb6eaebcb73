"""Many small calls as few large ones: a store in front of a store.

When a broker takes over a thousand topics, each needs a handful of reads and swaps, and a store on
the network answers perhaps a thousand calls a second. Calls that are made while others are under
way are put together: reads into one transaction, and transactions into one that runs if all their
comparisons hold. If one does not, or anything else is wrong with one of them, each runs on its own.
So the outcome is always one that the calls could have had one after the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sulina.errors import Refused, SulinaError
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
    TxnResult,
    Watch,
)

_UNDER_WAY: Final = 2
"""Calls to the store at the same time; what comes meanwhile is put together. Few: each costs every
member of the store as much as dozens of operations more in one."""
_WORTH_A_CALL: Final = 32
"""While a call is under way another one is made only if so many wait for it."""
_SHORT: Final = 16
"""A listing of no more keys is read together with others; longer ones are read on their own."""


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
    def stands_alone(self) -> bool:
        """Prefixes overlap with keys in ways that are not worth working out."""
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
        if call.stands_alone or self.calls[0].stands_alone:
            return False
        writes = call.writes
        touched = {*writes, *(compare.key for compare in call.compares)}
        return (
            self.compares + len(call.compares) <= MAX_TXN_OPS
            and self.ops + len(call.then) <= MAX_TXN_OPS
            and self.size + call.size <= MAX_TXN_BYTES
            # One that looks at what another changes would not see it.
            and self.keys.isdisjoint(touched)
            # A listing has the revision of the whole: nothing of it may change behind it.
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
    """``MetadataStore`` over another one, which it closes. For any number of tasks.

    A caller that is cancelled leaves its call to be made. Bounded by its callers: each has one
    call here.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._waiting: deque[_Call] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = False

    # ---- what is put together ----

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
            # The rest of what is being asked for in this turn of the loop comes along.
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
        try:
            if len(calls) == 1 or not await self._together(calls):
                for call in calls:
                    await self._alone(call)
        except asyncio.CancelledError:
            for call in calls:
                call.answer.cancel()
            raise

    async def _together(self, calls: list[_Call]) -> bool:
        """False if nothing happened, for one of them did not fit."""
        try:
            result = await self._store.txn(
                [compare for call in calls for compare in call.compares],
                [op for call in calls for op in call.then],
            )
        except Refused:
            return False
        except SulinaError as error:
            for call in calls:
                _fail(call, type(error)(*error.args))
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

    async def _alone(self, call: _Call) -> None:
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

    # ---- what is passed on ----

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


def _fail(call: _Call, error: SulinaError) -> None:
    if not call.answer.done():
        call.answer.set_exception(error)
