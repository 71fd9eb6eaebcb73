"""Acknowledgements, the set of ranges, and what the hot paths cost in calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.limits import SubscriptionLimits
from broker_containers.subscriptions.ranges import RangeSet, runs
from sulina.errors import Refused
from sulina.model import SubscriptionType
from sulina.wire import selection
from tests.subscriptions.harness import Bench, Given, in_flight

exclusive = SubscriptionType.EXCLUSIVE


@pytest.mark.parametrize("type_", SubscriptionType)
def test_what_is_acknowledged_never_comes_again(type_: SubscriptionType) -> None:
    bench, a = in_flight(Bench(type_), 4)
    bench.ack(a, 0, 2)
    bench.leave(a)
    b = bench.join("b")
    assert bench.all() == [Given("b", [1, 3])]
    bench.ack_range(b, 0, 3)
    assert bench.window.position == 4 and len(bench.window) == 0
    assert bench.dispatcher.counters.acknowledged == 4


def test_an_acknowledgement_counts_once() -> None:
    bench, a = in_flight(Bench(exclusive), 4)
    bench.ack(a, 1, 1, 1)
    bench.ack_range(a, 0, 2)
    assert bench.dispatcher.counters.acknowledged == 3


def test_a_mask_acknowledges_scattered_records() -> None:
    bench, a = in_flight(Bench(exclusive), 3, 3)
    bench.ack_range(a, 1, 5, 0b10101)
    assert bench.window.acked_ranges(10) == [(1, 1), (3, 3), (5, 5)]


def test_all_up_to_a_record_are_done_at_once() -> None:
    bench = Bench(exclusive)
    a = bench.join("a")
    for _ in range(3):
        bench.load(3)
    bench.all()
    bench.nack(a, 2)
    bench.dispatcher.ack_up_to(a.number, 4, bench.now)
    assert bench.window.position == 5
    bench.dispatcher.ack_up_to(a.number, 3, bench.now)
    assert bench.window.position == 5
    bench.wait(5)
    assert bench.all() == []


@pytest.mark.parametrize("type_", [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED])
def test_all_up_to_a_record_is_refused_where_there_is_no_order(type_: SubscriptionType) -> None:
    bench, a = in_flight(Bench(type_), 3)
    with pytest.raises(Refused, match="no order"):
        bench.dispatcher.ack_up_to(a.number, 2, bench.now)
    assert bench.window.position == 0


@pytest.mark.parametrize("type_", SubscriptionType)
def test_a_late_acknowledgement_counts_even_if_the_record_was_given_to_another(
    type_: SubscriptionType,
) -> None:
    bench, a = in_flight(Bench(type_), 2)
    bench.leave(a)
    b = bench.join("b")
    assert bench.all() == [Given("b", [0, 1])]
    bench.ack(a, 0)
    assert bench.window.position == 1
    bench.nack(b, 0, 1)
    bench.wait(2)
    assert bench.all() == [Given("b", [1], attempt=2)]


def test_an_acknowledgement_may_come_while_a_record_waits_or_is_dying() -> None:
    bench, a = in_flight(Bench(exclusive), 2)
    bench.nack(a, 0)
    bench.ack(a, 0)
    bench.wait(5)
    assert bench.all() == []
    assert bench.window.position == 1


def test_a_record_not_yet_loaded_can_be_acknowledged() -> None:
    bench = Bench(exclusive)
    a = bench.join("a")
    bench.ack_range(a, 0, 3)
    bench.load(2)
    bench.load(3)
    assert bench.all() == [Given("a", [4])]


def test_a_new_owner_delivers_only_what_the_cursor_left() -> None:
    bench = Bench(exclusive, position=3, acked=[(5, 6), (9, 9)])
    bench.join("a")
    bench.load(4)
    bench.load(4)
    assert bench.all() == [Given("a", [3, 4]), Given("a", [7, 8, 10])]


def test_a_seek_forgets_everything_and_goes_on_there() -> None:
    bench, a = in_flight(Bench(exclusive), 4)
    bench.ack(a, 1)
    bench.nack(a, 2)
    bench.dispatcher.restart(1)
    assert (bench.window.position, bench.window.acked_ranges(10)) == (1, [])
    assert bench.dispatcher.next_due == float("inf")
    bench.dispatcher.load(0, 4, 100, 0, None)
    assert bench.all() == [Given("a", [1, 2, 3])]
    bench.dispatcher.restart(50)
    bench.load(1)
    assert bench.all() == [Given("a", [50])]


def test_a_delivery_of_a_topic_that_is_not_reliable_is_done_with() -> None:
    for type_ in SubscriptionType:
        bench = Bench(type_, reliable=False)
        a = bench.join("a")
        bench.load(3)
        assert bench.all() == [Given("a", [0, 1, 2])]
        assert bench.window.position == 3 and len(bench.window) == 0
        bench.nack(a, 0)
        bench.ack(a, 1)
        bench.leave(a)
        bench.join("b")
        bench.wait(100)
        assert bench.all() == []
        assert bench.dispatcher.counters.delivered == 3


spans = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda s: (s[0], s[0] + s[1]))


def members(ranges: RangeSet) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


def model(added: list[tuple[int, int]]) -> set[int]:
    return {offset for first, last in added for offset in range(first, last + 1)}


@given(st.lists(spans, max_size=12))
def test_a_range_set_holds_what_was_added(added: list[tuple[int, int]]) -> None:
    ranges = RangeSet(added)
    assert members(ranges) == model(added)


@given(st.lists(spans, max_size=12))
def test_its_ranges_rise_and_neither_overlap_nor_touch(added: list[tuple[int, int]]) -> None:
    ranges = list(RangeSet(added))
    assert all(first <= last for first, last in ranges)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(ranges))
    assert len(RangeSet(added)) == len(ranges)


@given(st.lists(spans, max_size=12), st.integers(0, 80), st.integers(1, 30))
def test_its_mask_selects_the_members(added: list[tuple[int, int]], base: int, count: int) -> None:
    mask = RangeSet(added).mask(base, count)
    wanted = model(added)
    assert selection.indices(mask) == [i for i in range(count) if base + i in wanted]


@given(st.lists(spans, max_size=12), st.integers(0, 80))
def test_the_end_of_a_run_is_the_first_offset_that_is_missing(
    added: list[tuple[int, int]], offset: int
) -> None:
    wanted = model(added)
    missing = next(o for o in range(offset, 200) if o not in wanted)
    assert RangeSet(added).end_of_run(offset) == missing


@given(st.lists(spans, max_size=12), st.integers(0, 80))
def test_what_is_below_is_dropped(added: list[tuple[int, int]], offset: int) -> None:
    ranges = RangeSet(added)
    ranges.drop_below(offset)
    assert members(ranges) == {o for o in model(added) if o >= offset}
    ranges.clear()
    assert len(ranges) == 0 and list(ranges) == []


@given(st.lists(spans, max_size=30), st.integers(1, 4))
def test_a_full_set_forgets_but_never_invents(added: list[tuple[int, int]], limit: int) -> None:
    ranges = RangeSet(limit=limit)
    for first, last in added:
        ranges.add(first, last)
        assert len(ranges) <= limit
    assert members(ranges) <= model(added)


def test_a_full_set_still_grows_at_its_edges() -> None:
    ranges = RangeSet([(10, 10), (20, 20)], limit=2)
    ranges.add(30, 30)
    ranges.add(11, 15)
    ranges.add(19, 19)
    assert list(ranges) == [(10, 15), (19, 20)]
    ranges.add(16, 18)
    ranges.add(30, 30)
    assert list(ranges) == [(10, 20), (30, 30)]


KEYS = [f"key-{number}" for number in range(40)]
ROOMY = SubscriptionLimits(frames=10_000)


def calls(work: Callable[[], object]) -> int:
    """How many functions, Python's own included, ``work`` calls."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("type_", SubscriptionType)
def test_a_frame_costs_the_same_however_many_are_in_flight(type_: SubscriptionType) -> None:
    costs: list[int] = []
    for others in (10, 3_000):
        bench = Bench(type_, limits=ROOMY)
        a = bench.join("a")
        for _ in range(others):
            bench.load(100)
        bench.all()

        def one_frame(bench: Bench = bench) -> None:
            assert bench.hungry()
            bench.dispatcher.tick(bench.now)
            bench.load(100)
            assert bench.one() is not None
            assert bench.one() is None

        def one_ack(bench: Bench = bench, number: int = a.number) -> None:
            first = bench.window.position
            bench.dispatcher.ack(number, first, first + 99, None, bench.now)

        one_frame()
        one_ack()
        costs.append(calls(one_frame) + calls(one_ack))
    assert costs[1] == costs[0] <= 150


def test_a_stuck_consumer_of_keys_does_not_slow_the_others() -> None:
    costs: list[int] = []
    for stuck_frames in (10, 2_000):
        bench = Bench(SubscriptionType.KEY_SHARED, limits=ROOMY)
        stuck, quick = bench.join("stuck"), bench.join("quick")
        stuck.writable = False
        for _ in range(stuck_frames):
            bench.load_keys(*KEYS)
            bench.all()
        assert bench.window.ready_count == stuck_frames

        def one_frame(bench: Bench = bench, number: int = quick.number) -> None:
            base = bench.load_keys(*KEYS)
            assert bench.one() is not None
            bench.dispatcher.ack(number, base, base + 39, None, bench.now)
            assert bench.one() is None

        one_frame()
        costs.append(calls(one_frame))
    assert costs[1] <= costs[0] + 5


def test_a_record_that_fails_costs_the_same_however_many_wait() -> None:
    costs: list[int] = []
    for waiting in (10, 2_000):
        bench = Bench(SubscriptionType.SHARED, limits=ROOMY)
        a = bench.join("a")
        for _ in range(waiting):
            bench.load(5)
        bench.all()
        for number in range(waiting):
            bench.nack(a, number * 5, delay_ms=30_000)
        bench.load(5)
        bench.all()

        def fail_once(
            bench: Bench = bench, a: AttachedConsumer = a, base: int = waiting * 5
        ) -> None:
            bench.nack(a, base)
            bench.wait(1)
            assert bench.one() is not None

        costs.append(calls(fail_once))
    assert costs[1] <= costs[0] + 20


def test_a_consumer_with_very_many_records_in_flight_leaves_in_one_go() -> None:
    costs: list[int] = []
    for flights in (500, 5_000):
        bench = Bench(SubscriptionType.SHARED)
        a = bench.join("a", records=0)
        bench.load(flights)
        for _ in range(flights):
            bench.grant(a, 1)
            assert bench.one() is not None
        costs.append(calls(lambda bench=bench, a=a: bench.leave(a)))  # type: ignore[misc]
    assert costs[1] < 12 * costs[0]


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    unsent=st.integers(0, 3),
    first=st.sets(st.integers(0, 40)),
    then=st.sets(st.integers(0, 40)),
)
def test_acknowledgements_in_one_change_do_what_single_ones_do(
    counts: list[int], unsent: int, first: set[int], then: set[int]
) -> None:
    benches = [Bench(SubscriptionType.SHARED) for _ in range(2)]
    for bench in benches:
        bench.join("a")
        for count in counts:
            bench.load(count)
        bench.all()
        for _ in range(unsent):
            bench.load(2)
    single, merged = benches
    a = next(iter(single.dispatcher.members.values()))
    for offsets in (first, then):
        before = single.dispatcher.in_flight(a.number)
        single.ack(a, *offsets)
        landed = merged.dispatcher.ack_ranges(runs(offsets), merged.now)
        assert sum(landed.values()) == before - single.dispatcher.in_flight(a.number)
        for state in (
            lambda bench: bench.window.position,
            lambda bench: bench.window.acked_ranges(100),
            lambda bench: bench.window.records,
            lambda bench: [each.base for each in bench.window.in_order()],
            lambda bench: [each.base for each in bench.window.ready()],
            lambda bench: bench.dispatcher.counters.acknowledged,
            lambda bench: bench.dispatcher.in_flight(a.number),
        ):
            assert state(single) == state(merged)


@given(st.lists(st.integers(0, 30)))
def test_runs_hold_every_offset_once_and_do_not_touch(offsets: list[int]) -> None:
    found = runs(offsets)
    assert [n for low, high in found for n in range(low, high + 1)] == sorted(set(offsets))
    assert all(one[1] + 1 < other[0] for one, other in pairwise(found))
