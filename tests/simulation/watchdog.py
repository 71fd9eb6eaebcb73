"""Ends a run that computes and never waits: in it no virtual time passes, so nothing else can."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Spinning(KeyboardInterrupt):
    """Raised where the program is. Of a kind that no task keeps for itself."""


@contextmanager
def watchdog(seconds: float) -> Iterator[None]:
    """Raise ``Spinning`` after so many seconds of computing; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _bark)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _bark(number: int, frame: FrameType | None) -> None:
    where = "somewhere" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
    raise Spinning(f"it computes without an end, at {where}")
