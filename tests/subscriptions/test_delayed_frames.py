"""Delayed frames: when they are due, what the cursor does with them, and what they cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.subscriptions.delayed_frames import DelayedFrames
from broker_containers.subscriptions.delivery_window import DeliveryWindow
from broker_containers.subscriptions.dispatcher import SubscriptionLimits
from broker_containers.subscriptions.due_times import NEVER, DueTimes
from broker_containers.subscriptions.ranges import RangeSet
from sulina.model import SubscriptionType
from tests.subscriptions.harness import FRAME_BYTES, Bench, Given

SECOND = 1_000_000


def load_due(bench: Bench, base: int, count: int) -> None:
    bench.dispatcher.load(base, count, FRAME_BYTES, 0, None, timed=True)


def test_the_earliest_is_due_first_and_of_those_the_lowest() -> None:
    delays = DelayedFrames()
    for base, due in ((0, 9), (5, 3), (7, 3), (9, 4)):
        delays.add(base, 2, due * SECOND, 0)
    order = []
    while (due_now := delays.due(5 * SECOND)) is not None:
        order.append(due_now)
        delays.remove(due_now)
    assert order == [5, 7, 9]
    assert (len(delays), delays.next_due_us, delays.first) == (1, 9 * SECOND, 0)


def test_what_was_acknowledged_early_leaves_nothing_behind() -> None:
    delays = DelayedFrames()
    for base in range(20_000):
        delays.add(base, 1, SECOND + base, 0)
        delays.settle_range(base, base, None)
    assert len(delays) == 0 and delays.next_due_us is None
    assert len(delays._heap) <= 1_001


def test_the_position_stays_at_a_delayed_frame_and_the_cursor_has_the_rest() -> None:
    window = DeliveryWindow(0, RangeSet())
    window.load(0, 2, 1, 0)
    window.delay(2, 3, SECOND)
    window.load(5, 2, 1, 0)
    window.delay(7, 1, SECOND)
    window.load(8, 1, 1, 0)
    window.settle_range(0, 1)
    window.settle_range(5, 6)
    window.settle_range(8, 8)
    assert window.position == 2
    assert window.acked_ranges(10) == [(5, 6), (8, 8)]


def test_a_part_acknowledged_before_its_time_is_not_delivered() -> None:
    bench = Bench(SubscriptionType.EXCLUSIVE)
    member = bench.join("a")
    bench.window.delay(0, 4, SECOND)
    bench.ack_range(member, 0, 3, 0b0101)
    assert bench.window.position == 1
    load_due(bench, 0, 4)
    assert bench.all() == [Given("a", [1, 3])]


@pytest.mark.parametrize("type_", SubscriptionType)
def test_a_frame_that_becomes_due_comes_before_what_is_ready_behind_it(
    type_: SubscriptionType,
) -> None:
    bench = Bench(type_)
    bench.join("a", records=1)
    bench.window.delay(0, 1, SECOND)
    for _ in range(2):
        bench.load()
    assert bench.one() == Given("a", [1])
    load_due(bench, 0, 1)
    bench.grant(bench.dispatcher.members[1], 10)
    assert bench.all() == [Given("a", [0]), Given("a", [2])]


def test_a_cumulative_acknowledgement_covers_only_what_can_have_been_received() -> None:
    bench = Bench(SubscriptionType.EXCLUSIVE)
    member = bench.join("a")
    bench.window.delay(0, 2, SECOND)
    bench.window.delay(2, 2, 2 * SECOND)
    bench.load()
    assert bench.all() == [Given("a", [4])]
    load_due(bench, 0, 2)
    assert bench.all() == [Given("a", [0, 1])]
    bench.dispatcher.ack_up_to(member.number, 4, bench.now)
    assert bench.window.position == 0, "it may not have reached the application yet"
    load_due(bench, 2, 2)
    bench.load()
    assert bench.all() == [Given("a", [2, 3]), Given("a", [5])]
    bench.dispatcher.ack_up_to(member.number, 2, bench.now)
    assert bench.window.position == 3, "those before it came before it"
    bench.dispatcher.ack_up_to(member.number, 5, bench.now)
    assert bench.window.position == 6


def test_a_cumulative_acknowledgement_after_a_takeover_spares_what_may_be_delayed() -> None:
    bench = Bench(SubscriptionType.EXCLUSIVE)
    member = bench.join("a")
    bench.dispatcher.ack_up_to(member.number, 5, bench.now)  # had from the owner before
    bench.load(2)
    bench.window.delay(2, 2, SECOND)
    bench.load(3)
    assert bench.all() == [Given("a", [6])]
    assert bench.window.position == 2
    load_due(bench, 2, 2)
    assert bench.all() == [Given("a", [2, 3])]


def test_what_is_acknowledged_is_passed_without_being_loaded() -> None:
    window = DeliveryWindow(0, RangeSet([(3, 99_999)]))
    window.delay(0, 3, SECOND)
    window.pass_done()
    assert window.read_offset == 100_000
    loaded = window.load(99_998, 5, 1, 0)
    assert loaded is not None and loaded.undone == 0b11100


def test_a_frame_more_than_the_bound_is_not_kept_in_mind() -> None:
    bench = Bench(SubscriptionType.SHARED, limits=SubscriptionLimits(delayed=2))
    bench.join("a")
    for base in range(2):
        assert bench.dispatcher.may_delay
        bench.window.delay(base, 1, SECOND)
    assert not bench.dispatcher.may_delay
    load_due(bench, 0, 1)
    assert bench.dispatcher.may_delay


def test_a_seek_forgets_what_was_delayed() -> None:
    bench = Bench(SubscriptionType.SHARED)
    bench.window.delay(0, 1, SECOND)
    bench.dispatcher.restart(0)
    assert len(bench.window.delays) == 0 and bench.window.position == 0


def test_a_delayed_key_holds_nothing_back_and_stays_with_the_owner_of_its_slot() -> None:
    bench = Bench(SubscriptionType.KEY_SHARED)
    for name in "abc":
        bench.join(name)
    bench.window.delay(0, 1, SECOND)
    bench.load_keys("k", "k")
    (given,) = bench.all()
    assert given.offsets == [1, 2]
    slots = bench.window.frames[1].slots
    assert isinstance(slots, bytes)
    bench.dispatcher.load(0, 1, FRAME_BYTES, slots[:1], None, timed=True)
    assert bench.all() == [Given(given.to, [0])]


steps = st.lists(
    st.tuples(st.sampled_from(["note", "drop", "take"]), st.integers(0, 5), st.integers(0, 30)),
    max_size=60,
)


@given(steps)
def test_frames_are_taken_when_their_earliest_time_has_come(
    todo: list[tuple[str, int, int]],
) -> None:
    timetable = DueTimes()
    model: dict[int, float] = {}
    for what, base, time in todo:
        match what:
            case "note":
                timetable.note(base, time)
                model[base] = min(model.get(base, NEVER), time)
            case "drop":
                timetable.drop(base)
                model.pop(base, None)
            case _:
                due = {base for base, due in model.items() if due <= time}
                taken = timetable.take(time)
                assert sorted(taken) == sorted(due)
                model = {base: due for base, due in model.items() if due > time}
        assert timetable.next_due == min(model.values(), default=NEVER)
        assert set(timetable) == set(model)


def test_what_is_dropped_does_not_pile_up() -> None:
    timetable = DueTimes()
    for number in range(20_000):
        timetable.note(number, 60.0 + number)
        timetable.drop(number)
    assert len(timetable._heap) < 3_000
    assert timetable.next_due == NEVER
