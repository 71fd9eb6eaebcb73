"""Two numbers that the processes of a cell share: the total to expect, and the count so far."""

from __future__ import annotations

import ctypes
from multiprocessing.sharedctypes import RawArray


class SharedCounters:
    """Aligned 64-bit words in shared memory: each has one writer, and is read without a lock."""

    def __init__(self) -> None:
        self._words = RawArray(ctypes.c_int64, [-1, 0])

    @property
    def total(self) -> int:
        """How many records the cell has; -1 until the producer knows."""
        return self._words[0]

    @total.setter
    def total(self, count: int) -> None:
        self._words[0] = count

    @property
    def received(self) -> int:
        """How many records the consumer has."""
        return self._words[1]

    @received.setter
    def received(self, count: int) -> None:
        self._words[1] = count
