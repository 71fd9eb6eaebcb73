"""Runs a server until Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

_T = TypeVar("_T")
INTERRUPTED: Final = 130
"""The exit code of a process that a signal ended before it was ready, or a second time."""


class StopSignal:
    """Ctrl-C and SIGTERM: the first stops cleanly, the second immediately."""

    def __init__(self) -> None:
        self.received = asyncio.Event()
        self.ready = False
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        if self.received.is_set():
            # Acknowledged messages are durable, as after a power failure.
            os._exit(INTERRUPTED)
        self.received.set()
        if not self.ready:
            self._task.cancel()


async def serve_until_stopped(
    server: AbstractAsyncContextManager[_T],
    announce: Callable[[_T], None],
    stopping: Callable[[], None] = lambda: None,
) -> bool:
    """Run ``server`` until a signal; False if that came before it was ready.

    ``announce`` is called when it is ready, ``stopping`` when it begins to stop.
    """
    stop = StopSignal()
    try:
        async with server as running:
            stop.ready = True
            announce(running)
            await stop.received.wait()
            stopping()
    except asyncio.CancelledError:
        if not stop.received.is_set():
            raise
        return False
    return True
