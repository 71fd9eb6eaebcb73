"""Runs blocking work in threads, so that the event loop stays responsive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

_T = TypeVar("_T")


async def in_daemon(call: Callable[[], _T]) -> _T:
    """The result of a blocking call in a daemon thread, which does not delay process exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()
    threading.Thread(target=lambda: _report(loop, future, call), daemon=True).start()
    return await future


def _report(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[_T], call: Callable[[], _T]
) -> None:
    """In a thread: make a blocking call, and give its outcome to a future of the event loop."""
    result, error = None, None
    try:
        result = call()
    except BaseException as caught:
        error = caught
    with suppress(RuntimeError):  # the loop is closed, so nothing awaits the result
        loop.call_soon_threadsafe(_settle, future, result, error)


def _settle(future: asyncio.Future[_T], result: _T | None, error: BaseException | None) -> None:
    if future.done():
        return  # cancelled meanwhile
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)  # type: ignore[arg-type]  # _T where there is no error


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


class WorkerThread:
    """Runs blocking work in one thread, in the order of the calls.

    Handing work over costs a fraction of what it costs with an executor, whose futures have locks.
    The process does not wait for the thread when it exits, unless :meth:`stop` does.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[], _T]) -> _T:
        """The result of ``work``, which runs to its end even if the caller is cancelled."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._work.put(lambda: _report(loop, future, work))
        return await future

    def stop(self) -> None:
        """Wait until the queued work is done, and end the thread. Blocks."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
