"""Work that takes a while, done beside the event loop, so that nobody else waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class Aside:
    """Some pieces of work at a time, each in a thread; further callers wait for their turn."""

    def __init__(self, at_a_time: int = 1) -> None:
        self._turns = asyncio.Semaphore(at_a_time)

    async def __call__(self, work: Callable[[], _T]) -> _T:
        """The outcome of ``work``. It goes on to its end even if the caller is cancelled."""
        async with self._turns:
            return await asyncio.to_thread(work)
