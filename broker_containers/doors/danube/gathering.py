"""How long a frame waits for company.

A call of a stock client carries one message, and a program with many calls under way makes its
next one as soon as an earlier one is answered. A frame costs as much as many messages do, so after
an answer to several callers the next frame waits until as many are there again; but only as long
as they keep coming, and never for long. A message from a lone caller waits for nobody.
"""

from __future__ import annotations


class Gathering:
    """Decides for one producer. ``step`` and ``most`` are seconds: between one look and the next
    something must have come, and nobody waits for longer than ``most`` after an answer."""

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
        came = waiting - self._before
        patience = self._most if self._before else self._step
        self._before = waiting
        return not self.complete(waiting) and came > 0 and now - self._answered < patience
