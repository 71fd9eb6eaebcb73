"""Brings frames to a subscription: from the topic's tail, or from storage with read-ahead.

One read at a time, in a task that belongs to the subscription. What is kept is bounded: what was
read ahead, what is loaded and not wholly delivered, and what was read for a single frame.
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
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_READ_AHEAD: Final = 2 << 20
_READ_MORE_AT: Final = 4
"""Frames left of what was read ahead when the next read starts."""
_READ_AROUND: Final = 256 << 10
"""Bytes read for one frame: those behind it are often wanted next."""
_KEEP_LOADED: Final = 4 << 20
_RETRY_SECONDS: Final = 1.0


class SubscribedTopic(Protocol):
    """What a subscription needs of its topic."""

    name: TopicName
    delivery: Delivery
    log: Log
    tail: TopicTail


class FrameGone(Exception):
    """Retention deleted the frame, or nothing but the tail is kept and it left that."""


class FrameReader:
    """The frames of one subscription. ``wake`` is called when a read has ended.

    ``stored`` off: there is nothing but the tail.
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
        """Why frames can't be read at present."""
        self._source = source
        self._clock = clock
        self._wake = wake
        self._label = label
        self._stored = stored
        self._reader: tuple[int, LogReader] | None = None
        self._ahead: deque[CachedFrame] = deque()
        self._loaded: OrderedDict[int, CachedFrame] = OrderedDict()
        self.kept_bytes = 0
        """Bytes of the frames that are held until they are delivered."""
        self._single: dict[int, CachedFrame | None] = {}
        """What the last read for a single frame brought. None: that frame is gone."""
        self._task: asyncio.Task[None] | None = None

    # ---- frames in order ----

    def next(self, offset: int) -> CachedFrame | None:
        """The frame that holds ``offset``, or the first behind it, if it is at hand.

        If it is not, and when little is left of what was read ahead, a read starts. The caller
        comes with a higher offset the next time, or with the same one.
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
        self._reader = None  # a place that failed is looked up again
        frames = await reader.read(_READ_AHEAD)
        if frames:
            self._ahead.extend(frames)
            self._reader = (frames[-1].header.next_offset, reader)

    # ---- single frames ----

    def at(self, base: int, also: Callable[[int], bool] | None = None) -> CachedFrame | None:
        """The frame that starts at ``base``, if it is at hand; if it is not, a read starts.

        ``also`` tells which of the frames behind it will be asked for next: those that lie close
        are read together. Raises ``FrameGone`` if there is no such frame any more.
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
        """The frame that starts at ``base``, for who can wait; None if it is gone.

        Raises as ``LogReader.read`` does.
        """
        frame = self._source.tail.at(base)
        if frame is None:
            frames = await self._source.log.reader(base).read(1)
            frame = frames[0] if frames and frames[0].base == base else None
        return frame

    # ---- what is kept ----

    def keep(self, frame: CachedFrame) -> None:
        """Hold on to a frame that will be delivered soon; the oldest go beyond a bound."""
        self.drop(frame.base)
        self._loaded[frame.base] = frame
        self.kept_bytes += frame.header.size
        while self.kept_bytes > _KEEP_LOADED and len(self._loaded) > 1:
            self.drop(next(iter(self._loaded)))

    def drop(self, base: int) -> None:
        """A frame is delivered, and not wanted for now."""
        frame = self._loaded.pop(base, None)
        if frame is not None:
            self.kept_bytes -= frame.header.size

    def forget(self) -> None:
        """The subscription goes on elsewhere: nothing that was read is of use."""
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
                _log.error("%s of %s can't read: %s", self._label, self._source.name, error)
            self.stalled = str(error)
            await self._clock.sleep(_RETRY_SECONDS)
        finally:
            if self._task is me:
                self._task = None
        self._wake()

    async def close(self) -> None:
        """Stop reading; waits for the read under way to end."""
        if self._task is not None:
            task = self._task
            task.cancel()
            await asyncio.wait([task])
