"""Combines small calls to one node into batches.

A broker that takes over a thousand topics fences and reads a thousand ledgers; separate calls would
cost both ends more than the work itself. Calls made in the same iteration of the event loop, or
while earlier batches are pending, are sent as one. Each has its own outcome. A call without company
is sent as a single call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from storage_grpc import storage_pb2 as pb
from storage_grpc.remote.wire.codes import error_of
from sulina.errors import SulinaError, UnknownOutcome
from sulina.runtime.tasks import stop_tasks

_MAX_PENDING: Final = 2
_MIN_SECOND_BATCH: Final = 32
"""While a batch is pending, a second one is sent only with at least this many calls."""
_MAX_BATCH: Final = 256

SingleCall = Callable[[], Awaitable[pb.Told]]
BatchCall = Callable[[pb.ManyRequest], Awaitable[pb.ManyReply]]


@dataclass(slots=True, eq=False)
class _PendingCall:
    ask: pb.Ask
    single: SingleCall
    answer: asyncio.Future[pb.Told]


class CallBatcher:
    """Batches calls of one kind, so that quick calls never wait for slow ones. ``close`` it.

    A call is made even if its caller is cancelled. Bounded by its callers: each waits for its call.
    """

    def __init__(self, who: str, batch: BatchCall) -> None:
        self._who = who
        self._batch = batch
        self._waiting: deque[_PendingCall] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = False
        self._closed = False

    async def call(self, ask: pb.Ask, single: SingleCall) -> pb.Told:
        """The answer to ``ask``; ``single`` makes the same call outside of a batch.

        Raises the error that the node answers with, or that of the connection.
        """
        if self._closed:
            raise self._gone()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[pb.Told] = loop.create_future()
        self._waiting.append(_PendingCall(ask, single, answer))
        if not self._woken:
            # Wait for the other calls of this iteration of the loop.
            self._woken = True
            loop.call_soon(self._wake)
        told = await answer
        if told.code != pb.OK:
            raise error_of(told.code, told.message, self._who)
        return told

    async def close(self) -> None:
        """Cancel pending calls; they have an unknown outcome."""
        self._closed = True
        await stop_tasks(*self._tasks)
        self._fail(list(self._waiting), self._gone())
        self._waiting.clear()

    def _wake(self) -> None:
        self._woken = False
        while self._waiting and self._may_send():
            calls: list[_PendingCall] = []
            while self._waiting and len(calls) < _MAX_BATCH:
                call = self._waiting.popleft()
                if not call.answer.done():  # otherwise its caller was cancelled
                    calls.append(call)
            if calls:
                task = asyncio.create_task(self._send(calls))
                self._tasks.add(task)
                task.add_done_callback(self._sent)

    def _may_send(self) -> bool:
        if self._closed or not self._tasks:
            return not self._closed
        return len(self._tasks) < _MAX_PENDING and len(self._waiting) >= _MIN_SECOND_BATCH

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake()

    async def _send(self, calls: list[_PendingCall]) -> None:
        try:
            if len(calls) > 1:
                calls = await self._send_batch(calls)
            for call in calls:
                await self._send_single(call)
        except asyncio.CancelledError:
            self._fail(calls, self._gone())
            raise

    async def _send_batch(self, calls: list[_PendingCall]) -> list[_PendingCall]:
        """Returns the calls that did not fit and must be made singly."""
        try:
            reply = await self._batch(pb.ManyRequest(asks=[call.ask for call in calls]))
        except SulinaError as error:
            self._fail(calls, error)
            return []
        if len(reply.answers) != len(calls):
            self._fail(calls, UnknownOutcome(f"{self._who} returned the wrong number of answers"))
            return []
        for call, told in zip(calls, reply.answers, strict=True):
            if told.code != pb.OVERLOADED and not call.answer.done():
                call.answer.set_result(told)
        return [call for call in calls if not call.answer.done()]

    async def _send_single(self, call: _PendingCall) -> None:
        try:
            told = await call.single()
        except SulinaError as error:
            self._fail([call], error)
        else:
            if not call.answer.done():
                call.answer.set_result(told)

    def _fail(self, calls: list[_PendingCall], error: SulinaError) -> None:
        for call in calls:
            if not call.answer.done():
                call.answer.set_exception(type(error)(*error.args))

    def _gone(self) -> UnknownOutcome:
        return UnknownOutcome(f"the connection to {self._who} was closed")
