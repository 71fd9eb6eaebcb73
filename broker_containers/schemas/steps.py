"""Bounds the work that a schema can cause.

Small schemas can describe unbounded work: references that double at every level, patterns, lists
that are compared with lists. So checks and comparisons count their steps, a few microseconds each
at most, and end when their budget is used up, or when their caller no longer waits.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from sulina.runtime.seam import RunBlocking

READ_STEPS: Final = 500_000
"""To read a definition: the largest ones take about a second."""
ON_LOOP_STEPS: Final = 20_000
"""To check payloads on the event loop; what takes longer is checked in a thread."""
_COMPARE_STEPS: Final = 200_000
_STEPS_PER_VERSION: Final = 5_000
_PAYLOAD_STEPS: Final = 200_000
_STEPS_PER_BYTE: Final = 2

_T = TypeVar("_T")


class TooManySteps(Exception):
    """The budget is used up."""


class _Budget:
    __slots__ = ("ended", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self.ended = False


class _Current(threading.local):
    budget = _Budget(sys.maxsize)


_current: Final = _Current()


def spend(steps: int = 1) -> None:
    """Count steps of this thread's budget. Raises ``TooManySteps`` when none are left."""
    budget = _current.budget
    budget.left -= steps
    if budget.left < 0 or budget.ended:
        raise TooManySteps


@contextmanager
def at_most(steps: int | _Budget) -> Iterator[None]:
    """What runs within may spend this many steps."""
    before = _current.budget
    _current.budget = steps if isinstance(steps, _Budget) else _Budget(steps)
    try:
        yield
    finally:
        _current.budget = before


def compare_steps(versions: int) -> int:
    """The budget to compare a schema with this many versions."""
    return _COMPARE_STEPS + _STEPS_PER_VERSION * versions


def payload_steps(size: int) -> int:
    """The budget to check payloads of ``size`` bytes together, in a thread."""
    return _PAYLOAD_STEPS + _STEPS_PER_BYTE * size


async def run_bounded(run_blocking: RunBlocking, steps: int, work: Callable[[], _T]) -> _T:
    """Run ``work`` with a budget of ``steps``. If the caller is cancelled, the work ends, too.

    Raises ``TooManySteps``, and what ``work`` raises.
    """
    budget = _Budget(steps)

    def run() -> _T:
        with at_most(budget):
            return work()

    try:
        return await run_blocking(run)
    except asyncio.CancelledError:
        budget.ended = True
        raise
