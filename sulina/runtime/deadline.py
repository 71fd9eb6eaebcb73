"""A deadline on any wait, measured by the seam's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sulina.runtime.seam import Clock

_T = TypeVar("_T")


async def within(
    clock: Clock,
    seconds: float,
    work: Awaitable[_T],
    *,
    discard: Callable[[_T], object] | None = None,
) -> _T:
    """The result of ``work``, or ``TimeoutError`` after ``seconds``.

    ``work`` is cancelled when the time is up and when the caller is cancelled. If it finishes all
    the same, ``discard`` receives the result that nobody gets, to release what it holds.
    """

    def drop(task: asyncio.Future[_T]) -> None:
        # Retrieving the exception keeps asyncio from logging it as never retrieved.
        if not task.cancelled() and task.exception() is None and discard is not None:
            discard(task.result())

    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
        task.add_done_callback(drop)
        raise
    finally:
        timer.cancel()
    if task.done():
        return task.result()
    task.cancel()
    task.add_done_callback(drop)
    raise TimeoutError
