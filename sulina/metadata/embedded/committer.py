"""The single writer: requests that arrive together become durable with one sync.

Requests are evaluated in order of arrival, each on the result of those before it, as uncommitted
changes that no reader sees. The changes are logged, then made visible, then answered. If logging
fails, they are discarded and every request of the group fails.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sulina.errors import Closed, Overloaded, Retriable, SulinaError, UnknownOutcome
from sulina.metadata.embedded.log import TransactionLog
from sulina.metadata.embedded.state import Change, StoreState
from sulina.metadata.embedded.uncommitted import UncommittedChanges

T = TypeVar("T")
MAX_QUEUED_BYTES = 64 * 1024 * 1024
MAX_GROUP_BYTES = 4 * 1024 * 1024
_REQUEST_BYTES = 1024
"""An upper bound of a request's memory beside its keys and values."""


@dataclass(frozen=True, slots=True)
class _Request:
    evaluate: Callable[[UncommittedChanges], Any]
    size: int
    outcome: asyncio.Future[Any]


class MetadataCommitter:
    """Evaluates, logs and publishes requests. ``log`` is None for an in-memory store."""

    def __init__(
        self,
        state: StoreState,
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

    async def commit(self, evaluate: Callable[[UncommittedChanges], T], size: int = 0) -> T:
        """The result of ``evaluate``, once all its changes are durable and visible.

        Raises the errors of ``evaluate`` and of ``TransactionLog.append``, and ``Overloaded`` if
        too much is queued. A cancelled caller does not learn the outcome.
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
        """Refuse new requests, finish the queued ones, close the log."""
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
            # A bug, or the end of the event loop: let no caller wait forever.
            for request in (*group, *self._queue):
                _answer(
                    request, UnknownOutcome("the metadata store stopped: read back after a restart")
                )
            raise
        finally:
            self._task = None

    def _take(self) -> list[_Request]:
        group: list[_Request] = []
        size = 0
        while self._queue and (not group or size + self._queue[0].size <= MAX_GROUP_BYTES):
            request = self._queue.popleft()
            size += request.size
            if not request.outcome.done():  # otherwise its caller was cancelled
                group.append(request)
        self._queued_bytes -= size
        return group

    async def _commit_group(self, group: list[_Request]) -> None:
        uncommitted = UncommittedChanges(self._state)
        answers = [_evaluate(request, uncommitted) for request in group]
        if uncommitted.changes:
            try:
                if self._log is not None:
                    await self._log.append(uncommitted.changes)
            except (Retriable, UnknownOutcome) as error:
                # Results based on changes that were not kept are void, even refusals.
                answers = [type(error)(*error.args) for _ in group]
            else:
                self._publish(uncommitted.changes)
        for request, answer in zip(group, answers, strict=True):
            _answer(request, answer)


def _evaluate(request: _Request, uncommitted: UncommittedChanges) -> Any:
    """The request's result, or the error that it raised."""
    try:
        return request.evaluate(uncommitted)
    except SulinaError as error:
        return error


def _answer(request: _Request, answer: Any) -> None:
    if request.outcome.done():
        return  # answered already, or its caller was cancelled
    if isinstance(answer, SulinaError):
        request.outcome.set_exception(answer)
    else:
        request.outcome.set_result(answer)
