"""Shared subscriptions: consumers take turns, within their credit and the limits on loading."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.subscriptions.limits import SubscriptionLimits
from sulina.model import SubscriptionType
from tests.subscriptions.harness import PLENTY, POLICY, Bench, Given

shared = SubscriptionType.SHARED


def test_frames_of_one_record_go_to_each_consumer_in_turn() -> None:
    bench = Bench(shared)
    for name in "abc":
        bench.join(name)
    for _ in range(36):
        bench.load()
    given_ = bench.all()
    assert [each.to for each in given_] == list("abc") * 12
    assert [each.offsets for each in given_] == [[offset] for offset in range(36)]


def test_turns_are_strict_also_when_frames_are_loaded_one_by_one() -> None:
    bench = Bench(shared)
    for name in "abc":
        bench.join(name)
    taken: list[str] = []
    for _ in range(36):
        bench.load()
        taken += [each.to for each in bench.all()]
    assert taken == list("abc") * 12


def test_turns_stay_even_when_a_consumer_leaves_and_another_joins() -> None:
    bench = Bench(shared)
    members = {name: bench.join(name) for name in "abc"}

    def order(frames: int) -> str:
        for _ in range(frames):
            bench.load()
        return "".join(each.to for each in bench.all())

    assert order(4) == "abca"
    bench.leave(members["b"])
    bench.window.settle_range(0, 3)
    assert order(4) == "caca"
    assert order(1) == "c"
    bench.join("d")
    assert Counter(order(9)) == Counter("acdacdacd")
    assert order(2) == "ac"
    bench.window.settle_range(4, 19)
    bench.leave(members["a"])
    assert order(2) == "dc"


def test_a_large_frame_is_cut_into_even_parts_for_consumers_who_wait() -> None:
    bench = Bench(shared)
    for name in "abc":
        bench.join(name)
    bench.load(1000)
    assert [(each.to, len(each.offsets)) for each in bench.all()] == [
        ("a", 334),
        ("b", 334),
        ("c", 332),
    ]


def test_frames_stay_whole_when_there_are_enough_for_all() -> None:
    bench = Bench(shared)
    for name in "abc":
        bench.join(name)
    for _ in range(6):
        assert bench.dispatcher.wants_ahead == (bench.window.ready_count < 3)
        bench.load(10)
    given_ = [bench.one() for _ in range(4)]
    assert [each and len(each.offsets) for each in given_] == [10] * 4


def test_a_consumer_without_credit_is_passed_over_and_not_waited_for() -> None:
    bench = Bench(shared)
    bench.join("a")
    idle = bench.join("b", records=0)
    for _ in range(4):
        bench.load(5)
    assert [each.to for each in bench.all()] == ["a"] * 4
    bench.grant(idle, 5)
    bench.load(5)
    assert not bench.dispatcher.wants_ahead or bench.window.ready_count < 2


def test_the_credit_in_records_is_kept_exactly() -> None:
    bench = Bench(shared)
    a, b = bench.join("a", records=3), bench.join("b", records=4)
    bench.load(10)
    assert bench.all() == [Given("a", [0, 1, 2]), Given("b", [3, 4, 5, 6])]
    assert (a.records, b.records) == (0, 0)
    assert not bench.hungry()
    bench.grant(a, 2)
    assert bench.all() == [Given("a", [7, 8])]
    bench.grant(b, 10)
    assert bench.all() == [Given("b", [9])]
    assert b.records == 9


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=5),
    st.lists(st.integers(1, 40), max_size=10),
)
def test_nobody_gets_more_than_its_credit_and_nothing_is_left_while_there_is_some(
    credit: list[int], frames: list[int]
) -> None:
    bench = Bench(shared)
    for number, records in enumerate(credit):
        bench.join(str(number), records=records)
    for count in frames:
        bench.load(count)
    got: Counter[str] = Counter()
    offsets: list[int] = []
    for each in bench.all():
        got[each.to] += len(each.offsets)
        offsets += each.offsets
    assert all(got[str(number)] <= records for number, records in enumerate(credit))
    assert sorted(offsets) == list(range(min(sum(credit), sum(frames))))


def test_bytes_count_for_every_part_since_the_whole_frame_is_sent() -> None:
    bench = Bench(shared)
    a = bench.join("a", bytes_=150)
    b = bench.join("b", bytes_=50)
    bench.load(10, size=100)
    assert [(each.to, len(each.offsets)) for each in bench.all()] == [("a", 5), ("b", 5)]
    assert (a.bytes, b.bytes) == (50, -50)
    bench.load(10, size=100)
    assert [(each.to, len(each.offsets)) for each in bench.all()] == [("a", 10)]
    bench.load(10, size=100)
    assert bench.all() == []
    bench.grant(b, 0, bytes_=50)
    assert bench.all() == []
    bench.grant(b, 0, bytes_=1)
    assert [(each.to, len(each.offsets)) for each in bench.all()] == [("b", 10)]


def test_a_consumer_that_can_not_be_written_to_is_passed_over() -> None:
    bench = Bench(shared)
    bench.join("a").writable = False
    bench.join("b")
    bench.load()
    bench.load()
    assert [each.to for each in bench.all()] == ["b", "b"]


def test_what_failed_comes_again_to_whoever_has_the_turn() -> None:
    bench = Bench(shared)
    a = bench.join("a")
    bench.join("b")
    bench.load()
    bench.load()
    assert bench.all() == [Given("a", [0]), Given("b", [1])]
    bench.nack(a, 0)
    assert bench.all() == []
    bench.wait(2)
    assert bench.all() == [Given("a", [0], attempt=2)]
    bench.leave(a)
    assert bench.all() == [Given("b", [0], attempt=2)]


def test_a_consumer_with_all_the_credit_takes_everything_when_it_is_alone() -> None:
    bench = Bench(shared)
    bench.join("a", records=PLENTY)
    bench.load(1000)
    assert [len(each.offsets) for each in bench.all()] == [1000]


exclusive = SubscriptionType.EXCLUSIVE


@pytest.mark.parametrize("type_", SubscriptionType)
def test_nothing_is_delivered_without_credit(type_: SubscriptionType) -> None:
    bench = Bench(type_)
    a = bench.join("a", records=0)
    assert not bench.hungry()
    bench.load()
    assert bench.all() == []
    bench.grant(a, 1, bytes_=0)
    assert bench.all() == []
    bench.grant(a, 0, bytes_=1)
    assert len(bench.all()) == 1


def test_a_frame_may_exceed_the_credit_but_then_the_next_waits_until_it_is_made_up() -> None:
    bench = Bench(exclusive)
    a = bench.join("a", records=3)
    bench.load(10)
    bench.load(1)
    assert len(bench.all()) == 1
    assert a.records == -7
    bench.grant(a, 7)
    assert bench.all() == [] and not bench.hungry()
    bench.grant(a, 1)
    assert len(bench.all()) == 1


def test_a_frame_may_exceed_the_credit_in_bytes_once() -> None:
    bench = Bench(exclusive)
    a = bench.join("a", bytes_=100)
    bench.load(1, size=5_000)
    bench.load(1, size=10)
    assert len(bench.all()) == 1
    assert a.bytes == -4_900
    bench.grant(a, 0, bytes_=4_901)
    assert len(bench.all()) == 1


def test_a_subscription_loads_no_more_frames_than_it_may() -> None:
    bench = Bench(exclusive, limits=SubscriptionLimits(frames=3))
    a = bench.join("a")
    for _ in range(3):
        assert bench.hungry()
        bench.load(2)
    assert not bench.hungry()
    bench.all()
    bench.ack_range(a, 2, 2)
    assert not bench.hungry()
    bench.ack_range(a, 3, 3)
    assert bench.hungry()


def test_a_subscription_loads_no_more_records_than_it_may() -> None:
    bench = Bench(exclusive, limits=SubscriptionLimits(records=10))
    a = bench.join("a")
    bench.load(9)
    assert bench.hungry()
    bench.load(9)
    assert not bench.hungry()
    bench.all()
    bench.ack_range(a, 0, 8)
    assert bench.hungry()


def test_without_consumers_nothing_is_loaded() -> None:
    for type_ in SubscriptionType:
        bench = Bench(type_)
        assert not bench.hungry() and not bench.dispatcher.wants_ahead
        bench.load(5)
        assert bench.all() == []


def test_one_record_that_is_never_acknowledged_does_not_fill_the_window() -> None:
    bench = Bench(exclusive, limits=SubscriptionLimits(frames=10, records=100))
    a = bench.join("a")
    for _ in range(1_000):
        assert bench.hungry()
        base = bench.load(5)
        bench.all()
        bench.ack_range(a, max(base, 1), base + 4)
    assert bench.window.position == 0
    assert bench.window.acked_ranges(10) == [(1, 4_999)]
    assert len(bench.window) == 1


@pytest.mark.parametrize("type_", SubscriptionType)
def test_no_more_is_unacknowledged_than_the_subscription_allows(type_: SubscriptionType) -> None:
    bench = Bench(type_)
    bench.dispatcher.max_unacked = 3
    a = bench.join("a")
    bench.load(5)
    assert [given.offsets for given in bench.all()] == [[0, 1, 2]]
    assert bench.all() == [] and not bench.hungry()
    bench.ack(a, 1)
    assert [given.offsets for given in bench.all()] == [[3]]
    bench.nack(a, 0)
    assert [given.offsets for given in bench.all()] in ([[4]], [])  # a key waits for its own
    bench.wait(POLICY.base_redelivery_delay_ms / 1000)
    bench.all()
    bench.ack_range(a, 0, 4)
    bench.all()
    bench.ack_range(a, 0, 4)
    assert bench.hungry() and bench.window.position == 5


def test_the_limit_is_for_all_consumers_together_and_free_again_when_one_leaves() -> None:
    bench = Bench(SubscriptionType.SHARED)
    bench.dispatcher.max_unacked = 2
    a, b = bench.join("a"), bench.join("b")
    for _ in range(4):
        bench.load(1)
    assert sorted(given.to for given in bench.all()) == ["a", "b"]
    bench.leave(a)
    assert [(given.to, given.offsets) for given in bench.all()] == [("b", [0])]
    bench.ack(b, 0, 1)
    assert [given.offsets for given in bench.all()] == [[2], [3]]


def test_a_limit_that_is_lowered_holds_when_enough_is_acknowledged() -> None:
    bench = Bench(exclusive)
    a = bench.join("a")
    bench.load(4)
    bench.load(4)
    assert len(bench.all()) == 2
    bench.dispatcher.max_unacked = 2
    bench.load(4)
    bench.ack_range(a, 0, 5)
    assert bench.all() == []
    bench.ack_range(a, 6, 6)
    assert [given.offsets for given in bench.all()] == [[8]]
    bench.dispatcher.max_unacked = 0
    assert [given.offsets for given in bench.all()] == [[9, 10, 11]]


def test_what_is_gone_for_good_is_in_flight_no_more() -> None:
    bench = Bench(exclusive)
    bench.dispatcher.max_unacked = 2
    bench.join("a")
    base = bench.load(2)
    bench.load(2)
    bench.all()
    bench.dispatcher.pass_over(bench.window.frames[base])
    assert [given.offsets for given in bench.all()] == [[2, 3]]
    assert bench.dispatcher.counters.skipped == 2
