"""Decides what a subscription delivers next, and handles the outcome of each delivery.

Never waits: the caller loads frames, sends what ``next`` returns, and passes in acknowledgements,
credit and the time. So every decision can be replayed and simulated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import assert_never

from broker_containers import settable
from broker_containers.quotas.quotas import Held
from broker_containers.subscriptions.consumers import AttachedConsumer, ConsumerSink
from broker_containers.subscriptions.dead_letters import DeadLetter
from broker_containers.subscriptions.delivery_window import DeliveryWindow, take_timed_out
from broker_containers.subscriptions.due_times import NEVER
from broker_containers.subscriptions.expiry import ENDLESS, Lifetime
from broker_containers.subscriptions.key_shared import KeySharedSelector
from broker_containers.subscriptions.loaded_frame import Flight, LoadedFrame
from broker_containers.subscriptions.ranges import RangeSet
from broker_containers.subscriptions.selectors import (
    Pick,
    Selector,
    SharedSelector,
    SingleConsumerSelector,
)
from sulina.errors import Refused
from sulina.model import FailurePolicy, Poison, SubscriptionType
from sulina.wire import selection

_TIMEOUT_STEPS = 32
"""Timeouts may be detected late by this fraction, so that checking for them is cheap."""


@dataclass(frozen=True, slots=True)
class SubscriptionLimits:
    """How much a subscription may keep loaded."""

    # fmt: off
    frames: int = settable.count(4096, 1, 1 << 20, settable.NOW,
        "Maximum number of frames a subscription keeps loaded.")
    records: int = settable.count(1 << 20, 1, 1 << 30, settable.NOW,
        "Maximum number of records a subscription keeps loaded.")
    delayed: int = settable.count(1 << 16, 1, 1 << 24, settable.NOW,
        "Maximum number of delayed frames a subscription tracks.")
    """Reading ahead stops at this limit."""
    # fmt: on


@dataclass(slots=True)
class SubscriptionCounters:
    """Totals since the subscription was opened, in records."""

    delivered: int = 0
    acknowledged: int = 0
    nacked: int = 0
    timed_out: int = 0
    redelivered: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    skipped: int = 0
    expired: int = 0
    """Passed over because nobody took them in time; those in dead letters count there too."""
    bytes_out: int = 0
    """Bytes of the frames sent, each counted whole."""


@dataclass(slots=True, eq=False)
class Dispatcher:
    """The state of one subscription. Unless ``reliable``, a delivery counts as acknowledged."""

    type: SubscriptionType
    policy: FailurePolicy
    window: DeliveryWindow
    reliable: bool = True
    limits: SubscriptionLimits = SubscriptionLimits()
    max_unacked: int = 0
    """Records that all members together may have in flight; 0: only their credit limits."""
    counters: SubscriptionCounters = field(default_factory=SubscriptionCounters)
    members: dict[int, AttachedConsumer] = field(default_factory=dict)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    _selector: Selector = field(init=False)
    _next_number: int = 1
    _timed: FailurePolicy = field(init=False)
    """The policy that ``_next_timeout`` was computed with."""
    _next_timeout: float = NEVER
    _barrier: int | None = None
    """The lowest record that failed too often and blocks later ones."""
    _in_flight: int | None = None
    """Records in flight, where they are limited; None: count again."""

    def __post_init__(self) -> None:
        match self.type:
            case SubscriptionType.SHARED:
                self._selector = SharedSelector()
            case SubscriptionType.KEY_SHARED:
                self._selector = KeySharedSelector()
            case SubscriptionType.EXCLUSIVE | SubscriptionType.FAILOVER:
                self._selector = SingleConsumerSelector(self.type)
            case _:
                assert_never(self.type)
        self._timed = self.policy

    # ---- members ----

    def join(
        self,
        name: str,
        sink: ConsumerSink,
        key_filters: tuple[str, ...],
        now: float,
        held: Held | None = None,
    ) -> AttachedConsumer:
        """Add a consumer. One with the same name replaces the previous one."""
        if key_filters and self.type is not SubscriptionType.KEY_SHARED:
            raise Refused("key filters need a key_shared subscription")
        member = AttachedConsumer(
            self._next_number, name, sink, key_filters, progress=now, held=held
        )
        before = next((m for m in self.members.values() if m.name == name), None)
        if before is not None:
            before.sink.closed(Refused(f"another consumer named {name!r} took over"))
            self._remove(before)
        self._selector.join(member, before)
        self._next_number += 1
        self.members[member.number] = member
        return member

    def leave(self, number: int, now: float) -> None:
        """Remove a consumer. What it had in flight can be redelivered immediately."""
        member = self.members.get(number)
        if member is None:
            return
        was_active = self._selector.is_active(member)
        self._remove(member)
        self._selector.leave(member)
        if was_active and self.type is SubscriptionType.FAILOVER:
            for other in self.members.values():
                if self._selector.is_active(other):
                    other.sink.active_changed(True)

    def _remove(self, member: AttachedConsumer) -> None:
        self.members.pop(member.number, None)
        if member.held is not None:
            member.held.release()
        self.window.recall(member.number)
        self._flights_changed()

    def is_active(self, member: AttachedConsumer) -> bool:
        return self._selector.is_active(member)

    def holder(self, offset: int) -> AttachedConsumer | None:
        """The member that has a record in flight."""
        loaded = self.window.find(offset)
        if loaded is None:
            return None
        bit = offset - loaded.base
        holders = (flight.consumer for flight in loaded.flights if flight.mask >> bit & 1)
        return self.members.get(next(holders, 0))

    def in_flight(self, number: int) -> int:
        """How many records a member has in flight."""
        return sum(
            flight.mask.bit_count()
            for loaded in self.window.frames.values()
            for flight in loaded.flights
            if flight.consumer == number
        )

    def grant(self, number: int, records: int, bytes_: int, now: float) -> None:
        """Add credit."""
        member = self.members.get(number)
        if member is not None:
            member.grant(records, bytes_, now)

    @property
    def needs_keys(self) -> bool:
        """Whether frames must be loaded with their records' keys."""
        return isinstance(self._selector, KeySharedSelector) and self._selector.has_filters

    # ---- loading ----

    @property
    def wants_more(self) -> bool:
        """Whether another frame could be delivered now, a delayed one or the next one."""
        return (
            len(self.window) < self.limits.frames
            and self.window.records < self.limits.records
            and (self._barrier is None or not self._blocks)
            and (not self.max_unacked or self._room > 0)
            and self._someone_takes
        )

    @property
    def _someone_takes(self) -> bool:
        for member in self.members.values():
            if member.can_take and self._selector.is_active(member):
                return True
        return False

    @property
    def _blocks(self) -> bool:
        """Whether a record that failed too often holds back all later ones.

        KeyShared holds back its key alone.
        """
        if isinstance(self._selector, SharedSelector):
            return self.policy.poison is Poison.HALT
        return isinstance(self._selector, SingleConsumerSelector)

    @property
    def halted_at(self) -> int | None:
        """The lowest record that failed too often and is not delivered again."""
        return self._barrier if self.policy.poison is Poison.HALT else None

    @property
    def may_delay(self) -> bool:
        """Whether one more delayed frame may be tracked."""
        return len(self.window.delays) < self.limits.delayed

    @property
    def wants_ahead(self) -> bool:
        """Whether loading one more frame before ``next`` avoids splitting one.

        Shared: a split frame is sent whole to each consumer that gets a part.
        """
        selector = self._selector
        return (
            isinstance(selector, SharedSelector)
            and selector.spares(self.window)
            and self.wants_more
        )

    def load(
        self,
        base: int,
        count: int,
        size: int,
        slots: bytes | int,
        keys: list[str] | None,
        *,
        timed: bool = False,
        life: Lifetime = ENDLESS,
    ) -> LoadedFrame | None:
        """Add a frame that was read at the window's read offset, or a delayed one that is due.

        ``timed``: it has a delivery time, which has come. None: all its records are done already.
        """
        load = self.window.load_timed if timed else self.window.load
        loaded = load(base, count, size, slots)
        if loaded is not None:
            loaded.keys = keys
            loaded.life = life
        return loaded

    # ---- delivering ----

    def next(self, now: float) -> Pick | None:
        """The next delivery, already counted as in flight; None if there is none now."""
        if not self.window.ready_count or (self.max_unacked and self._room <= 0):
            return None
        barrier = self._barrier if self._barrier is not None and self._blocks else None
        pick = self._selector.pick(self.window, barrier)
        if pick is None:
            return None
        if self.max_unacked:
            pick = replace(pick, mask=selection.lowest(pick.mask, self._room))
        loaded, member, taken = pick.loaded, pick.member, pick.mask.bit_count()
        loaded.take(pick.attempt, pick.mask)
        self.window.took(loaded)
        member.records -= taken
        member.bytes -= loaded.size
        member.sent += taken
        self.counters.delivered += taken
        if pick.attempt > 1:
            self.counters.redelivered += taken
        if self.reliable:
            loaded.flights.append(Flight(member.number, pick.attempt, pick.mask, member.sent, now))
            if self._in_flight is not None:
                self._in_flight += taken
            if self.policy.ack_timeout_ms and self._next_timeout == NEVER:
                self._next_timeout = now + self.policy.ack_timeout_ms / 1000
        else:
            self.window.settle(loaded, pick.mask)
        return pick

    @property
    def _room(self) -> int:
        """How many more records may be in flight, where they are limited."""
        if self._in_flight is None:
            self._in_flight = sum(
                flight.mask.bit_count()
                for loaded in self.window.frames.values()
                for flight in loaded.flights
            )
        return self.max_unacked - self._in_flight

    def _flights_changed(self) -> None:
        """Call when records are no longer in flight."""
        self._in_flight = None
        self._selector.flights_changed()

    def pass_over(self, loaded: LoadedFrame) -> None:
        """Skip a frame that was deleted and can no longer be delivered."""
        self.counters.skipped += self.window.settle(loaded, loaded.undone)
        self._flights_changed()

    # ---- expiring ----

    def expire_pick(self, pick: Pick, expired: int) -> Pick | None:
        """Take the ``expired`` records out of a delivery that was not sent; None if none is left.

        Call it before ``next`` is called again.
        """
        late, member = pick.mask & expired, pick.member
        count = late.bit_count()
        member.records += count
        member.sent -= count
        self.counters.delivered -= count
        if pick.attempt > 1:
            self.counters.redelivered -= count
        rest = pick.mask & ~late
        if not rest:
            member.bytes += pick.loaded.size
        if self.reliable:
            for flight in pick.loaded.flights:
                if flight.consumer == member.number and flight.mask & late:
                    flight.mark -= count
            self.expire(pick.loaded, late, pick.attempt)
        else:
            self.counters.expired += count  # it was settled when it was picked
        return replace(pick, mask=rest) if rest else None

    def expire(self, loaded: LoadedFrame, mask: int, attempt: int = 1) -> None:
        """Pass over records that nobody took in time; ``attempt`` would have been their next."""
        if self.policy.dead_letter_expired:
            dead = self.window.bury(loaded, mask)
            if dead:
                letter = DeadLetter(loaded.base, dead, attempt - 1, "expired", expired=True)
                self.dead_letters.append(letter)
        else:
            self.counters.expired += self.window.settle(loaded, mask)
        self._after_settling()

    def expire_loaded(self, ttl_ms: int, wall_us: int) -> bool:
        """Pass over what is loaded, not in flight, and has expired; returns whether there was any.

        What consumers have is theirs: they may still acknowledge it.
        """
        late = [
            loaded
            for loaded in self.window.frames.values()
            if loaded.life.over(ttl_ms, wall_us) and loaded.untaken
        ]
        for loaded in late:
            attempt = min(number for number, part in loaded.unfinished() if part & loaded.untaken)
            self.expire(loaded, loaded.untaken, attempt)
        return bool(late)

    # ---- acknowledging ----

    def ack(self, number: int, first: int, last: int, mask: int | None, now: float) -> None:
        """Acknowledge records, whichever consumer had them and however late."""
        self._progress(number, now)
        self.counters.acknowledged += self.window.settle_range(first, last, mask)
        self._after_settling()

    def ack_ranges(self, ranges: Iterable[tuple[int, int]], now: float) -> dict[int, int]:
        """Acknowledge records, whichever consumers had them and however late.

        Returns how many of them each member had in flight.
        """
        landed: dict[int, int] = {}
        for first, last in ranges:
            self.counters.acknowledged += self.window.settle_range(first, last, None, landed)
        for number in landed:
            self._progress(number, now)
        self._after_settling()
        return landed

    def ack_up_to(self, number: int, last: int, now: float) -> None:
        """Acknowledge everything up to ``last``; only where one consumer receives in order.

        Records with a delivery time count only if they were delivered before ``last`` was.
        """
        if self.type in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED):
            raise Refused(
                f"a {self.type} subscription has no order to acknowledge up to: "
                "acknowledge each message or batch"
            )
        self._progress(number, now)
        self.counters.acknowledged += self.window.settle_up_to(last, number)
        self._after_settling()

    def nack(
        self,
        number: int,
        first: int,
        last: int,
        mask: int | None,
        delay_ms: int,
        reason: str,
        now: float,
    ) -> None:
        """The consumer failed to process records that it has in flight."""
        self._progress(number, now)
        for loaded in self.window.between(first, last):
            part = loaded.part(first, last, mask)
            for flight in [f for f in loaded.flights if f.consumer == number and f.mask & part]:
                failed = flight.mask & part
                self.counters.nacked += failed.bit_count()
                self._land(loaded, flight, failed)
                delay = self.policy.delay_ms(flight.attempt, delay_ms) / 1000
                self._failed(loaded, flight.attempt, failed, now + delay, reason, now)
        self._after_settling()

    def _progress(self, number: int, now: float) -> None:
        member = self.members.get(number)
        if member is not None:
            member.progress = now

    def _land(self, loaded: LoadedFrame, flight: Flight, mask: int) -> None:
        flight.mask &= ~mask
        if not flight.mask:
            loaded.flights.remove(flight)

    def _failed(
        self, loaded: LoadedFrame, attempt: int, mask: int, due: float, reason: str, now: float
    ) -> None:
        """Handle a failed delivery: redeliver when due, or apply the poison policy."""
        if attempt > self.policy.max_redelivery_count:
            match self.policy.poison:
                case Poison.DROP:
                    self.counters.dropped += self.window.settle(loaded, mask)
                    return
                case Poison.DEAD_LETTER:
                    loaded.dead |= mask
                    self.dead_letters.append(DeadLetter(loaded.base, mask, attempt, reason))
                    return
                case Poison.BLOCK:
                    due = now + self.policy.max_redelivery_delay_ms / 1000
                    self._barrier = 0  # computed in _after_settling
                case Poison.HALT:
                    due = NEVER
                    self._barrier = 0
        self.window.put_off(loaded, attempt + 1, mask, due, now)

    def dead_letter_stored(self, letter: DeadLetter) -> None:
        """The dead letter is published durably: its records are done."""
        loaded = self.window.frames.get(letter.base)
        if loaded is not None:
            settled = self.window.settle(loaded, letter.mask & loaded.dead)
            self.counters.dead_lettered += settled
            self.counters.expired += settled if letter.expired else 0
            self._after_settling()

    def dead_letter_failed(self, letter: DeadLetter, now: float) -> None:
        """Publishing the dead letter failed: its records are retried later."""
        loaded = self.window.frames.get(letter.base)
        if loaded is not None:
            mask = letter.mask & loaded.dead
            loaded.dead &= ~mask
            due = now + self.policy.max_redelivery_delay_ms / 1000
            self.window.put_off(loaded, letter.attempt + 1, mask, due, now)
            self._after_settling()

    def _after_settling(self) -> None:
        self._flights_changed()
        if self._barrier is not None:
            self._barrier = self._find_barrier()

    def _find_barrier(self) -> int | None:
        """The lowest record that failed too often and is not done yet."""
        beyond = self.policy.max_redelivery_count + 1
        for loaded in self.window.in_order():
            mask = 0
            for attempt, part in loaded.unfinished():
                mask |= part if attempt > beyond else 0
            if mask:
                return loaded.base + selection.first(mask)
        return None

    # ---- time ----

    @property
    def next_due(self) -> float:
        """The earliest time at which ``tick`` has something to do."""
        return min(self._next_timeout, self.window.next_due)

    def tick(self, now: float) -> None:
        """Apply redeliveries and ack timeouts that are due."""
        if self.policy is not self._timed:
            self._timed = self.policy
            self._next_timeout = now
            self.window.release_halted(now)
        if now < self.next_due:
            return
        if now >= self._next_timeout:
            self._time_out(now)
        self.window.release_due(now)
        self._after_settling()

    def _time_out(self, now: float) -> None:
        timeout = self.policy.ack_timeout_ms / 1000
        self._next_timeout = NEVER
        if not timeout:
            return
        late, following = take_timed_out(self.window, self.members, timeout, now)
        if following < NEVER:
            self._next_timeout = max(following, now + timeout / _TIMEOUT_STEPS)
        for loaded, flight in late:
            failed, flight.mask = flight.mask, 0
            self.counters.timed_out += failed.bit_count()
            self._failed(loaded, flight.attempt, failed, now, "not acknowledged in time", now)

    def restart(self, position: int) -> None:
        """Discard all state and continue at ``position`` (a seek)."""
        self.window = DeliveryWindow(position, RangeSet())
        self.dead_letters.clear()
        self._barrier = None
        self._next_timeout = NEVER
        self._flights_changed()
