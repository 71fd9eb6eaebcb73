"""Runs a subscription on the event loop: loads frames, sends deliveries, runs timers.

The dispatcher decides; ``frame_reader`` provides the frames. A consumer that does not read stops
only its own deliveries; one that lags reads from storage while others stay at the tail.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from broker_containers.quotas.quotas import Held
from broker_containers.subscriptions.consumers import AttachedConsumer, ConsumerSink
from broker_containers.subscriptions.counters import SubscriptionCounters
from broker_containers.subscriptions.dead_letters import DeadLetter
from broker_containers.subscriptions.delivery_window import DeliveryWindow
from broker_containers.subscriptions.dispatcher import Dispatcher
from broker_containers.subscriptions.due_times import NEVER
from broker_containers.subscriptions.expiring import expire_loaded, expire_pick
from broker_containers.subscriptions.expiry import expired_records
from broker_containers.subscriptions.frame_loader import FrameLoader
from broker_containers.subscriptions.frame_reader import FrameGone, FrameReader, SubscribedTopic
from broker_containers.subscriptions.limits import SubscriptionLimits
from broker_containers.subscriptions.ranges import RangeSet, runs
from broker_containers.subscriptions.selectors import Pick
from broker_containers.topic_log.tail_cache import CachedFrame
from sulina.errors import Overloaded, Retriable, SulinaError
from sulina.metadata.keys.cursors import CursorRecord
from sulina.metadata.keys.subscriptions import SubscriptionRecord
from sulina.model import Delivery, FailurePolicy, SubscriptionType
from sulina.runtime.seam import Clock
from sulina.wire import selection

_log = logging.getLogger(__name__)
_STEPS_A_TURN: Final = 64
"""Deliveries and loads per turn, before other tasks run."""
_MAX_RANGES: Final = 10_000

SendDeadLetter = Callable[["Subscription", DeadLetter, CachedFrame], Awaitable[None]]


class Subscription:
    """One subscription of one topic."""

    def __init__(
        self,
        source: SubscribedTopic,
        name: str,
        record: SubscriptionRecord,
        cursor: CursorRecord,
        limits: SubscriptionLimits,
        clock: Clock,
        send_dead_letter: SendDeadLetter,
    ) -> None:
        self.source = source
        self.name = name
        # A cursor cannot be ahead of the log; if a NonReliable topic restarted, its offsets did.
        position = min(max(cursor.position, source.log.start), source.log.end)
        dispatcher = self._dispatcher = Dispatcher(
            record.type,
            record.failure,
            DeliveryWindow(position, RangeSet(cursor.acked)),
            reliable=source.delivery is Delivery.RELIABLE,
            limits=limits,
            max_unacked=record.max_unacked,
        )
        self.dirty = position != cursor.position
        """The cursor changed since it was last stored."""
        self._clock = clock
        self._send_dead_letter = send_dead_letter
        self._scheduled = False
        self._paused = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._parked: Pick | None = None
        """A delivery that waits for its frame."""
        self._reading = FrameReader(source, clock, self.wake, name, stored=dispatcher.reliable)
        self._loader = FrameLoader(
            source, dispatcher, self._reading, clock, self._cursor_moved, self.load_again
        )
        self._sending: asyncio.Task[None] | None = None
        self._expiring = False
        """Expired records are being passed over."""

    # ---- consumers ----

    def join(
        self,
        name: str,
        sink: ConsumerSink,
        key_filters: tuple[str, ...],
        limit: int,
        held: Held | None = None,
    ) -> AttachedConsumer:
        """Attach a consumer. Raises ``Refused`` or ``Overloaded`` if it is not allowed.

        Raises ``Retriable`` if the subscription was closed since the caller looked it up.
        """
        if self._closed:
            raise Retriable(f"{self.name!r} was just closed here: try again")
        members = self._dispatcher.members
        if limit and len(members) >= limit and all(m.name != name for m in members.values()):
            raise Overloaded(f"{self.name!r} has {len(members)} consumers, its policy's limit")
        if not members and not self._dispatcher.reliable:
            self._skip_to_end()
        member = self._dispatcher.join(name, sink, key_filters, self._clock.now(), held)
        if key_filters:
            self._forget_loaded_keys()
        return member

    def _skip_to_end(self) -> None:
        """NonReliable: the first consumer receives only what is published from now on."""
        end = self.source.log.end
        self._dispatcher.counters.skipped += end - self._dispatcher.window.read_offset
        self._go_to(end)

    def leave(self, member: AttachedConsumer) -> None:
        self._dispatcher.leave(member.number)
        self.wake()

    def grant(self, member: AttachedConsumer, records: int, bytes_: int) -> None:
        self._dispatcher.grant(member.number, records, bytes_, self._clock.now())
        self._wake_for_more()

    def writable(self, member: AttachedConsumer) -> None:
        """The consumer's connection accepts data again."""
        member.writable = True
        self.wake()

    def ack(self, member: AttachedConsumer, first: int, last: int, mask: int | None) -> None:
        """Acknowledge records. Offsets that are not published yet are ignored."""
        last = min(last, self.source.log.end - 1)
        if first <= last:
            self._dispatcher.ack(member.number, first, last, mask, self._clock.now())
            self.dirty = True
            self._wake_for_more()

    def ack_offsets(self, offsets: Iterable[int]) -> list[tuple[AttachedConsumer, int]]:
        """Acknowledge single records in one change, whichever consumers had them.

        Returns those consumers, and how many of the records each had in flight.
        """
        end = self.source.log.end
        published = runs(offset for offset in offsets if offset < end)
        landed = self._dispatcher.ack_ranges(published, self._clock.now())
        self.dirty = True
        self._wake_for_more()
        members = self._dispatcher.members
        return [(members[number], n) for number, n in landed.items() if number in members]

    def ack_up_to(self, member: AttachedConsumer, last: int) -> None:
        self._dispatcher.ack_up_to(
            member.number, min(last, self.source.log.end - 1), self._clock.now()
        )
        self.dirty = True
        self.wake()

    def nack(
        self,
        member: AttachedConsumer,
        first: int,
        last: int,
        mask: int | None,
        delay_ms: int,
        reason: str,
    ) -> None:
        now = self._clock.now()
        self._dispatcher.nack(member.number, first, last, mask, delay_ms, reason, now)
        self.dirty = True
        self.wake()

    # ---- state and settings ----

    @property
    def type(self) -> SubscriptionType:
        return self._dispatcher.type

    @property
    def consumers(self) -> Collection[AttachedConsumer]:
        """The attached consumers, in the order in which they joined."""
        return self._dispatcher.members.values()

    def is_active(self, member: AttachedConsumer) -> bool:
        """Whether a consumer receives at present, rather than standing by."""
        return self._dispatcher.is_active(member)

    def holder(self, offset: int) -> AttachedConsumer | None:
        """The consumer that has a record in flight: delivered and not acknowledged."""
        return self._dispatcher.holder(offset)

    def in_flight(self, member: AttachedConsumer) -> int:
        """How many records a consumer has in flight."""
        return self._dispatcher.in_flight(member.number)

    @property
    def counters(self) -> SubscriptionCounters:
        return self._dispatcher.counters

    @property
    def position(self) -> int:
        """The lowest offset that is not acknowledged."""
        return self._dispatcher.window.position

    @property
    def delayed_frames(self) -> int:
        """Frames that wait for their delivery time."""
        return len(self._dispatcher.window.delays)

    @property
    def held_by_delay(self) -> bool:
        """Whether the record at ``position`` waits for its delivery time.

        Then ``backlog`` says nothing about consumers: they may have acknowledged all that follows.
        """
        window = self._dispatcher.window
        return window.delays.covers(window.position)

    @property
    def failure_policy(self) -> FailurePolicy:
        """What happens to records that fail; a change applies to later failures."""
        return self._dispatcher.policy

    @failure_policy.setter
    def failure_policy(self, policy: FailurePolicy) -> None:
        self._dispatcher.policy = policy
        self.wake()

    @property
    def max_unacked(self) -> int:
        """Records that all consumers together may have in flight; 0: only their credit limits."""
        return self._dispatcher.max_unacked

    @max_unacked.setter
    def max_unacked(self, limit: int) -> None:
        self._dispatcher.max_unacked = limit
        self.wake()

    @property
    def limits(self) -> SubscriptionLimits:
        """How much may be loaded at once."""
        return self._dispatcher.limits

    @limits.setter
    def limits(self, limits: SubscriptionLimits) -> None:
        if limits != self._dispatcher.limits:
            self._dispatcher.limits = limits
            self.wake()

    @property
    def stored(self) -> bool:
        """Whether there is a cursor to store: a NonReliable topic's subscription has none."""
        return self._dispatcher.reliable

    @property
    def stalled(self) -> str | None:
        """Why records cannot be delivered at present."""
        halted = self._dispatcher.halted_at
        if halted is not None:
            return (
                f"the record at offset {halted} failed too often: acknowledge it, change the "
                "failure policy, or seek"
            )
        return self._reading.stalled

    @property
    def backlog(self) -> int:
        """Records that are there and not acknowledged (upper bound)."""
        return max(self.source.log.end - max(self.position, self.source.log.start), 0)

    def cursor(self, now_us: int) -> CursorRecord:
        """The cursor to store."""
        window = self._dispatcher.window
        return CursorRecord(window.position, tuple(window.acked_ranges(_MAX_RANGES)), now_us)

    def _cursor_moved(self) -> None:
        self.dirty = True

    def seek(self, offset: int) -> None:
        """Continue at ``offset``. Nothing is delivered before ``resume``."""
        self._paused = True
        self._go_to(offset)
        self.dirty = True

    def _go_to(self, offset: int) -> None:
        self._parked = None
        self._reading.forget()
        self._dispatcher.restart(offset)

    def resume(self) -> None:
        self._paused = self._closed
        self.wake()

    async def close(self, reason: SulinaError) -> None:
        """Disconnect the consumers and stop all work; nobody can join any more."""
        self._closed = self._paused = True
        if self._timer is not None:
            self._timer.cancel()
        for member in list(self._dispatcher.members.values()):
            member.sink.closed(reason)
            self._dispatcher.leave(member.number)
        await self._reading.close()
        if self._sending is not None:
            sending = self._sending
            sending.cancel()
            await asyncio.wait([sending])

    # ---- delivering ----

    def wake(self) -> None:
        """Look for deliveries in the next turn of the event loop."""
        if not self._scheduled and not self._paused:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _wake_for_more(self) -> None:
        """The same, if there is anything that may be delivered now and could not before: nothing
        is at the end of the log, where most acknowledgements arrive."""
        window = self._dispatcher.window
        if (
            window.ready_count
            or window.read_offset < self.source.log.end
            or self._parked is not None
            or len(window.delays)
        ):
            self.wake()

    def _turn(self) -> None:
        self._scheduled = False
        if self._paused:
            return
        now = self._clock.now()
        self._dispatcher.tick(now)
        if self._parked is None or self._unpark(self._parked):
            self._deliver(now)
        if self._expiring:
            self._pass_expired()
        if self._dispatcher.dead_letters and self._sending is None:
            self._sending = asyncio.create_task(self._send_dead_letters())
        self._arm_timer(now)

    def _deliver(self, now: float) -> None:
        for _ in range(_STEPS_A_TURN):
            if self._dispatcher.wants_ahead and self._loader.load_next():
                continue
            pick = self._dispatcher.next(now)
            if pick is not None:
                self._parked = pick
                if not self._unpark(pick):
                    return
            elif not self._loader.load_next():
                return
        self.wake()  # other tasks run first

    def _unpark(self, pick: Pick) -> bool:
        """Deliver a decided pick, unless its frame must be read first."""
        try:
            frame = self._reading.at(pick.loaded.base)
            if frame is None:
                return False
        except FrameGone:
            frame = None
        if frame is not None and frame.header.count < pick.loaded.count:
            frame = None  # the first of the smaller ones
        self._parked = None
        dispatcher = self._dispatcher
        held = dispatcher.window.frames.get(pick.loaded.base) is pick.loaded
        if frame is None:
            if held and self._was_cut(pick.loaded.base):
                self.load_again()
            elif held:
                self._dispatcher.pass_over(pick.loaded)
                self.dirty = True
        elif pick.member.number in dispatcher.members and (held or not dispatcher.reliable):
            self._send_unexpired(pick, frame)  # otherwise it was fully acknowledged meanwhile
        return True

    def _send_unexpired(self, pick: Pick, frame: CachedFrame) -> None:
        late = pick.mask & expired_records(frame, self.source.policy.ttl_ms, self._clock)
        rest = expire_pick(self._dispatcher, pick, late) if late else pick
        self.dirty = self.dirty or bool(late)
        if rest is not None:
            self._send(rest, frame)

    def _send(self, pick: Pick, frame: CachedFrame) -> None:
        chosen = None if pick.mask == selection.whole(pick.loaded.count) else pick.mask
        self._dispatcher.counters.bytes_out += frame.header.size
        if not pick.member.sink.deliver(frame, chosen, pick.attempt):
            pick.member.writable = False
        if not pick.loaded.todo:
            self._reading.drop(pick.loaded.base)

    def _forget_loaded_keys(self) -> None:
        """Reload frames that were loaded without keys, because key filters need them."""
        window = self._dispatcher.window
        if any(loaded.keys is None for loaded in window.frames.values()):
            self.load_again()

    def load_again(self) -> None:
        """Load what is not acknowledged again. What consumers have in flight is redelivered."""
        cursor = self.cursor(0)
        self.seek(cursor.position)
        for first, last in cursor.acked:
            self._dispatcher.window.settle_range(first, last)
        self.resume()

    def _was_cut(self, base: int) -> bool:
        """Whether a frame that is gone was not deleted, but cut to smaller ones by compaction."""
        return self._dispatcher.reliable and base >= self.source.log.start

    # ---- expiry, dead letters and time ----

    def expire(self) -> None:
        """Pass over expired records, whether or not a consumer is connected."""
        if not self._paused and self._dispatcher.reliable:
            if expire_loaded(self._dispatcher, self.source.policy.ttl_ms, self._clock.wall_us()):
                self.dirty = True
            self._expiring = True
            self.wake()

    def _pass_expired(self) -> None:
        for _ in range(_STEPS_A_TURN):
            if not self._loader.pass_expired():
                # If a frame is being read, or dead letters are being published, a turn follows.
                self._expiring = self._reading.busy or bool(self._dispatcher.dead_letters)
                return
        self.wake()

    async def _send_dead_letters(self) -> None:
        try:
            while self._dispatcher.dead_letters:
                letter = self._dispatcher.dead_letters.pop(0)
                try:
                    frame = await self._reading.stored(letter.base)
                    if (
                        self._was_cut(letter.base)
                        if frame is None
                        else letter.mask >> frame.header.count
                    ):
                        self.load_again()
                        continue
                    if frame is not None:
                        await self._send_dead_letter(self, letter, frame)
                    self._dispatcher.dead_letter_stored(letter)
                    self.dirty = True
                except SulinaError as error:
                    topic = self.source.name
                    _log.error("%s of %s cannot publish a dead letter: %s", self.name, topic, error)
                    self._dispatcher.dead_letter_failed(letter, self._clock.now())
        finally:
            self._sending = None
        self.wake()

    def _arm_timer(self, now: float) -> None:
        due = min(self._dispatcher.next_due, self._loader.next_look(now))
        if due == NEVER or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = asyncio.get_running_loop().call_later(max(due - now, 0.0), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.wake()
