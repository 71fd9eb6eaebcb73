"""A deadline on any wait, measured by the seam's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from sulina.runtime.seam import Clock

_T = TypeVar("_T")


async def within(clock: Clock, seconds: float, work: Awaitable[_T]) -> _T:
    """The outcome of ``work``, or ``TimeoutError`` after ``seconds``.

    ``work`` is cancelled when the time is over and when the caller is cancelled.
    """
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError
    finally:
        timer.cancel()
        if task.done():
            _look_at(task)
        else:
            task.cancel()
            task.add_done_callback(_look_at)


def _look_at(task: asyncio.Future[Any]) -> None:
    """Nobody may wait for this any more: an error on its way out is no news then."""
    if not task.cancelled():
        task.exception()
