"""How long a frame waits for company.

A call of a stock client carries one message, and a program with many calls under way makes its
next one as soon as an earlier one is answered. A frame costs as much as many messages do, so after
an answer to several callers the next frame waits until as many are there again; but only as long
as they come in quick succession, and never for long. A lone caller's message waits for nobody.
"""

from __future__ import annotations

from typing import Final

_ENOUGH: Final = 2
"""Messages that must come between two looks. With fewer, a frame for each is affordable."""


class BatchDelay:
    """Decides for one producer. ``step`` and ``most`` are seconds: from one look to the next, and
    from an answer to the last look after it."""

    __slots__ = ("_answered", "_before", "_callers", "_most", "_step")

    def __init__(self, step: float, most: float) -> None:
        self._step = step
        self._most = most
        self._callers = 1
        self._answered = 0.0
        self._before = 0

    def answered(self, callers: int, now: float) -> None:
        """A frame was answered; ``callers`` were under way then, those in the frame included."""
        self._callers = callers
        self._answered = now
        self._before = 0

    def complete(self, waiting: int) -> bool:
        """Whether everybody is here who is likely to come."""
        return waiting >= self._callers

    def goes_on(self, waiting: int, now: float) -> bool:
        """Whether a frame with ``waiting`` messages waits for more; ask again after ``step``."""
        came, first = waiting - self._before, not self._before
        self._before = waiting
        if self.complete(waiting) or came < (1 if first else _ENOUGH):
            return False
        return now - self._answered < (self._step if first else self._most)
