"""The interface of a topic's log, and the log of topics that store nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker_containers.topic_log.dedup import Dedup
from broker_containers.topic_log.tail_cache import CachedFrame
from sulina.errors import SulinaError
from sulina.wire.header import FrameHeader, assign

Appended = Callable[[CachedFrame | SulinaError], None]
"""The outcome of an append. Must not raise."""


class LogReader(Protocol):
    """A position in a log from which frames are read in order."""

    async def read(self, max_bytes: int) -> list[CachedFrame]:
        """The next whole frames, at least one if any; empty at the end of the log.

        The first frame contains the requested offset and may start before it. Raises
        ``CorruptEntry`` for damaged data, which is never skipped silently, and ``Retriable``.
        """
        ...


class Log(Protocol):
    """An append-only sequence of frames. Offsets have no gaps and no repeats."""

    dedup: Dedup

    @property
    def start(self) -> int:
        """The lowest offset that can be read."""
        ...

    @property
    def end(self) -> int:
        """The offset after the last confirmed record; nothing beyond it is visible."""
        ...

    @property
    def usable(self) -> bool:
        """Whether appends can succeed; if not, ``repair`` first."""
        ...

    def append(self, frame: memoryview, header: FrameHeader, done: Appended) -> None:
        """Append a frame; ``done`` gets it when it is durable, with its offset, or the error.

        Never blocks; ``done`` is called in the order of the appends, perhaps before this returns.
        After a failure all pending appends fail too, and nothing is accepted until ``repair``.
        """
        ...

    async def repair(self) -> None:
        """After a failed append: find out what is stored, and continue from there."""
        ...

    def reader(self, offset: int) -> LogReader: ...

    async def offset_at(self, time_us: int) -> int:
        """The offset of the first record published at this time or later."""
        ...

    async def close(self) -> None: ...


class VolatileLog:
    """The log of a NonReliable topic: it only assigns offsets and stores nothing."""

    usable = True

    def __init__(self) -> None:
        self.dedup = Dedup()
        self.end = 0

    @property
    def start(self) -> int:
        return self.end

    def append(self, frame: memoryview, header: FrameHeader, done: Appended) -> None:
        assign(frame, self.end, 0)
        numbered = header.assigned(self.end, 0)
        self.end = numbered.next_offset
        done(CachedFrame(numbered, frame))

    async def repair(self) -> None:
        return

    def reader(self, offset: int) -> LogReader:
        return _NothingToRead()

    async def offset_at(self, time_us: int) -> int:
        return self.end

    async def close(self) -> None:
        return


class _NothingToRead:
    async def read(self, max_bytes: int) -> list[CachedFrame]:
        return []
