"""Credit and limits: how much a consumer is sent, and how much a subscription loads."""

from __future__ import annotations

import pytest

from broker_containers.subscriptions.dispatcher import SubscriptionLimits
from sulina.model import SubscriptionType
from tests.subscriptions.harness import POLICY, Bench

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
