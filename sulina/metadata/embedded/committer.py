"""One writer for all requests: those that arrive together become durable with one sync.

Requests are evaluated in the order they came, each on what those before it left, on a draft that
nobody else sees. The draft's changes are logged, then made visible, then answered. If they can't be
logged, the draft is dropped and every request of the group fails.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sulina.errors import Closed, Overloaded, Retriable, SulinaError, UnknownOutcome
from sulina.metadata.embedded.draft import Draft
from sulina.metadata.embedded.log import TransactionLog
from sulina.metadata.embedded.state import Change, State

T = TypeVar("T")
MAX_QUEUED_BYTES = 64 * 1024 * 1024
MAX_GROUP_BYTES = 4 * 1024 * 1024
_REQUEST_BYTES = 1024
"""What a request takes in memory beside its keys and values, generously."""


@dataclass(frozen=True, slots=True)
class _Request:
    evaluate: Callable[[Draft], Any]
    size: int
    outcome: asyncio.Future[Any]


class Committer:
    """Evaluates, logs and publishes requests. ``log`` is None for a store in memory."""

    def __init__(
        self,
        state: State,
        log: TransactionLog | None,
        publish: Callable[[list[Change]], None],
    ) -> None:
        self._state = state
        self._log = log
        self._publish = publish
        self._queue: deque[_Request] = deque()
        self._queued_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def commit(self, evaluate: Callable[[Draft], T], size: int = 0) -> T:
        """What ``evaluate`` returns, once everything it did to the draft is durable and visible.

        Raises what ``evaluate`` raises, ``Overloaded`` if too much is queued, and the errors of
        ``TransactionLog.append``. A caller that is cancelled does not learn the outcome.
        """
        if self._closed:
            raise Closed("the metadata store is closed")
        size += _REQUEST_BYTES
        if self._queued_bytes + size > MAX_QUEUED_BYTES:
            raise Overloaded("too many metadata changes wait for the disk: try again shortly")
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(_Request(evaluate, size, outcome))
        self._queued_bytes += size
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="metadata-committer")
        return await outcome

    async def close(self) -> None:
        """Take nothing more, finish what is queued, release the log."""
        self._closed = True
        if self._task is not None:
            await asyncio.wait([self._task])  # unlike a plain await, survives a cancelled close
        if self._log is not None:
            await self._log.close()

    async def _drain(self) -> None:
        group: list[_Request] = []
        try:
            while self._queue:
                group = self._take()
                await self._commit_group(group)
                if self._log is not None:
                    await self._log.shrink(self._state)
        except BaseException:
            # A fault in this program, or the end of the event loop: leave nobody waiting.
            for request in (*group, *self._queue):
                _answer(request, UnknownOutcome("the metadata store stopped: read back later"))
            raise
        finally:
            self._task = None

    def _take(self) -> list[_Request]:
        group: list[_Request] = []
        size = 0
        while self._queue and (not group or size + self._queue[0].size <= MAX_GROUP_BYTES):
            request = self._queue.popleft()
            size += request.size
            if not request.outcome.done():  # else its caller gave up before anything happened
                group.append(request)
        self._queued_bytes -= size
        return group

    async def _commit_group(self, group: list[_Request]) -> None:
        draft = Draft(self._state)
        answers = [_evaluate(request, draft) for request in group]
        if draft.changes:
            try:
                if self._log is not None:
                    await self._log.append(draft.changes)
            except (Retriable, UnknownOutcome) as error:
                # Answers that rest on what was not kept are no answers, not even a refusal.
                answers = [type(error)(*error.args) for _ in group]
            else:
                self._publish(draft.changes)
        for request, answer in zip(group, answers, strict=True):
            _answer(request, answer)


def _evaluate(request: _Request, draft: Draft) -> Any:
    """What the request returned, or the error it raised."""
    try:
        return request.evaluate(draft)
    except SulinaError as error:
        return error


def _answer(request: _Request, answer: Any) -> None:
    if request.outcome.done():
        return  # answered already, or its caller gave up
    if isinstance(answer, SulinaError):
        request.outcome.set_exception(answer)
    else:
        request.outcome.set_result(answer)
