"""Ends a run that never waits: no virtual time passes in it, so no timer could end it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Spinning(KeyboardInterrupt):
    """Raised in the running code. A ``KeyboardInterrupt``, so that no task catches it."""


@contextmanager
def watchdog(seconds: float) -> Iterator[None]:
    """Raise ``Spinning`` after ``seconds`` of CPU time. Only works in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _on_timer)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _on_timer(number: int, frame: FrameType | None) -> None:
    where = "somewhere" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
    raise Spinning(f"endless loop at {where}")
