"""Runs blocking work in threads, so that the event loop stays responsive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

_T = TypeVar("_T")


async def in_daemon(call: Callable[[], _T]) -> _T:
    """The result of a blocking call in a daemon thread, which does not delay process exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(result: _T | None, error: BaseException | None) -> None:
        if future.done():
            return  # cancelled meanwhile
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # _T where there is no error

    def work() -> None:
        result, error = None, None
        try:
            result = call()
        except BaseException as caught:
            error = caught
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # the loop is closed, so nothing awaits the result

    threading.Thread(target=work, daemon=True).start()
    return await future


class ThreadRunner:
    """A ``RunBlocking`` that runs up to ``at_a_time`` calls in threads; further callers wait.

    The process does not wait for these threads when it exits.
    """

    def __init__(self, at_a_time: int = 1) -> None:
        self._turns = asyncio.Semaphore(at_a_time)

    async def __call__(self, work: Callable[[], _T]) -> _T:
        """The result of ``work``, which runs to its end even if the caller is cancelled."""
        await self._turns.acquire()
        loop = asyncio.get_running_loop()

        def run() -> _T:
            try:
                return work()
            finally:
                # Only now: callers that were cancelled must not add up to many threads.
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._turns.release)

        return await in_daemon(run)
