"""A token bucket: limits a rate by telling each taker how long to wait afterwards."""

from __future__ import annotations

from typing import Final

_BURST_SECONDS: Final = 1.0
"""An idle bucket fills up to what the rate gives in this time."""
_DEBT_SECONDS: Final = 60.0
"""Takers that do not wait cannot overdraw further than this, so that others wait no longer."""


class TokenBucket:
    """Whoever takes may overdraw the bucket, and then waits until the debt is repaid.

    So the unit can be larger than what the rate gives in a second. The caller passes the time.
    """

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._left = rate * _BURST_SECONDS
        self._at = now

    def take(self, amount: float, now: float) -> float:
        """Take ``amount``, and return the seconds to wait before taking more; 0 for none."""
        if now > self._at:
            refilled = self._left + (now - self._at) * self.rate
            self._left = min(refilled, self.rate * _BURST_SECONDS)
            self._at = now
        self._left = max(self._left - amount, -self.rate * _DEBT_SECONDS)
        return -self._left / self.rate if self._left < 0 else 0.0
