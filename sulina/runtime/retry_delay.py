"""Pauses between attempts."""

from __future__ import annotations

from typing import Final

from sulina.runtime.seam import Randomness

FIRST_DELAY: Final = 0.05
LONGEST_DELAY: Final = 5.0


class RetryDelay:
    """Delays that double from 50 ms to 5 s. Each is shortened by a random part of up to half, so
    that the clients of a lost broker do not all reconnect at the same moment."""

    __slots__ = ("_delay", "_random")

    def __init__(self, random: Randomness) -> None:
        self._random = random
        self._delay = FIRST_DELAY

    def next(self) -> float:
        """Seconds to wait before the next attempt."""
        delay = self._delay
        self._delay = min(2 * delay, LONGEST_DELAY)
        return delay * (0.5 + self._random.random() / 2)

    def reset(self) -> None:
        """Start again with the shortest delay, after a success."""
        self._delay = FIRST_DELAY
