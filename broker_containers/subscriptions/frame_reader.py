"""Provides a subscription's frames from the topic's tail, or from storage with read-ahead.

One read at a time, in a task that belongs to the subscription. Memory is bounded: frames read
ahead, frames loaded and not fully delivered, and the result of the last single-frame read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from broker_containers.topic_log.log import Log, LogReader
from broker_containers.topic_log.tail_cache import CachedFrame, TopicTail
from sulina.errors import SulinaError
from sulina.metadata.keys.policy import Policy
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_READ_AHEAD: Final = 2 << 20
_READ_MORE_AT: Final = 4
"""The next read starts when this many read-ahead frames are left."""
_READ_AROUND: Final = 256 << 10
"""Bytes read around a single frame: following frames are often needed next."""
_KEEP_LOADED: Final = 4 << 20
_RETRY_SECONDS: Final = 1.0


class SubscribedTopic(Protocol):
    """What a subscription needs from its topic."""

    name: TopicName
    delivery: Delivery
    log: Log
    tail: TopicTail
    policy: Policy


class FrameGone(Exception):
    """The frame was deleted, or a NonReliable topic's cache evicted it."""


class FrameReader:
    """The frames of one subscription. Calls ``wake`` when a read ends.

    Unless ``stored``, only the tail can be read.
    """

    def __init__(
        self,
        source: SubscribedTopic,
        clock: Clock,
        wake: Callable[[], None],
        label: str,
        *,
        stored: bool,
    ) -> None:
        self.stalled: str | None = None
        """Why frames cannot be read at present."""
        self._source = source
        self._clock = clock
        self._wake = wake
        self._label = label
        self._stored = stored
        self._reader: tuple[int, LogReader] | None = None
        self._ahead: deque[CachedFrame] = deque()
        self._loaded: OrderedDict[int, CachedFrame] = OrderedDict()
        self.kept_bytes = 0
        """Bytes of the frames kept until they are delivered."""
        self._single: dict[int, CachedFrame | None] = {}
        """Result of the last single-frame read. None: that frame was deleted."""
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a read is in progress; ``wake`` is called when it ends."""
        return self._task is not None

    # ---- frames in order ----

    def next(self, offset: int) -> CachedFrame | None:
        """The frame that contains ``offset``, or the first one after it, if it is in memory.

        If it is not, or few read-ahead frames are left, a read starts. The next call must have the
        same or a higher offset.
        """
        ahead, tail = self._ahead, self._source.tail
        while ahead and ahead[0].header.next_offset <= offset:
            ahead.popleft()
        frame = tail.at(offset)
        if frame is None and ahead:
            frame, end = ahead[0], ahead[-1].header.next_offset
            if len(ahead) <= _READ_MORE_AT and tail.at(end) is None:
                self._start(partial(self._read_ahead, end))
        if frame is None and tail.first is not None and tail.first < offset:
            frame = tail.holding(offset)
        if frame is None:
            self._start(partial(self._read_ahead, offset))
        return frame

    async def _read_ahead(self, offset: int) -> None:
        if self._reader is None or self._reader[0] != offset:
            self._reader = (offset, self._source.log.reader(offset))
        reader = self._reader[1]
        self._reader = None  # after a failure the position is looked up again
        frames = await reader.read(_READ_AHEAD)
        if frames:
            self._ahead.extend(frames)
            self._reader = (frames[-1].header.next_offset, reader)

    # ---- single frames ----

    def at(self, base: int, also: Callable[[int], bool] | None = None) -> CachedFrame | None:
        """The frame that starts at ``base``, if it is in memory; if it is not, a read starts.

        ``also`` selects following frames that will be needed next: close ones are read together.
        Raises ``FrameGone`` if the frame no longer exists.
        """
        frame = self._loaded.get(base) or self._source.tail.at(base)
        if frame is None and base in self._single:
            frame = self._single.pop(base)
            if frame is None:
                raise FrameGone
        elif frame is None:
            if not self._stored:
                raise FrameGone
            self._start(partial(self._read_single, base, also))
        return frame

    async def _read_single(self, base: int, also: Callable[[int], bool] | None) -> None:
        self._single = {}
        frames = await self._source.log.reader(base).read(_READ_AROUND if also else 1)
        self._single = {frame.base: frame for frame in frames if also and also(frame.base)}
        self._single[base] = frames[0] if frames and frames[0].base == base else None

    async def stored(self, base: int) -> CachedFrame | None:
        """The frame that starts at ``base``; waits for storage. None if it was deleted.

        Raises what ``LogReader.read`` raises.
        """
        frame = self._source.tail.at(base)
        if frame is None:
            frames = await self._source.log.reader(base).read(1)
            frame = frames[0] if frames and frames[0].base == base else None
        return frame

    # ---- what is kept ----

    def keep(self, frame: CachedFrame) -> None:
        """Keep a frame that will be delivered soon; the oldest are dropped beyond a limit."""
        self.drop(frame.base)
        self._loaded[frame.base] = frame
        self.kept_bytes += frame.header.size
        while self.kept_bytes > _KEEP_LOADED and len(self._loaded) > 1:
            self.drop(next(iter(self._loaded)))

    def drop(self, base: int) -> None:
        """Drop a frame that was delivered."""
        frame = self._loaded.pop(base, None)
        if frame is not None:
            self.kept_bytes -= frame.header.size

    def forget(self) -> None:
        """Discard everything that was read: the subscription continues elsewhere."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._ahead.clear()
        self._loaded.clear()
        self.kept_bytes = 0
        self._single.clear()
        self._reader = None

    # ---- the task ----

    def _start(self, read: Callable[[], Awaitable[None]]) -> None:
        if self._task is None and self._stored:
            self._task = asyncio.create_task(self._run(read))

    async def _run(self, read: Callable[[], Awaitable[None]]) -> None:
        me = asyncio.current_task()
        try:
            await read()
            self.stalled = None
        except SulinaError as error:
            if self.stalled is None:
                _log.error("%s of %s cannot read: %s", self._label, self._source.name, error)
            self.stalled = str(error)
            await self._clock.sleep(_RETRY_SECONDS)
        finally:
            if self._task is me:
                self._task = None
        self._wake()

    async def close(self) -> None:
        """Stop reading; waits for the current read to end."""
        if self._task is not None:
            task = self._task
            task.cancel()
            await asyncio.wait([task])
