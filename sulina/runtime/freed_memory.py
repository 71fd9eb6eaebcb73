"""Returns memory that was freed, and is not needed again, to the system.

Processes keep freed memory for later frames (see ``tune_for_frames``): what a burst of them, or an
attack, needed once would otherwise stay with the process for as long as it runs.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from sulina.runtime.seam import Clock
from sulina.runtime.threads import in_daemon

_LOOK_SECONDS: Final = 5.0
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
    """Use as ``async with``: it looks every five seconds meanwhile, and returns what was free for
    twenty seconds. Without glibc it does nothing."""

    def __init__(self, clock: Clock, heap: Heap | None = None) -> None:
        """``heap`` is this process's unless one is given."""
        self._clock = clock
        self._heap = heap
        if heap is None:
            with suppress(OSError, AttributeError):
                self._heap = GlibcHeap()
        self._free: deque[int] = deque(maxlen=_LOOKS)
        self._resident = 0
        """The least that was in memory since the last time; 0 before the first."""
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> FreedMemory:
        if self._heap is not None:
            self._task = asyncio.create_task(self._run(), name="freed-memory")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Look once."""
        heap = self._heap
        if heap is None:
            return
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
