"""Runs blocking work in threads, so that the event loop stays responsive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class ThreadRunner:
    """A ``RunBlocking`` that runs up to ``at_a_time`` calls in threads; further callers wait."""

    def __init__(self, at_a_time: int = 1) -> None:
        self._turns = asyncio.Semaphore(at_a_time)

    async def __call__(self, work: Callable[[], _T]) -> _T:
        """The result of ``work``, which runs to its end even if the caller is cancelled."""
        async with self._turns:
            return await asyncio.to_thread(work)
