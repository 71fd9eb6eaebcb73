"""What the hot paths cost, in calls: the same, however much a subscription has loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.dispatcher import SubscriptionLimits
from sulina.model import SubscriptionType
from tests.subscriptions.harness import Bench

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
    for in_flight in (10, 3_000):
        bench = Bench(type_, limits=ROOMY)
        a = bench.join("a")
        for _ in range(in_flight):
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
