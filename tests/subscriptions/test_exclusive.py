"""Exclusive and Failover: one consumer at a time receives everything, in order."""

from __future__ import annotations

import pytest

from broker_containers.subscriptions.selectors import SingleConsumerSelector
from sulina.errors import Refused
from sulina.model import SubscriptionType
from tests.subscriptions.harness import Bench, Given, in_flight

BOTH = [SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER]
exclusive = SubscriptionType.EXCLUSIVE
failover = SubscriptionType.FAILOVER


@pytest.mark.parametrize("type_", BOTH)
def test_whole_frames_are_delivered_in_order(type_: SubscriptionType) -> None:
    bench = Bench(type_)
    bench.join("a")
    for count in (3, 1, 2):
        bench.load(count)
    assert bench.all() == [Given("a", [0, 1, 2]), Given("a", [3]), Given("a", [4, 5])]


def test_a_second_consumer_is_refused_and_told_who_is_there() -> None:
    bench = Bench(exclusive)
    first = bench.join("a")
    with pytest.raises(Refused, match="'a' uses it"):
        bench.join("b")
    assert list(bench.dispatcher.members) == [first.number]
    bench.leave(first)
    bench.join("b")


def test_the_same_name_takes_over_with_what_was_in_flight() -> None:
    bench = Bench(exclusive)
    bench.join("a")
    bench.load(3)
    assert bench.all() == [Given("a", [0, 1, 2])]
    ear = bench.ears["a"]
    again = bench.join("a")
    assert isinstance(ear.closed_for, Refused)
    assert bench.all() == [Given("a", [0, 1, 2])]
    bench.ack_range(again, 0, 2)
    assert bench.window.position == 3


@pytest.mark.parametrize("type_", BOTH)
def test_what_was_in_flight_comes_to_the_next_consumer_as_it_was_and_in_order(
    type_: SubscriptionType,
) -> None:
    bench, first = in_flight(Bench(type_), 3, 3)
    bench.ack(first, 1)
    bench.leave(first)
    bench.join("b")
    assert bench.all() == [Given("b", [0, 2]), Given("b", [3, 4, 5])]


def test_records_that_failed_and_others_come_to_the_next_consumer_in_order() -> None:
    bench, first = in_flight(Bench(exclusive), 4)
    bench.nack(first, 1, 2)
    bench.wait(2)
    assert bench.all() == [Given("a", [1, 2], attempt=2)]
    bench.leave(first)
    bench.join("b")
    assert bench.all() == [Given("b", [0]), Given("b", [1, 2], attempt=2), Given("b", [3])]


def test_a_frame_is_not_cut_to_crumbs_for_the_sake_of_order() -> None:
    bench, first = in_flight(Bench(exclusive), 10_000)
    even = range(0, 10_000, 2)
    mask = sum(1 << offset for offset in even)
    bench.dispatcher.nack(first.number, 0, 9_999, mask, 0, "could not", bench.now)
    bench.wait(2)
    bench.all()
    bench.leave(first)
    bench.join("b")
    given = bench.all()
    assert len(given) <= 66
    assert sorted(offset for each in given for offset in each.offsets) == list(range(10_000))


def test_the_standby_receives_nothing_until_it_is_promoted_and_is_told_so() -> None:
    bench = Bench(failover)
    active, standby = bench.join("a"), bench.join("b")
    bench.join("c")
    assert bench.dispatcher.is_active(active) and not bench.dispatcher.is_active(standby)
    bench.load(2)
    bench.load(2)
    assert bench.all() == [Given("a", [0, 1]), Given("a", [2, 3])]
    bench.ack(active, 0)
    bench.leave(active)
    assert bench.dispatcher.is_active(standby)
    assert [bench.ears[name].active for name in "abc"] == [[], [True], []]
    assert bench.all() == [Given("b", [1]), Given("b", [2, 3])]


def test_a_standby_that_leaves_changes_nothing() -> None:
    bench = Bench(failover)
    active, standby = bench.join("a"), bench.join("b")
    bench.join("c")
    bench.leave(standby)
    assert bench.dispatcher.is_active(active)
    assert bench.ears["a"].active == bench.ears["c"].active == []


def test_the_credit_of_a_standby_does_not_make_frames_load() -> None:
    bench = Bench(failover)
    active = bench.join("a", records=1)
    bench.join("b")
    bench.load()
    bench.all()
    assert not bench.hungry()
    bench.leave(active)
    assert bench.hungry()


def test_key_filters_are_refused() -> None:
    for type_ in (*BOTH, SubscriptionType.SHARED):
        with pytest.raises(Refused, match="key_shared"):
            Bench(type_).join("a", filters=("x*",))


def test_leaving_twice_or_as_a_stranger_does_nothing() -> None:
    bench = Bench(exclusive)
    member = bench.join("a")
    bench.leave(member)
    bench.leave(member)
    bench.dispatcher.leave(99)
    bench.dispatcher.grant(99, 1, 1, 0.0)
    bench.join("b")


def test_the_active_consumer_stays_active_when_its_name_comes_again() -> None:
    bench = Bench(failover)
    bench.join("a")
    bench.join("b")
    again = bench.join("a")
    assert bench.dispatcher.is_active(again)
    assert bench.ears["b"].active == [], "the standby is not disturbed"
    bench.load()
    assert bench.all() == [Given("a", [0])]


def test_a_standby_keeps_its_place_when_its_name_comes_again() -> None:
    bench = Bench(failover)
    first = bench.join("a")
    bench.join("b")
    third = bench.join("c")
    second = bench.join("b")
    bench.leave(first)
    assert bench.dispatcher.is_active(second)
    bench.leave(second)
    assert bench.dispatcher.is_active(third)


def test_who_comes_back_stands_before_those_who_came_after_it_and_takes_nothing_away() -> None:
    bench = Bench(failover)
    first = bench.join("a")
    second = bench.join("b")
    third = bench.join("c")
    bench.leave(first)
    assert bench.dispatcher.is_active(second)
    first = bench.join("a")
    assert bench.dispatcher.is_active(second), "each change means that records come again"
    bench.leave(second)
    assert bench.dispatcher.is_active(first) and not bench.dispatcher.is_active(third)
    assert bench.ears["a"].active == [True]


def test_places_of_the_absent_are_remembered_up_to_a_bound() -> None:
    bench = Bench(failover)
    active = bench.join("active")
    for number in range(1_100):
        bench.leave(bench.join(f"passing {number}"))
    bench.join("new")
    late = bench.join("passing 1099")
    bench.leave(active)
    assert bench.dispatcher.is_active(late)
    selector = bench.dispatcher._selector
    assert isinstance(selector, SingleConsumerSelector)
    assert len(selector._places) <= 1_000
