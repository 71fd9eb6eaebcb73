"""The window of loaded frames and its cursor; delayed frames: when they are due, what they cost."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.subscriptions.delayed_frames import DelayedFrames
from broker_containers.subscriptions.delivery_window import DeliveryWindow
from broker_containers.subscriptions.due_times import NEVER, DueTimes
from broker_containers.subscriptions.limits import SubscriptionLimits
from broker_containers.subscriptions.ranges import RangeSet
from sulina.model import SubscriptionType
from sulina.wire import selection
from tests.subscriptions.harness import FRAME_BYTES, Bench, Given

LIMIT = 10_000


def window(
    *counts: int, position: int = 0, acked: tuple[tuple[int, int], ...] = ()
) -> DeliveryWindow:
    """A window with frames of so many records, loaded from ``position`` on."""
    made = DeliveryWindow(position, RangeSet(acked))
    for count in counts:
        made.load(made.read_offset, count, 100, 0)
    return made


def undone(made: DeliveryWindow, end: int) -> set[int]:
    """The offsets below ``end`` that a window with this one's cursor would deliver."""
    position, acked = made.position, made.acked_ranges(LIMIT)
    done = {offset for first, last in acked for offset in range(first, last + 1)}
    return set(range(position, end)) - done


def test_the_position_is_the_lowest_record_not_done() -> None:
    w = window(3, 3)
    assert w.position == 0
    w.settle_range(1, 2)
    assert w.position == 0
    w.settle_range(0, 0)
    assert w.position == 3
    w.settle_range(3, 5)
    assert w.position == 6 and len(w) == 0 and w.records == 0


def test_acknowledged_ranges_lie_above_the_position() -> None:
    w = window(5, 5, 5)
    w.settle_range(2, 2)
    w.settle_range(4, 6)
    w.settle_range(10, 14)
    assert w.position == 0
    assert w.acked_ranges(LIMIT) == [(2, 2), (4, 6), (10, 14)]
    assert w.acked_ranges(2) == [(2, 2), (4, 6)]


def test_a_frame_that_is_wholly_done_leaves_the_window_but_not_the_cursor() -> None:
    w = window(2, 2, 2)
    w.settle_range(2, 3)
    assert len(w) == 2 and w.records == 4
    assert w.acked_ranges(LIMIT) == [(2, 3)]


def test_records_done_before_they_are_loaded_are_remembered() -> None:
    w = window(2)
    assert w.settle_range(0, 5) == 2
    assert w.position == 6
    assert w.load(2, 3, 100, 0) is None
    loaded = w.load(5, 3, 100, 0)
    assert loaded is not None and selection.indices(loaded.undone) == [1, 2]
    assert w.position == 6


def test_acknowledgements_ahead_of_an_empty_window_stay_in_the_cursor() -> None:
    w = window(position=5, acked=((8, 9), (12, 12)))
    assert (w.position, w.acked_ranges(LIMIT)) == (5, [(8, 9), (12, 12)])
    w.settle_range(5, 7)
    assert (w.position, w.acked_ranges(LIMIT)) == (10, [(12, 12)])


def test_loading_may_begin_within_a_frame() -> None:
    w = window(position=5)
    loaded = w.load(3, 4, 100, 0)
    assert loaded is not None and selection.indices(loaded.undone) == [2, 3]
    assert w.position == 5 and w.read_offset == 7


def test_what_is_skipped_counts_as_done() -> None:
    w = window(2, acked=((3, 3), (9, 9)))
    w.skip_to(8)
    assert w.position == 0 and w.acked_ranges(LIMIT) == [(2, 7), (9, 9)]
    w.settle_range(0, 1)
    assert w.position == 8 and w.acked_ranges(LIMIT) == [(9, 9)]


def test_a_mask_narrows_a_range_from_its_first_offset_on() -> None:
    w = window(3, 3, 3)
    w.settle_range(1, 7, 0b100_1101)
    assert w.acked_ranges(LIMIT) == [(1, 1), (3, 4), (7, 7)]


def test_a_mask_longer_than_its_range_does_not_reach_beyond_it() -> None:
    w = window(3)
    w.settle_range(1, 4, 0b1111_1111)
    assert w.position == 0 and w.acked_ranges(LIMIT) == [(1, 4)]
    w.settle_range(5, 6, 0b1000_1000)
    assert w.acked_ranges(LIMIT) == [(1, 4)]


def test_a_mask_far_from_what_is_loaded_costs_no_memory() -> None:
    w = window(3)
    tracemalloc.start()
    try:
        w.settle_range(10**12, 10**12 + 7, 0b1010_0001)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert w.acked_ranges(LIMIT) == [(10**12 + i,) * 2 for i in (0, 5, 7)]


def test_frames_are_found_by_offset() -> None:
    w = window(3, 3, 3)
    w.settle_range(3, 5)
    assert w.find(4) is None
    assert w.find(9) is None
    found = w.find(2)
    assert found is not None and found.base == 0
    assert [loaded.base for loaded in w.between(2, 6)] == [0, 6]
    assert [loaded.base for loaded in w.between(3, 5)] == []
    assert [loaded.base for loaded in w.between(0, 100)] == [0, 6]


acks = st.tuples(st.integers(0, 45), st.integers(0, 10), st.none() | st.integers(0, 2_000))


@given(
    st.integers(0, 6),
    st.lists(st.integers(1, 6), min_size=8, max_size=8),
    st.lists(acks | st.just("load"), max_size=25),
)
def test_the_cursor_is_what_was_not_acknowledged_and_survives_a_restart(
    position: int, counts: list[int], steps: list[tuple[int, int, int | None] | str]
) -> None:
    frames = list(counts)
    w = window(position=position)
    base = 0
    expected = set(range(position, sum(counts)))
    for step in steps:
        if isinstance(step, str):
            if frames:
                w.load(base, frames[0], 100, 0) if base + frames[0] > position else None
                base += frames.pop(0)
            continue
        first, length, mask = step
        last = min(first + length, sum(counts) - 1)
        if first > last:
            continue
        w.settle_range(first, last, mask)
        for offset in range(first, last + 1):
            if mask is None or mask >> (offset - first) & 1:
                expected.discard(offset)
    assert w.position == min(expected, default=w.position)
    assert undone(w, sum(counts)) == expected
    # The cursor alone is enough to go on: loading everything again delivers exactly the rest.
    again = DeliveryWindow(w.position, RangeSet(w.acked_ranges(LIMIT)))
    ready: set[int] = set()
    base = 0
    for count in counts:
        loaded = again.load(base, count, 100, 0) if base + count > again.read_offset else None
        if loaded is not None:
            ready |= {base + index for index in selection.indices(loaded.todo[1])}
        base += count
    assert ready == expected
    assert undone(again, sum(counts)) == expected


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
