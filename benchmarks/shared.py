"""Two counters in shared memory: the number of records to expect, and those received."""

from __future__ import annotations

import ctypes
from multiprocessing.sharedctypes import RawArray


class SharedCounters:
    """Aligned 64-bit words, each with one writer and read without a lock."""

    def __init__(self) -> None:
        self._words = RawArray(ctypes.c_int64, [-1, 0])

    @property
    def total(self) -> int:
        """The number of records of the cell; -1 until the producer has set it."""
        return self._words[0]

    @total.setter
    def total(self, count: int) -> None:
        self._words[0] = count

    @property
    def received(self) -> int:
        """The number of records received."""
        return self._words[1]

    @received.setter
    def received(self, count: int) -> None:
        self._words[1] = count
