"""The frames of a subscription that are loaded and not fully acknowledged.

Every loaded record is in exactly one state: to do (may be delivered), in flight (delivered, not
acknowledged), waiting (for redelivery, or without an end if halted), dead (being published to the
dead-letter topic) or done.
Frames with a future delivery time are not loaded, only tracked (``delays``). The cursor's position
is the lowest record that is not done, so it never passes an unacknowledged one. There is one
selection mask per frame and state.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge

from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.delayed_frames import DelayedFrames
from broker_containers.subscriptions.due_times import NEVER, DueTimes
from broker_containers.subscriptions.expiry import ENDLESS, Lifetime
from broker_containers.subscriptions.loaded_frame import Flight, LoadedFrame
from broker_containers.subscriptions.ranges import RangeSet
from sulina.wire import selection


class DeliveryWindow:
    """Loaded and delayed frames, between the cursor's position and the read offset."""

    def __init__(self, position: int, acked: RangeSet) -> None:
        self.frames: dict[int, LoadedFrame] = {}
        self._bases: list[int] = []
        self._ready: list[int] = []
        self._ahead = acked
        self._due_times = DueTimes()
        self.delays = DelayedFrames()
        self.returns = 0
        """How often records became ready again; unchanged means that only loaded frames are new."""
        self.read_offset = position
        """The next offset to load. Later offsets are untouched or in ``_ahead``."""
        self.records = 0
        """Records of the loaded frames."""
        self._acked_below = 0
        """Everything below this offset was acknowledged cumulatively."""

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def position(self) -> int:
        """The lowest offset that is not acknowledged."""
        first = self.delays.first
        if self._bases and (first is None or self._bases[0] < first):
            first = self._bases[0]
        if first is None:
            return self._ahead.end_of_run(self.read_offset)
        frame = self.frames.get(first) or self.delays[first]
        return first + selection.first(frame.undone)

    def _undone_runs(self, base: int) -> Iterable[tuple[int, int]]:
        frame = self.frames.get(base) or self.delays[base]
        if not frame.done:  # the usual case among thousands of delayed frames
            return ((0, frame.count - 1),)
        return selection.ranges(frame.undone)

    def acked_ranges(self, limit: int) -> list[tuple[int, int]]:
        """The acknowledged ranges above the position, lowest first, at most ``limit``."""
        acked: list[tuple[int, int]] = []
        at = position = self.position
        for base in merge(self._bases, self.delays.bases):
            for first, last in self._undone_runs(base):
                if base + first > at:
                    acked.append((at, base + first - 1))
                at = base + last + 1
            if len(acked) >= limit:
                return acked[:limit]
        if at < self.read_offset:
            acked.append((at, self.read_offset - 1))
        for first, last in self._ahead:
            if acked and acked[-1][1] == first - 1:
                acked[-1] = (acked[-1][0], last)
            elif first > position:
                acked.append((first, last))
        return acked[:limit]

    def load(self, base: int, count: int, size: int, slots: bytes | int) -> LoadedFrame | None:
        """Load a frame; None if it is fully acknowledged already."""
        done = self._read_past(base, count)
        return self._take_in(LoadedFrame(base, count, size, slots, done=done))

    def _read_past(self, base: int, count: int, *, timed: bool = False) -> int:
        """Advance the read offset past a frame; returns which of its records are done already."""
        assert base + count > self.read_offset, "frames are loaded in order"
        done = selection.span(0, self.read_offset - base - 1)
        if not timed:
            done |= selection.span(0, min(self._acked_below - base, count) - 1)
        if len(self._ahead):
            done |= self._ahead.mask(base, count)
            self._ahead.drop_below(base + count)
        self.read_offset = base + count
        return done

    def _take_in(self, loaded: LoadedFrame) -> LoadedFrame | None:
        if not loaded.undone:
            return None
        self.frames[loaded.base] = loaded
        insort(self._bases, loaded.base)
        self.records += loaded.count
        insort(self._ready, loaded.base)
        loaded.make_ready(1, loaded.undone)
        return loaded

    def delay(self, base: int, count: int, due_us: int, life: Lifetime = ENDLESS) -> None:
        """Skip a frame whose delivery time is in the future, and track it."""
        done = self._read_past(base, count, timed=True)
        if done != selection.whole(count):
            self.delays.add(base, count, due_us, done, life)

    def load_timed(
        self, base: int, count: int, size: int, slots: bytes | int
    ) -> LoadedFrame | None:
        """Load a frame whose delivery time has come: a delayed one, or the next one."""
        known = self.delays.remove(base)
        done = self._read_past(base, count, timed=True) if known is None else known.done
        loaded = self._take_in(LoadedFrame(base, count, size, slots, done=done, timed=True))
        self.returns += 1
        return loaded

    def forget_delayed(self, base: int) -> int:
        """A delayed frame was deleted or expired; returns how many of its records were not done."""
        known = self.delays.remove(base)
        return 0 if known is None else known.undone.bit_count()

    def pass_done(self) -> None:
        """Skip acknowledged records without reading them."""
        if len(self._ahead):
            self.skip_to(self._ahead.end_of_run(self.read_offset))

    def in_order(self) -> Iterator[LoadedFrame]:
        """The loaded frames, lowest first."""
        return map(self.frames.__getitem__, self._bases)

    def make_ready(self, loaded: LoadedFrame, attempt: int, mask: int) -> None:
        """Allow ``mask`` to be delivered again."""
        if mask:
            if not loaded.todo:
                insort(self._ready, loaded.base)
            loaded.make_ready(attempt, mask)
            self.returns += 1

    def put_off(self, loaded: LoadedFrame, attempt: int, mask: int, due: float, now: float) -> None:
        """Allow ``mask`` to be delivered again at ``due``."""
        if mask:
            loaded.wait(attempt, mask, due, now)
            self._due_times.note(loaded.base, due)

    @property
    def next_due(self) -> float:
        """The earliest time at which ``release_due`` has something to do."""
        return self._due_times.next_due

    def release_due(self, now: float) -> None:
        """Make records ready whose redelivery time has come."""
        for base in self._due_times.take(now):
            loaded = self.frames[base]
            due = [waiting for waiting in loaded.waiting if waiting.due <= now]
            loaded.waiting = [waiting for waiting in loaded.waiting if waiting.due > now]
            for waiting in due:
                self.make_ready(loaded, waiting.attempt, waiting.mask)
            if loaded.waiting:
                self._due_times.note(base, min(waiting.due for waiting in loaded.waiting))

    def release_halted(self, now: float) -> None:
        """Make ready what waits without an end, as if it were due now."""
        for loaded in self.waiting():
            if any(waiting.due == NEVER for waiting in loaded.waiting):
                for waiting in loaded.waiting:
                    waiting.due = now if waiting.due == NEVER else waiting.due
                self._due_times.note(loaded.base, now)

    def waiting(self) -> list[LoadedFrame]:
        """Frames with waiting records, in any order."""
        return [self.frames[base] for base in self._due_times]

    def recall(self, consumer: int) -> None:
        """Make ready what a consumer has in flight, because it left."""
        for loaded in self.frames.values():
            theirs = [flight for flight in loaded.flights if flight.consumer == consumer]
            if theirs:
                loaded.flights = [f for f in loaded.flights if f.consumer != consumer]
            for flight in theirs:
                self.make_ready(loaded, flight.attempt, flight.mask)

    def ready(self, start: int = 0) -> Iterator[LoadedFrame]:
        """Frames with something to deliver, from offset ``start`` on, in order."""
        for index in range(bisect_left(self._ready, start), len(self._ready)):
            yield self.frames[self._ready[index]]

    @property
    def ready_count(self) -> int:
        return len(self._ready)

    def first_ready(self) -> LoadedFrame | None:
        return self.frames[self._ready[0]] if self._ready else None

    def took(self, loaded: LoadedFrame) -> None:
        """Call after taking from ``loaded``: updates the list of ready frames."""
        if not loaded.todo:
            self._unready(loaded.base)

    def _unready(self, base: int) -> None:
        index = bisect_right(self._ready, base) - 1
        if index >= 0 and self._ready[index] == base:
            del self._ready[index]

    def settle(self, loaded: LoadedFrame, mask: int) -> int:
        """Mark records of one frame as done; returns how many were not done before."""
        fresh = loaded.settle(mask)
        self._withdrawn(loaded)
        if not loaded.undone:
            self._forget(loaded)
        return fresh.bit_count()

    def bury(self, loaded: LoadedFrame, mask: int) -> int:
        """Mark records as dead; returns those that were not dead before."""
        fresh = loaded.bury(mask)
        self._withdrawn(loaded)
        return fresh

    def _withdrawn(self, loaded: LoadedFrame) -> None:
        if not loaded.todo:
            self._unready(loaded.base)
        if not loaded.waiting:
            self._due_times.drop(loaded.base)

    def pass_next(self, base: int, count: int) -> int:
        """Skip the frame at the read offset as if it were acknowledged.

        Returns how many of its records were not.
        """
        done = self._read_past(base, count)
        return count - (done & selection.whole(count)).bit_count()

    def settle_range(
        self,
        first: int,
        last: int,
        mask: int | None = None,
        landed: dict[int, int] | None = None,
    ) -> int:
        """Mark offsets ``first`` to ``last`` as done; ``mask``, starting at ``first``, narrows it.

        Offsets that are not loaded yet are remembered. Returns how many records were not done, and
        adds to ``landed`` how many of them each consumer had in flight.
        """
        settled = 0
        whole: list[int] = []
        index = max(bisect_right(self._bases, first) - 1, 0)
        for base in self._bases[index : bisect_right(self._bases, last)]:
            loaded = self.frames[base]
            part = loaded.part(first, last, mask)
            if landed is not None:
                for flight in loaded.flights:
                    count = (flight.mask & part).bit_count()
                    if count:
                        landed[flight.consumer] = landed.get(flight.consumer, 0) + count
            if mask is None and first <= base and base + loaded.count <= last + 1:
                settled += self._settle_whole(loaded)
                whole.append(base)
            else:
                settled += self.settle(loaded, part)
        if whole:
            index = bisect_left(self._bases, whole[0])
            del self._bases[index : index + len(whole)]
        if len(self.delays):
            settled += self.delays.settle_range(first, last, mask)
        if last >= self.read_offset:
            ahead = max(first, self.read_offset)
            if mask is None:
                self._ahead.add(ahead, last)
            else:
                for low, high in selection.ranges(mask >> (ahead - first)):
                    if self._ahead.full:
                        break
                    if ahead + low <= last:
                        self._ahead.add(ahead + low, min(ahead + high, last))
        return settled

    def _settle_whole(self, loaded: LoadedFrame) -> int:
        """Mark a whole frame as done, except in ``_bases``: returns as :meth:`settle`."""
        if loaded.todo:
            self._unready(loaded.base)
        if loaded.waiting:
            self._due_times.drop(loaded.base)
        del self.frames[loaded.base]
        self.records -= loaded.count
        return loaded.settle_all()

    def settle_up_to(self, last: int, consumer: int) -> int:
        """Mark everything up to ``last`` as done that ``consumer`` received before it.

        Of frames with a delivery time, only what it was sent before ``last``: they may be delivered
        after higher offsets, so undelivered records would be lost. Offsets that are not loaded yet
        are remembered. Returns how many records were not done before.
        """
        settled = 0
        holding = self.find(last)
        mark = 0 if holding is None else holding.mark_of(consumer, last)
        for base in self._bases[: bisect_right(self._bases, last)]:
            loaded = self.frames[base]
            part = loaded.part(base, last, None)
            if loaded.timed:
                part &= loaded.sent_until(consumer, mark)
            settled += self.settle(loaded, part)
        if last >= self.read_offset:
            self._acked_below = max(self._acked_below, last + 1)
        return settled

    def find(self, offset: int) -> LoadedFrame | None:
        """The loaded frame that contains ``offset``."""
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            return None
        loaded = self.frames[self._bases[index]]
        return loaded if offset < loaded.base + loaded.count else None

    def between(self, first: int, last: int) -> list[LoadedFrame]:
        """The loaded frames that overlap these offsets, in order."""
        index = max(bisect_right(self._bases, first) - 1, 0)
        bases = self._bases[index : bisect_right(self._bases, last)]
        return [t for t in map(self.frames.__getitem__, bases) if t.base + t.count > first]

    def _forget(self, loaded: LoadedFrame) -> None:
        del self.frames[loaded.base]
        self.records -= loaded.count
        index = bisect_right(self._bases, loaded.base) - 1
        del self._bases[index]

    def skip_to(self, offset: int) -> None:
        """Continue loading at ``offset``: what lies between was deleted and counts as done."""
        assert offset >= self.read_offset
        self.read_offset = offset
        self._ahead.drop_below(offset)


def take_timed_out(
    window: DeliveryWindow, members: Mapping[int, AttachedConsumer], timeout: float, now: float
) -> tuple[list[tuple[LoadedFrame, Flight]], float]:
    """Remove timed-out flights from their frames; returns them and when the next one times out."""
    late: list[tuple[LoadedFrame, Flight]] = []
    following = NEVER
    for loaded in window.frames.values():
        on_time: list[Flight] = []
        for flight in loaded.flights:
            deadline = _since(flight, members.get(flight.consumer)) + timeout
            if deadline <= now:
                late.append((loaded, flight))
            else:
                on_time.append(flight)
                following = min(following, deadline)
        if len(on_time) < len(loaded.flights):
            loaded.flights = on_time
    return late, following


def _since(flight: Flight, member: AttachedConsumer | None) -> float:
    """When the ack timeout of a flight started.

    That is when the application received it. While it is in the consumer's queue, the consumer's
    last progress counts: a slow consumer keeps what it was sent, a stuck one loses it.
    """
    if member is not None and not flight.taken:
        flight.since = max(flight.since, member.progress)
        flight.taken = member.returned >= flight.mark
    return flight.since
