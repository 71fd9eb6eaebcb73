"""Work that is done to its end, whoever asked for it: nothing is left half done.

A request dies with its connection. What changes a topic or a subscription in several steps must
not stop between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class ShieldedTasks:
    """Owns the tasks of such work. There are no more than requests under way."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The result of ``work``, which goes on when the caller is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller has it; if the caller is gone, it is no news

    async def finished(self) -> None:
        """Wait for all that is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)
