"""Credit and limits: how much a consumer is sent, and how much a subscription loads."""

from __future__ import annotations

import pytest

from broker_containers.subscriptions.dispatcher import Limits
from sulina.model import SubscriptionType
from tests.subscriptions.harness import Bench

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
    bench = Bench(exclusive, limits=Limits(frames=3))
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
    bench = Bench(exclusive, limits=Limits(records=10))
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
    bench = Bench(exclusive, limits=Limits(frames=10, records=100))
    a = bench.join("a")
    for _ in range(1_000):
        assert bench.hungry()
        base = bench.load(5)
        bench.all()
        bench.ack_range(a, max(base, 1), base + 4)
    assert bench.window.position == 0
    assert bench.window.acked_ranges(10) == [(1, 4_999)]
    assert len(bench.window) == 1
