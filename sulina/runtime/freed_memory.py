"""Returns memory that was freed, and is not needed again, to the system.

Processes keep freed memory for later frames (see ``tune_for_frames``): what a burst of them, or an
attack, needed once would otherwise stay with the process for as long as it runs.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from sulina.runtime.threads import in_daemon

_LOOKS: Final = 4
"""Memory that was free at each of so many looks is not needed."""
_WORTH_BYTES: Final = 4 << 20
"""Less than this stays."""


class Heap(Protocol):
    """The memory of a process."""

    def free(self) -> int:
        """Bytes that the process has freed, in memory or not."""
        ...

    def resident(self) -> int:
        """Bytes in memory."""
        ...

    def trim(self) -> None:
        """Return what is free to the system. Blocks, about 40 ms for a GiB."""
        ...


class _MallInfo(ctypes.Structure):
    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


class GlibcHeap:
    """The heap of this process. Raises ``OSError`` or ``AttributeError`` without glibc 2.33."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._info = library.mallinfo2
        self._info.restype = _MallInfo
        self._trim = library.malloc_trim
        self._page = os.sysconf("SC_PAGE_SIZE")

    def free(self) -> int:
        return int(self._info().fordblks)

    def resident(self) -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * self._page

    def trim(self) -> None:
        self._trim(0)


class FreedMemory:
    """Call ``look`` every few seconds: what was free at four looks in a row is returned. Without
    glibc it does nothing."""

    def __init__(self, heap: Heap | None = None) -> None:
        """``heap`` is this process's unless one is given."""
        self._heap = heap
        if heap is None:
            with suppress(OSError, AttributeError):
                self._heap = GlibcHeap()
        self._free: deque[int] = deque(maxlen=_LOOKS)
        self._resident = 0
        """The least that was in memory since the last time; 0 before the first."""

    async def look(self) -> None:
        """Look once. Memory is returned in a thread; without a free descriptor or thread, later."""
        if self._heap is not None:
            with suppress(OSError, RuntimeError):
                await self._look_at(self._heap)

    async def _look_at(self, heap: Heap) -> None:
        self._free.append(heap.free())
        resident = heap.resident()
        self._resident = min(self._resident, resident)
        if len(self._free) < _LOOKS or min(self._free) < _WORTH_BYTES:
            return
        # What was returned before still counts as free, but is not in memory.
        if resident < self._resident + _WORTH_BYTES:
            return
        await in_daemon(heap.trim)
        self._resident = heap.resident()
        self._free.clear()
