"""Decides how long to wait for more messages before publishing a frame.

A call of a stock client carries one message, and a program with many calls in progress makes the
next one as soon as an earlier one is answered. Publishing a frame costs as much as many messages,
so after answering several callers the next frame waits until as many messages have arrived again,
as long as they keep arriving quickly and within a limit. A single caller's message never waits.
"""

from __future__ import annotations

from typing import Final

_ENOUGH: Final = 2
"""Messages that must arrive per step to go on waiting. Fewer can have a frame each."""
_MANY: Final = 8
"""Callers for whom a whole step is waited. Fewer come back sooner, if they come back at once; and
with few of them, independent ones are often answered together by chance."""


class BatchDelay:
    """The decision for one publisher. ``longest`` is the maximum time between checks, and ``most``
    from an answer to the last check, both in seconds."""

    __slots__ = ("_answered", "_before", "_callers", "_longest", "_most", "step")

    def __init__(self, longest: float, most: float) -> None:
        self._longest = longest
        self._most = most
        self.step = longest
        """Seconds until the next check."""
        self._callers = 1
        self._answered = 0.0
        self._before = 0

    def answered(self, callers: int, now: float) -> None:
        """A frame was answered while ``callers`` calls were in progress, its own included."""
        self._callers = callers
        self.step = self._longest * min(callers / _MANY, 1.0)
        self._answered = now
        self._before = 0

    def complete(self, waiting: int) -> bool:
        """Whether as many messages wait as there were callers."""
        return waiting >= self._callers

    def keeps_waiting(self, waiting: int, now: float) -> bool:
        """Whether to wait for more than ``waiting`` messages; call again after ``step``."""
        arrived, first = waiting - self._before, not self._before
        self._before = waiting
        if self.complete(waiting) or arrived < (1 if first else _ENOUGH):
            return False
        return now - self._answered < (self.step if first else self._most)
