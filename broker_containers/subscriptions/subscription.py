"""Runs a subscription: loads frames, hands deliveries to consumers, keeps time, keeps the cursor.

The decisions are the dispatcher's; here is only what needs the event loop. A consumer that does
not read stops only its own deliveries; one that lags reads from storage while others stay at the
tail.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from broker_containers.subscriptions.dispatcher import DeadLetter, Dispatcher
from broker_containers.subscriptions.members import Member, Sink
from broker_containers.subscriptions.selectors import Pick
from broker_containers.subscriptions.track import Track
from broker_containers.topics.log import Log, LogReader
from broker_containers.topics.tail_cache import CachedFrame, TopicTail
from sulina.errors import Overloaded, Refused, SulinaError
from sulina.metadata.keys.cursors import CursorRecord
from sulina.model import SubscriptionType
from sulina.names import TopicName
from sulina.runtime.seam import Clock
from sulina.wire import selection
from sulina.wire.decode import Frame, read_producer_name, read_slots
from sulina.wire.encode import key_slot
from sulina.wire.header import parse_header

_log = logging.getLogger(__name__)
_DELIVERIES_A_TURN = 64
_READ_AHEAD = 2 << 20
_READ_MORE_AT = 4
"""Frames left of what was read ahead when the next read starts."""
_KEEP_LOADED = 4 << 20
_RETRY_SECONDS = 1.0
_MAX_RANGES = 10_000

Bury = Callable[["Subscription", DeadLetter, CachedFrame], Awaitable[None]]


class Source(Protocol):
    """What a subscription needs of its topic."""

    name: TopicName
    log: Log
    tail: TopicTail


class Subscription:
    """One subscription of one topic."""

    def __init__(
        self, source: Source, name: str, dispatcher: Dispatcher, clock: Clock, bury: Bury
    ) -> None:
        self.source = source
        self.name = name
        self.dispatcher = dispatcher
        self.dirty = False
        """The cursor moved since it was last stored."""
        self.stalled: str | None = None
        """Why records can't be read at present."""
        self._clock = clock
        self._bury = bury
        self._scheduled = False
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._reader: tuple[int, LogReader] | None = None
        self._ahead: deque[CachedFrame] = deque()
        self._loaded: OrderedDict[int, CachedFrame] = OrderedDict()
        self._loaded_bytes = 0
        self._parked: Pick | None = None
        self._reading: asyncio.Task[None] | None = None
        self._burying: asyncio.Task[None] | None = None

    # ---- consumers ----

    def join(self, name: str, sink: Sink, key_filters: tuple[str, ...], limit: int) -> Member:
        """A consumer comes. Raises ``Refused`` or ``Overloaded`` if it may not."""
        members = self.dispatcher.members
        if limit and len(members) >= limit and all(m.name != name for m in members.values()):
            raise Overloaded(f"{self.name!r} has {len(members)} consumers, its policy's limit")
        if not members and not self.dispatcher.reliable:
            self._skip_to_end()
        member = self.dispatcher.join(name, sink, key_filters, self._clock.now())
        if key_filters:
            self._forget_loaded_keys()
        return member

    def _skip_to_end(self) -> None:
        """Unreliable records are for who is there: the first to come gets none from before."""
        end = self.source.log.end
        self.dispatcher.counters.skipped += end - self.dispatcher.window.read_offset
        self._go_to(end)

    def leave(self, member: Member) -> None:
        self.dispatcher.leave(member.number, self._clock.now())
        self.wake()

    def grant(self, member: Member, records: int, bytes_: int) -> None:
        self.dispatcher.grant(member.number, records, bytes_, self._clock.now())
        self.wake()

    def writable(self, member: Member) -> None:
        """The consumer's connection takes data again."""
        member.writable = True
        self.wake()

    def ack(self, member: Member, first: int, last: int, mask: int | None) -> None:
        """Records are done. What was never published can't be acknowledged."""
        last = min(last, self.source.log.end - 1)
        if first <= last:
            self.dispatcher.ack(member.number, first, last, mask, self._clock.now())
            self.dirty = True
            self.wake()

    def ack_up_to(self, member: Member, last: int) -> None:
        self.dispatcher.ack_up_to(
            member.number, min(last, self.source.log.end - 1), self._clock.now()
        )
        self.dirty = True
        self.wake()

    def nack(
        self, member: Member, first: int, last: int, mask: int | None, delay_ms: int, reason: str
    ) -> None:
        now = self._clock.now()
        self.dispatcher.nack(member.number, first, last, mask, delay_ms, reason, now)
        self.dirty = True
        self.wake()

    @property
    def backlog(self) -> int:
        """Records that are published and not acknowledged, at most."""
        return max(self.source.log.end - self.dispatcher.window.position, 0)

    def cursor(self, now_us: int) -> CursorRecord:
        """The cursor as it is to be stored."""
        window = self.dispatcher.window
        return CursorRecord(window.position, tuple(window.acked_ranges(_MAX_RANGES)), now_us)

    def seek(self, offset: int) -> None:
        """Go on at ``offset``. Nothing is delivered before ``resume``."""
        self._paused = True
        self._go_to(offset)
        self.dirty = True

    def _go_to(self, offset: int) -> None:
        self._stop_reading()
        self._ahead.clear()
        self._loaded.clear()
        self._loaded_bytes = 0
        self._parked = None
        self._reader = None
        self.dispatcher.restart(offset)

    def resume(self) -> None:
        self._paused = False
        self.wake()

    async def close(self, reason: SulinaError) -> None:
        """Let the consumers go and stop all work."""
        self._paused = True
        if self._timer is not None:
            self._timer.cancel()
        for member in list(self.dispatcher.members.values()):
            member.sink.closed(reason)
            self.dispatcher.leave(member.number, self._clock.now())
        tasks = [task for task in (self._reading, self._burying) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # ---- delivering ----

    def wake(self) -> None:
        """Something changed: look for deliveries in the next turn of the loop."""
        if not self._scheduled and not self._paused:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self._paused:
            return
        now = self._clock.now()
        self.dispatcher.tick(now)
        if self._parked is None:
            self._deliver(now)
        else:
            self._start_reading()  # it may have failed; nothing is done if it is under way
        if self.dispatcher.dead_letters and self._burying is None:
            self._burying = asyncio.create_task(self._bury_all())
        self._arm_timer(now)

    def _deliver(self, now: float) -> None:
        for _ in range(_DELIVERIES_A_TURN):
            while self.dispatcher.wants_ahead and self._load_next():
                pass
            pick = self.dispatcher.next(now)
            if pick is not None:
                frame = self._frame_of(pick)
                if frame is None:
                    self._parked = pick
                    self._start_reading()
                    return
                self._send(pick, frame)
            elif not self._load_next():
                return
        self.wake()  # others get their turn first

    def _send(self, pick: Pick, frame: CachedFrame) -> None:
        chosen = None if pick.mask == selection.whole(pick.track.count) else pick.mask
        if not pick.member.sink.deliver(frame.data, chosen, pick.attempt):
            pick.member.writable = False
        if not pick.track.todo:
            self._drop_loaded(pick.track.base)

    def _frame_of(self, pick: Pick) -> CachedFrame | None:
        base = pick.track.base
        return self._loaded.get(base) or self.source.tail.at(base)

    # ---- loading ----

    def _load_next(self) -> bool:
        """Load the next frame if it is of use and at hand; start reading it if it is not."""
        window = self.dispatcher.window
        if not self.dispatcher.wants_more or window.read_offset >= self.source.log.end:
            return False
        self._skip_what_is_gone()
        offset = window.read_offset
        while self._ahead and self._ahead[0].header.next_offset <= offset:
            self._ahead.popleft()
        tail = self.source.tail
        frame = tail.at(offset)
        if frame is None and self._ahead:
            frame = self._ahead.popleft()
            if len(self._ahead) < _READ_MORE_AT and tail.at(self._ahead_end) is None:
                self._start_reading()
        if frame is None and tail.first is not None and tail.first < offset:
            frame = tail.holding(offset)
        if frame is None:
            self._start_reading()
            return False
        if frame.base > offset:
            self._skip(frame.base)
        self._load(frame)
        return True

    def _load(self, frame: CachedFrame) -> None:
        header, data = frame.header, frame.data
        slots: bytes | int = 0
        keys = None
        if self.dispatcher.type is SubscriptionType.KEY_SHARED:
            name = read_producer_name(data, header)
            slots = read_slots(data, header) or key_slot(name.encode())
            if self.dispatcher.needs_keys:
                keys = _keys_of(data, name)
        self.dispatcher.load(header.base_offset, header.count, header.size, slots, keys)
        self._loaded[frame.base] = frame
        self._loaded_bytes += header.size
        while self._loaded_bytes > _KEEP_LOADED and len(self._loaded) > 1:
            self._drop_loaded(next(iter(self._loaded)))

    def _drop_loaded(self, base: int) -> None:
        frame = self._loaded.pop(base, None)
        if frame is not None:
            self._loaded_bytes -= frame.header.size

    def _forget_loaded_keys(self) -> None:
        """Load again what was loaded without keys: key filters need them now."""
        window = self.dispatcher.window
        if any(track.keys is None for track in window.tracks.values()):
            cursor = self.cursor(0)
            self.seek(cursor.position)
            for first, last in cursor.acked:
                window = self.dispatcher.window
                window.settle_range(first, last)
            self.resume()

    def _skip_what_is_gone(self) -> None:
        """Pass over what retention deleted or, on a topic that stores nothing, the cache forgot."""
        start = self.source.log.start
        if not self.dispatcher.reliable and self.source.tail.first is not None:
            start = self.source.tail.first
        if self.dispatcher.window.read_offset < start:
            self._skip(start)

    def _skip(self, offset: int) -> None:
        window = self.dispatcher.window
        self.dispatcher.counters.skipped += offset - window.read_offset
        window.skip_to(offset)

    # ---- reading from storage ----

    def _start_reading(self) -> None:
        if self._reading is None and self.dispatcher.reliable:
            self._reading = asyncio.create_task(self._read())

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    async def _read(self) -> None:
        me = asyncio.current_task()
        try:
            if self._parked is not None:
                await self._read_parked(self._parked)
            else:
                await self._read_ahead()
            self.stalled = None
        except SulinaError as error:
            if self.stalled is None:
                _log.error("%s of %s can't read: %s", self.name, self.source.name, error)
            self.stalled = str(error)
            await self._clock.sleep(_RETRY_SECONDS)
        finally:
            if self._reading is me:
                self._reading = None
        self.wake()

    @property
    def _ahead_end(self) -> int:
        """The offset behind what was loaded and read ahead."""
        ahead = self._ahead[-1].header.next_offset if self._ahead else 0
        return max(ahead, self.dispatcher.window.read_offset)

    async def _read_ahead(self) -> None:
        offset = self._ahead_end
        if self._reader is None or self._reader[0] != offset:
            self._reader = (offset, self.source.log.reader(offset))
        reader = self._reader[1]
        self._reader = None  # a place that failed is looked up again
        frames = await reader.read(_READ_AHEAD)
        if frames:
            self._ahead.extend(frames)
            self._reader = (frames[-1].header.next_offset, reader)

    async def _read_parked(self, pick: Pick) -> None:
        frame = await self._stored_frame(pick.track.base)
        if self._parked is not pick:
            return
        self._parked = None
        if self.dispatcher.window.tracks.get(pick.track.base) is not pick.track:
            return
        if frame is None:
            self._pass_over(pick.track)
        elif pick.member.number in self.dispatcher.members:
            self._send(pick, frame)

    async def _stored_frame(self, base: int) -> CachedFrame | None:
        """The frame that starts at ``base``; None if retention deleted it."""
        frames = await self.source.log.reader(base).read(1)
        return frames[0] if frames and frames[0].base == base else None

    def _pass_over(self, track: Track) -> None:
        """A frame is gone for good: nobody can get its records any more."""
        window = self.dispatcher.window
        self.dispatcher.counters.skipped += window.settle(track, track.undone)
        self.dirty = True

    # ---- dead letters and time ----

    async def _bury_all(self) -> None:
        try:
            while self.dispatcher.dead_letters:
                letter = self.dispatcher.dead_letters.pop(0)
                try:
                    frame = self.source.tail.at(letter.base)
                    frame = frame or await self._stored_frame(letter.base)
                    if frame is not None:
                        await self._bury(self, letter, frame)
                    self.dispatcher.buried(letter)
                    self.dirty = True
                except SulinaError as error:
                    topic = self.source.name
                    _log.error("%s keeps a dead letter of %s: %s", self.name, topic, error)
                    self.dispatcher.not_buried(letter, self._clock.now())
        finally:
            self._burying = None
        self.wake()

    def _arm_timer(self, now: float) -> None:
        due = self.dispatcher.next_due
        if due == float("inf") or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = asyncio.get_running_loop().call_later(max(due - now, 0.0), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.wake()


def _keys_of(data: bytes | bytearray | memoryview, producer: str) -> list[str]:
    """The key of each record as text; the producer's name for records without one.

    Also for all records of a frame that can't be opened: it is delivered like any other, and its
    consumer finds out, because a bad frame must not stop a subscription.
    """
    try:
        frame = Frame(data)
    except Refused:
        return [producer] * parse_header(data).count
    keys = frame.keys or [None] * frame.count
    return [producer if key is None else key.decode(errors="replace") for key in keys]
