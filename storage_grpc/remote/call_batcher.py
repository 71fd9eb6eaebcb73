"""Small calls to one node, put together while others are under way.

Whoever takes over a thousand topics fences and looks into a thousand ledgers, and a call of its own
for each costs both ends more than what it asks for. Calls that are made in the same turn of the
loop, or while as many as are allowed are under way, go as one. The outcome of each is its own. A
call that finds nobody to go with goes as it always did.
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

_UNDER_WAY: Final = 2
_WORTH_A_CALL: Final = 32
"""While a call is under way another one is made only if so many wait for it."""
_TOGETHER: Final = 256

Alone = Callable[[], Awaitable[pb.Told]]
Together = Callable[[pb.ManyRequest], Awaitable[pb.ManyReply]]


@dataclass(slots=True, eq=False)
class _PendingCall:
    ask: pb.Ask
    alone: Alone
    answer: asyncio.Future[pb.Told]


class CallBatcher:
    """For calls of one kind, so that quick ones never wait for slow ones. ``close`` it.

    A caller that is cancelled leaves its call to be made. Bounded by its callers: each has one
    call here.
    """

    def __init__(self, who: str, together: Together) -> None:
        self._who = who
        self._together = together
        self._waiting: deque[_PendingCall] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = False
        self._closed = False

    async def call(self, ask: pb.Ask, alone: Alone) -> pb.Told:
        """The answer to ``ask``, which ``alone`` gets as well. Raises the error that it tells."""
        if self._closed:
            raise self._gone()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[pb.Told] = loop.create_future()
        self._waiting.append(_PendingCall(ask, alone, answer))
        if not self._woken:
            # The rest of what is asked for in this turn of the loop comes along.
            self._woken = True
            loop.call_soon(self._wake)
        told = await answer
        if told.code != pb.OK:
            raise error_of(told.code, told.message, self._who)
        return told

    async def close(self) -> None:
        """Let what is under way go; who waits for it is told that its outcome is unknown."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fail(list(self._waiting), self._gone())
        self._waiting.clear()

    def _wake(self) -> None:
        self._woken = False
        while self._waiting and self._may_send():
            calls: list[_PendingCall] = []
            while self._waiting and len(calls) < _TOGETHER:
                call = self._waiting.popleft()
                if not call.answer.done():  # else its caller has given it up
                    calls.append(call)
            if calls:
                task = asyncio.create_task(self._send(calls))
                self._tasks.add(task)
                task.add_done_callback(self._sent)

    def _may_send(self) -> bool:
        if self._closed or not self._tasks:
            return not self._closed
        return len(self._tasks) < _UNDER_WAY and len(self._waiting) >= _WORTH_A_CALL

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake()

    async def _send(self, calls: list[_PendingCall]) -> None:
        try:
            if len(calls) > 1:
                calls = await self._send_together(calls)
            for call in calls:
                await self._send_alone(call)
        except asyncio.CancelledError:
            self._fail(calls, self._gone())
            raise

    async def _send_together(self, calls: list[_PendingCall]) -> list[_PendingCall]:
        """Those that have to be asked alone."""
        try:
            reply = await self._together(pb.ManyRequest(asks=[call.ask for call in calls]))
        except SulinaError as error:
            self._fail(calls, error)
            return []
        if len(reply.answers) != len(calls):
            self._fail(calls, UnknownOutcome(f"{self._who} answered more or less than was asked"))
            return []
        for call, told in zip(calls, reply.answers, strict=True):
            if told.code != pb.OVERLOADED and not call.answer.done():
                call.answer.set_result(told)
        return [call for call in calls if not call.answer.done()]

    async def _send_alone(self, call: _PendingCall) -> None:
        try:
            told = await call.alone()
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
        return UnknownOutcome(f"{self._who} is no longer used here")
