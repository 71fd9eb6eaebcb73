"""Decides what a subscription delivers next, and handles the outcome of each delivery.

Never waits: the caller loads frames, sends what ``next`` returns, and passes in acknowledgements,
credit and the time. So every decision can be replayed and simulated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.counters import SubscriptionCounters
from broker_containers.subscriptions.dead_letters import DeadLetter
from broker_containers.subscriptions.delivery_window import DeliveryWindow, take_timed_out
from broker_containers.subscriptions.due_times import NEVER
from broker_containers.subscriptions.expiry import ENDLESS, Lifetime
from broker_containers.subscriptions.limits import SubscriptionLimits
from broker_containers.subscriptions.loaded_frame import Flight, LoadedFrame
from broker_containers.subscriptions.membership import Membership
from broker_containers.subscriptions.ranges import RangeSet
from broker_containers.subscriptions.selectors import (
    Pick,
    SharedSelector,
    SingleConsumerSelector,
)
from sulina.errors import Refused
from sulina.model import FailurePolicy, Poison, SubscriptionType
from sulina.wire import selection

_TIMEOUT_STEPS = 32
"""Timeouts may be detected late by this fraction, so that checking for them is cheap."""


@dataclass(slots=True, eq=False)
class Dispatcher(Membership):
    """The state of one subscription. Unless ``reliable``, a delivery counts as acknowledged."""

    policy: FailurePolicy
    window: DeliveryWindow
    reliable: bool = True
    limits: SubscriptionLimits = field(default_factory=SubscriptionLimits)
    max_unacked: int = 0
    """Records that all members together may have in flight; 0: only their credit limits."""
    counters: SubscriptionCounters = field(default_factory=SubscriptionCounters)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    _timed: FailurePolicy = field(init=False)
    """The policy that ``_next_timeout`` was computed with."""
    _next_timeout: float = NEVER
    _barrier: int | None = None
    """The lowest record that failed too often and blocks later ones."""
    _in_flight: int | None = None
    """Records in flight, where they are limited; None: count again."""

    def __post_init__(self) -> None:
        Membership.__post_init__(self)
        self._timed = self.policy

    # ---- what members have ----

    def _removed(self, member: AttachedConsumer) -> None:
        self.window.recall(member.number)
        self._flights_changed()

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

    def _flights_changed(self) -> None:
        """Call when records are no longer in flight."""
        self._in_flight = None
        self._selector.flights_changed()

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

    def pass_over(self, loaded: LoadedFrame) -> None:
        """Skip a frame that was deleted and can no longer be delivered."""
        self.counters.skipped += self.window.settle(loaded, loaded.undone)
        self._flights_changed()

    # ---- acknowledging ----

    def ack(self, number: int, first: int, last: int, mask: int | None, now: float) -> None:
        """Acknowledge records, whichever consumer had them and however late."""
        self._progress(number, now)
        self.counters.acknowledged += self.window.settle_range(first, last, mask)
        self.after_settling()

    def ack_ranges(self, ranges: Iterable[tuple[int, int]], now: float) -> dict[int, int]:
        """Acknowledge records, whichever consumers had them and however late.

        Returns how many of them each member had in flight.
        """
        landed: dict[int, int] = {}
        for first, last in ranges:
            self.counters.acknowledged += self.window.settle_range(first, last, None, landed)
        for number in landed:
            self._progress(number, now)
        self.after_settling()
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
        self.after_settling()

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
        self.after_settling()

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
                    self._barrier = 0  # computed in after_settling
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
            self.after_settling()

    def dead_letter_failed(self, letter: DeadLetter, now: float) -> None:
        """Publishing the dead letter failed: its records are retried later."""
        loaded = self.window.frames.get(letter.base)
        if loaded is not None:
            mask = letter.mask & loaded.dead
            loaded.dead &= ~mask
            due = now + self.policy.max_redelivery_delay_ms / 1000
            self.window.put_off(loaded, letter.attempt + 1, mask, due, now)
            self.after_settling()

    def after_settling(self) -> None:
        """Call when records were settled or taken back outside of this class."""
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
        self.after_settling()

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
