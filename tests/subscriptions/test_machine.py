"""Random lives of a subscription of every type, beside a model that is only sets.

The model knows which records are done and who has which in flight. After every step each loaded
record is in exactly one state, the cursor is what the model says and survives a restart, nothing
done is delivered, nothing is in flight twice, no more than may be, nothing comes before its
delivery time, and order is kept where it is promised. At the end of every life, when everybody
takes and acknowledges, everything becomes done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.delivery_window import DeliveryWindow
from broker_containers.subscriptions.dispatcher import Dispatcher
from broker_containers.subscriptions.limits import SubscriptionLimits
from broker_containers.subscriptions.ranges import RangeSet
from sulina.errors import Refused
from sulina.model import Backoff, FailurePolicy, Poison, SubscriptionType
from sulina.wire import selection
from sulina.wire.encode import key_slot
from tests.subscriptions.harness import Ear

KEYS = ["a", "b", "c-1", "c-2", "d"]
FILTERS = [("a",), ("c-*", "d"), ("?",)]
TIMEOUT = 10.0
LONGEST = 8.0
MOST_FRAMES = 14
NUMBERS = st.integers(0, 1 << 30)
SOME = st.sampled_from([0b1, 0b10, 0b0101, 0b1111, 0b1101_0010])
"""Which of some records are meant, over and over."""
FRAMES = st.lists(st.sampled_from(KEYS), min_size=1, max_size=7)
DUE = st.sampled_from([None, None, 0.0, 1.0, 6.0, 20.0])
"""In how many seconds a frame is to be delivered."""
CREDIT = st.sampled_from([100, 100, 3, 1, 0])
ORDERED = (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER)


@dataclass(frozen=True)
class Frame:
    base: int
    keys: tuple[str, ...]
    due: float | None

    @property
    def end(self) -> int:
        return self.base + len(self.keys)


@dataclass
class Flying:
    member: int
    attempt: int
    since: float
    order: int
    """Of the deliveries: the records of one have the same."""


class SubscriptionMachine(RuleBasedStateMachine):
    """One subscription, its log, and the model."""

    @initialize(
        type_=st.sampled_from(SubscriptionType),
        poison=st.sampled_from(Poison),
        redeliveries=st.integers(0, 2),
        timeout=st.sampled_from([0, int(TIMEOUT * 1000)]),
        backoff=st.sampled_from(Backoff),
        limits=st.sampled_from(
            [
                SubscriptionLimits(),
                SubscriptionLimits(frames=3),
                SubscriptionLimits(records=9),
                SubscriptionLimits(delayed=2),
            ]
        ),
        unacked=st.sampled_from([0, 0, 3]),
        frames=st.lists(st.tuples(FRAMES, DUE), min_size=2, max_size=6),
        credit=st.lists(CREDIT, max_size=3),
    )
    def begin(
        self,
        type_: SubscriptionType,
        poison: Poison,
        redeliveries: int,
        timeout: int,
        backoff: Backoff,
        limits: SubscriptionLimits,
        unacked: int,
        frames: list[tuple[list[str], float | None]],
        credit: list[int],
    ) -> None:
        self.type = type_
        self.policy = FailurePolicy(
            max_redelivery_count=redeliveries,
            ack_timeout_ms=timeout,
            base_redelivery_delay_ms=1_000,
            max_redelivery_delay_ms=int(LONGEST * 1000),
            backoff=backoff,
            poison=poison,
            dead_letter_topic="/default/dead" if poison is Poison.DEAD_LETTER else "",
        )
        self.limits = limits
        self.unacked = unacked
        self.now = 0.0
        self.log: list[Frame] = []
        self.done: set[int] = set()
        self.flying: dict[int, Flying] = {}
        self.failures: dict[int, int] = {}
        self.names = 0
        self.steps = 0
        self.deliveries = 0
        self.open(0, [])
        for keys, due in frames:
            self.publish(keys, due)
        for each in credit:
            self.join(each, (), False)

    def open(self, position: int, acked: list[tuple[int, int]]) -> None:
        self.dispatcher = Dispatcher(
            self.type,
            self.policy,
            DeliveryWindow(position, RangeSet(acked)),
            limits=self.limits,
            max_unacked=self.unacked,
        )
        self.flying.clear()
        self.failures.clear()

    def rarely(self, often: int) -> bool:
        """What disturbs everything may happen only every so many steps."""
        return self.steps % often == often - 1

    # ---- what the machine knows ----

    @property
    def window(self) -> DeliveryWindow:
        return self.dispatcher.window

    @property
    def end(self) -> int:
        return self.log[-1].end if self.log else 0

    @property
    def members(self) -> list[AttachedConsumer]:
        return list(self.dispatcher.members.values())

    def frame(self, offset: int) -> Frame:
        return next(frame for frame in self.log if frame.base <= offset < frame.end)

    def key(self, offset: int) -> str:
        frame = self.frame(offset)
        return frame.keys[offset - frame.base]

    def not_received_before(self, last: int) -> set[int]:
        """Records with a delivery time that the consumer of ``last`` did not get before it."""
        of = self.flying[last]
        kept = set()
        for offset in range(last):
            its = self.flying.get(offset)
            before = its is not None and its.member == of.member and its.order <= of.order
            if self.frame(offset).due is not None and not before:
                kept.add(offset)
        return kept - self.done

    def states(self) -> dict[int, str]:
        """The state of each loaded record. Fails if one has none, or two."""
        states: dict[int, str] = {}
        for base, loaded in self.window.frames.items():
            parts = [("done", loaded.done), ("dead", loaded.dead)]
            parts += [("to do", mask) for mask in loaded.todo.values()]
            parts += [("waiting", waiting.mask) for waiting in loaded.waiting]
            parts += [("in flight", flight.mask) for flight in loaded.flights]
            together = 0
            for name, mask in parts:
                assert not together & mask, "a record is in two states"
                together |= mask
                states |= {base + index: name for index in selection.indices(mask)}
            assert together == selection.whole(loaded.count), "a record is in no state"
            assert loaded.undone, "a frame that is done is forgotten"
        return states

    # ---- the log ----

    @precondition(lambda self: len(self.log) < MOST_FRAMES)
    @rule(keys=FRAMES, due=DUE)
    def publish(self, keys: list[str], due: float | None) -> None:
        self.log.append(Frame(self.end, tuple(keys), None if due is None else self.now + due))

    @rule(count=st.integers(1, 4))
    def load(self, count: int) -> None:
        for _ in range(count):
            if self.dispatcher.wants_more:
                load_into(self.dispatcher, self.log, self.now)

    # ---- consumers ----

    @precondition(lambda self: len(self.members) < 4)
    @rule(
        credit=CREDIT,
        filters=st.sampled_from([(), (), *FILTERS]),
        same_name=st.booleans(),
    )
    def join(self, credit: int, filters: tuple[str, ...], same_name: bool) -> None:
        before = self.members
        if same_name and before:
            name = before[0].name
            self.land(before[0].number)
        else:
            self.names += 1
            name = f"consumer-{self.names}"
        if self.type is not SubscriptionType.KEY_SHARED:
            filters = ()
        refused = self.type is SubscriptionType.EXCLUSIVE and bool(before) and not same_name
        try:
            member = self.dispatcher.join(name, Ear(), filters, self.now)
        except Refused:
            assert refused
            return
        assert not refused
        if credit:
            self.dispatcher.grant(member.number, credit, 1_000_000, self.now)

    def land(self, number: int) -> None:
        """What a consumer had in flight is in flight no longer."""
        self.flying = {o: f for o, f in self.flying.items() if f.member != number}

    @precondition(lambda self: self.members and self.rarely(5))
    @rule(which=NUMBERS)
    def leave(self, which: int) -> None:
        member = self.members[which % len(self.members)]
        self.dispatcher.leave(member.number)
        self.land(member.number)

    @precondition(lambda self: self.members)
    @rule(which=NUMBERS, records=st.sampled_from([1, 2, 5, 50]))
    def grant(self, which: int, records: int) -> None:
        member = self.members[which % len(self.members)]
        self.dispatcher.grant(member.number, records, 1_000_000, self.now)

    @precondition(lambda self: self.members and self.rarely(4))
    @rule(which=NUMBERS)
    def stop_or_go(self, which: int) -> None:
        member = self.members[which % len(self.members)]
        member.writable = not member.writable

    @rule()
    def everybody_takes(self) -> None:
        for member in self.members:
            member.writable = True
            self.dispatcher.grant(member.number, 20, 1_000_000, self.now)
        self.deliver(100)

    # ---- deliveries ----

    @rule(most=st.sampled_from([1, 3, 100]))
    def deliver(self, most: int) -> None:
        for _ in range(most):
            before = self.states()
            pick = self.dispatcher.next(self.now)
            if pick is None:
                if self.dispatcher.wants_more and load_into(self.dispatcher, self.log, self.now):
                    continue
                return
            assert (self.frame(pick.loaded.base).due or 0.0) <= self.now, "delivered too early"
            member = pick.member
            offsets = [pick.loaded.base + index for index in selection.indices(pick.mask)]
            assert offsets and member.number in self.dispatcher.members
            self.deliveries += 1
            for offset in offsets:
                assert offset not in self.done, "done, and delivered all the same"
                assert offset not in self.flying, "in flight twice"
                assert before[offset] == "to do"
                assert pick.attempt == self.failures.get(offset, 0) + 1
                self.flying[offset] = Flying(member.number, pick.attempt, self.now, self.deliveries)
            if self.type is SubscriptionType.SHARED:
                assert member.records >= 0, "more than was asked for"
            elif self.type is SubscriptionType.KEY_SHARED:
                self.check_order_of_keys(offsets, member, before)
            else:
                self.check_order(offsets, member, before, pick.attempt)

    def check_order_of_keys(
        self, offsets: list[int], member: AttachedConsumer, before: dict[int, str]
    ) -> None:
        for offset in offsets:
            key = self.key(offset)
            others = [o for o in before if o != offset and self.key(o) == key]
            for other in others:
                if other in self.flying:
                    assert self.flying[other].member == member.number, "a key at two consumers"
                elif other < offset:
                    assert before[other] in ("done", "dead"), "a record overtook one of its key"

    def check_order(
        self, offsets: list[int], member: AttachedConsumer, before: dict[int, str], attempt: int
    ) -> None:
        assert self.dispatcher.is_active(member)
        beyond = self.policy.max_redelivery_count
        blocking = [o for o, failed in self.failures.items() if failed > beyond]
        blocking = [o for o in blocking if before.get(o) in ("to do", "waiting", "in flight")]
        if self.policy.poison in (Poison.BLOCK, Poison.HALT) and blocking:
            assert attempt > 1 or max(offsets) < min(blocking), "a record passed one that blocks"
        else:
            lower = [o for o, state in before.items() if state == "to do" and o < max(offsets)]
            assert set(lower) <= set(offsets), "a record overtook another"

    # ---- what becomes of them ----

    def some_of(self, offsets: list[int], which: int) -> list[int]:
        chosen = [o for position, o in enumerate(offsets) if which >> (position % 8) & 1]
        return chosen or offsets[:1]

    @precondition(lambda self: self.flying)
    @rule(which=SOME)
    def ack_some(self, which: int) -> None:
        for offset in self.some_of(sorted(self.flying), which):
            self.dispatcher.ack(self.flying[offset].member, offset, offset, None, self.now)
            self.settled([offset])

    @precondition(lambda self: self.rarely(6))
    @rule(
        first=st.integers(0, 80),
        length=st.integers(0, 12),
        mask=st.none() | st.integers(0, 1 << 15),
    )
    def ack_anything(self, first: int, length: int, mask: int | None) -> None:
        last = min(first + length, self.end - 1)
        if first <= last:
            self.dispatcher.ack(1, first, last, mask, self.now)
            wanted = range(first, last + 1)
            self.settled([o for o in wanted if mask is None or mask >> (o - first) & 1])

    @precondition(lambda self: self.flying)
    @rule(which=NUMBERS)
    def ack_up_to(self, which: int) -> None:
        offset = sorted(self.flying)[which % len(self.flying)]
        kept = self.not_received_before(offset)
        try:
            self.dispatcher.ack_up_to(self.flying[offset].member, offset, self.now)
        except Refused:
            assert self.type not in ORDERED
            return
        assert self.type in ORDERED
        self.settled([o for o in range(offset + 1) if o not in kept])

    def settled(self, offsets: list[int]) -> None:
        self.done.update(offsets)
        for offset in offsets:
            self.flying.pop(offset, None)

    @precondition(lambda self: self.flying)
    @rule(which=SOME, delay_ms=st.sampled_from([0, 0, 3_000, 10**9]), as_ranges=st.booleans())
    def nack_some(self, which: int, delay_ms: int, as_ranges: bool) -> None:
        chosen = self.some_of(sorted(self.flying), which)
        for offset in chosen:
            flying = self.flying.get(offset)
            if flying is None:
                continue
            last = offset + 2 if as_ranges else offset
            self.dispatcher.nack(flying.member, offset, last, None, delay_ms, "no", self.now)
            for each in range(offset, last + 1):
                if each in self.flying and self.flying[each].member == flying.member:
                    self.failed(each)

    def failed(self, offset: int) -> None:
        flying = self.flying.pop(offset)
        self.failures[offset] = flying.attempt
        if flying.attempt > self.policy.max_redelivery_count and self.policy.poison is Poison.DROP:
            self.done.add(offset)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0, TIMEOUT, 3 * TIMEOUT]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.dispatcher.tick(self.now)
        flying = {
            loaded.base + index
            for loaded in self.window.frames.values()
            for flight in loaded.flights
            for index in selection.indices(flight.mask)
        }
        for offset in sorted(set(self.flying) - flying):
            assert self.policy.ack_timeout_ms, "timed out where nothing does"
            assert self.now - self.flying[offset].since >= TIMEOUT, "timed out too early"
            self.failed(offset)
        assert self.dispatcher.next_due > self.now

    @precondition(lambda self: self.dispatcher.dead_letters)
    @rule(succeeds=st.booleans())
    def bury(self, succeeds: bool) -> None:
        letter = self.dispatcher.dead_letters.pop(0)
        offsets = [letter.base + index for index in selection.indices(letter.mask)]
        if succeeds:
            self.dispatcher.dead_letter_stored(letter)
            self.settled(offsets)
        else:
            self.dispatcher.dead_letter_failed(letter, self.now)

    # ---- other places ----

    @precondition(lambda self: self.rarely(23))
    @rule(place=NUMBERS)
    def seek(self, place: int) -> None:
        position = place % (self.end + 1)
        self.dispatcher.restart(position)
        self.done = set(range(position))
        self.flying.clear()
        self.failures.clear()

    @precondition(lambda self: self.rarely(17))
    @rule()
    def another_owner_takes_over(self) -> None:
        self.open(self.window.position, self.window.acked_ranges(10_000))

    # ---- what always holds ----

    @invariant()
    def every_record_is_in_one_state_and_the_model_agrees(self) -> None:
        self.steps += 1
        states = self.states()
        for offset, state in states.items():
            assert (state == "done") == (offset in self.done)
            assert (state == "in flight") == (offset in self.flying)
        assert set(self.flying) <= set(states)

    @invariant()
    def no_more_is_in_flight_than_may_be(self) -> None:
        assert not self.unacked or len(self.flying) <= self.unacked
        assert self.dispatcher._in_flight in (None, len(self.flying))

    @invariant()
    def the_position_is_the_lowest_record_not_done(self) -> None:
        assert self.window.position == next(o for o in range(10_000) if o not in self.done)

    @invariant()
    def the_cursor_alone_brings_back_exactly_what_is_not_done(self) -> None:
        acked = self.window.acked_ranges(10_000)
        again = Dispatcher(
            self.type, self.policy, DeliveryWindow(self.window.position, RangeSet(acked))
        )
        while load_into(again, self.log, float(1 << 40)):
            pass
        ready = {
            loaded.base + index
            for loaded in again.window.frames.values()
            for index in selection.indices(loaded.todo[1])
        }
        assert ready == set(range(self.end)) - self.done
        assert again.window.acked_ranges(10_000) == acked

    @invariant()
    def the_books_are_kept(self) -> None:
        window, frames = self.window, self.window.frames
        assert window._bases == sorted(frames)
        assert window._ready == [base for base in window._bases if frames[base].todo]
        assert not set(window.delays.bases) & set(frames)
        assert all(window.delays[base].undone for base in window.delays.bases)
        assert window.records == sum(loaded.count for loaded in frames.values())
        waiting = {base: loaded for base, loaded in frames.items() if loaded.waiting}
        assert {loaded.base for loaded in window.waiting()} == set(waiting)
        for loaded in waiting.values():
            assert window.next_due <= min(each.due for each in loaded.waiting)
        limits = self.limits
        assert len(frames) <= limits.frames and window.records < limits.records + 7
        assert len(window.delays) <= limits.delayed

    # ---- how it ends ----

    def teardown(self) -> None:
        if not hasattr(self, "dispatcher"):
            return
        dispatcher = self.dispatcher
        if all(member.key_filters for member in self.members):
            dispatcher.join("takes everything", Ear(), (), self.now)
        if self.policy.poison is Poison.HALT:  # somebody acts
            self.policy = dispatcher.policy = replace(self.policy, poison=Poison.BLOCK)
        for _ in range(100):
            for member in self.members:
                member.writable = True
                dispatcher.grant(member.number, 1_000, 1_000_000, self.now)
            while dispatcher.wants_more and load_into(dispatcher, self.log, self.now):
                pass
            self.deliver(1_000)
            for offset, flying in sorted(self.flying.items()):
                dispatcher.ack(flying.member, offset, offset, None, self.now)
                self.settled([offset])
            while dispatcher.dead_letters:
                self.bury(succeeds=True)
            if len(self.done) >= self.end:
                break
            self.pass_time(LONGEST / 4)
        assert self.done >= set(range(self.end)), "something is never delivered"
        assert len(self.window) == 0 and self.window.position == self.end
        assert self.window.records == 0 and self.window.next_due == float("inf")
        assert len(self.window.delays) == 0


def load_into(dispatcher: Dispatcher, log: list[Frame], now: float) -> bool:
    """Load the next frame, as a broker reads it from the log. False: there is none for now."""
    window, wall_us = dispatcher.window, int(now * 1e6)
    base = window.delays.due(wall_us)
    if base is not None:
        frame = next(frame for frame in log if frame.base == base)
    else:
        window.pass_done()
        following = [frame for frame in log if frame.end > window.read_offset]
        if not following:
            return False
        frame = following[0]
        if frame.due is not None and frame.due > now:
            if not dispatcher.may_delay:
                return False
            window.delay(frame.base, len(frame.keys), int(frame.due * 1e6))
            return True
    slots = bytes(key_slot(key.encode()) for key in frame.keys)
    timed = frame.due is not None
    dispatcher.load(frame.base, len(frame.keys), 100, slots, list(frame.keys), timed=timed)
    return True


TestSubscriptionMachine = SubscriptionMachine.TestCase
TestSubscriptionMachine.settings = settings(
    max_examples=120,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
