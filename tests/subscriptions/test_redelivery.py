"""Records that were refused, or not acknowledged in time, come again when they should."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sulina.model import Backoff, SubscriptionType
from tests.subscriptions.harness import POLICY, Bench, Given, in_flight

exclusive = SubscriptionType.EXCLUSIVE
shared = SubscriptionType.SHARED
ACK_TIMEOUT = POLICY.ack_timeout_ms / 1000


# ---- nack ----


@pytest.mark.parametrize("type_", SubscriptionType)
def test_a_refused_record_comes_again_after_its_delay_with_the_next_number(
    type_: SubscriptionType,
) -> None:
    bench, a = in_flight(Bench(type_), 3)
    bench.nack(a, 1)
    assert bench.dispatcher.next_due == 1.0
    bench.wait(0.999)
    assert bench.all() == []
    bench.wait(0.001)
    assert bench.all() == [Given("a", [1], attempt=2)]
    bench.nack(a, 1)
    bench.wait(1.999)
    assert bench.all() == []
    bench.wait(0.001)
    assert bench.all() == [Given("a", [1], attempt=3)]
    assert bench.dispatcher.counters.nacked == 2
    assert bench.dispatcher.counters.redelivered == 2


def test_a_fixed_delay_stays_the_same() -> None:
    bench = Bench(exclusive, policy=replace(POLICY, backoff=Backoff.FIXED))
    a = bench.join("a")
    bench.load()
    for attempt in (1, 2, 3):
        assert bench.all() == [Given("a", [0], attempt)]
        bench.nack(a, 0)
        bench.wait(1)


def test_the_consumer_may_ask_for_a_longer_delay_but_not_for_any() -> None:
    bench, a = in_flight(Bench(exclusive), 3)
    bench.ack(a, 2)
    bench.nack(a, 0, delay_ms=5_000)
    bench.nack(a, 1, delay_ms=10**9)
    bench.wait(4.9)
    assert bench.all() == []
    bench.wait(0.1)
    assert bench.all() == [Given("a", [0], attempt=2)]
    bench.ack(a, 0)
    bench.wait(54.9)
    assert bench.all() == []
    bench.wait(0.1)
    assert bench.all() == [Given("a", [1], attempt=2)]


def test_only_the_consumer_that_has_a_record_can_refuse_it() -> None:
    bench = Bench(shared)
    a, b = bench.join("a"), bench.join("b")
    bench.load()
    assert bench.all() == [Given("a", [0])]
    bench.nack(b, 0)
    bench.wait(5)
    assert bench.all() == []
    assert bench.dispatcher.counters.nacked == 0
    bench.nack(a, 0)
    bench.nack(a, 0)
    assert bench.dispatcher.counters.nacked == 1


def test_a_mask_refuses_scattered_records() -> None:
    bench, a = in_flight(Bench(exclusive), 3, 3)
    bench.dispatcher.nack(a.number, 1, 5, 0b10101, 0, "could not", bench.now)
    bench.wait(1)
    assert bench.all() == [Given("a", [1], 2), Given("a", [3, 5], 2)]


def test_records_refused_within_a_moment_come_again_together_and_none_too_early() -> None:
    bench, a = in_flight(Bench(exclusive), 1_000)
    for offset in range(1_000):
        bench.nack(a, offset)
        bench.now += 0.000_01
    (loaded,) = bench.window.frames.values()
    assert len(loaded.waiting) == 1
    bench.wait(1.0 - 0.000_02)
    assert bench.all() == []
    bench.wait(0.001)
    assert bench.all() == [Given("a", list(range(1_000)), attempt=2)]


def test_a_frame_refused_record_by_record_for_long_costs_little() -> None:
    bench, a = in_flight(Bench(exclusive, policy=replace(POLICY, ack_timeout_ms=0)), 5_000)
    (loaded,) = bench.window.frames.values()
    delays = [1_000, 60_000, 9_000, 30_000]
    for offset in range(5_000):
        bench.nack(a, offset, delay_ms=delays[offset % 4])
        bench.wait(0.013)
        assert len(loaded.waiting) < 400


# ---- acknowledgement time-out ----


@pytest.mark.parametrize("type_", SubscriptionType)
def test_what_is_not_acknowledged_in_time_comes_again_at_once(type_: SubscriptionType) -> None:
    bench, _ = in_flight(Bench(type_), 2)
    assert bench.dispatcher.next_due == ACK_TIMEOUT
    bench.wait(ACK_TIMEOUT - 0.001)
    assert bench.all() == []
    bench.wait(0.001)
    assert bench.all() == [Given("a", [0, 1], attempt=2)]
    assert bench.dispatcher.counters.timed_out == 2


def test_without_a_timeout_nothing_comes_again_by_itself() -> None:
    bench, _ = in_flight(Bench(exclusive, policy=replace(POLICY, ack_timeout_ms=0)), 2)
    assert bench.dispatcher.next_due == float("inf")
    bench.wait(10**9)
    assert bench.all() == []


def test_each_delivery_has_its_own_time() -> None:
    bench, _ = in_flight(Bench(exclusive), 1)
    bench.wait(4)
    bench.load()
    bench.all()
    bench.wait(6)
    assert bench.all() == [Given("a", [0], attempt=2)]
    assert bench.dispatcher.next_due == 14
    bench.wait(4)
    assert bench.all() == [Given("a", [1], attempt=2)]


def test_a_slow_consumer_keeps_what_stands_in_its_queue() -> None:
    bench = Bench(exclusive)
    a = bench.join("a", records=20)
    for _ in range(20):
        bench.load()
    assert len(bench.all()) == 20
    for offset in range(20):  # takes and handles one in 9 seconds: 180 for all
        bench.grant(a, 1)
        bench.wait(9)
        bench.ack(a, offset)
    assert bench.dispatcher.counters.timed_out == 0
    assert bench.window.position == 20


def test_a_stuck_consumer_loses_its_queue() -> None:
    bench = Bench(shared)
    a = bench.join("a", records=5)
    for _ in range(5):
        bench.load()
    bench.all()
    bench.grant(a, 1)  # takes the first, and hangs
    bench.join("b")
    bench.wait(ACK_TIMEOUT)
    bench.wait(ACK_TIMEOUT)
    again = bench.all()
    assert sorted(offset for each in again for offset in each.offsets) == [0, 1, 2, 3, 4]
    assert {each.attempt for each in again} == {2}


def test_the_time_of_a_record_runs_from_when_the_application_took_it() -> None:
    bench = Bench(exclusive)
    a = bench.join("a", records=2)
    bench.load()
    bench.load()
    bench.all()
    bench.wait(9)
    bench.grant(a, 1)  # took the first, 9 seconds after it was sent
    bench.wait(9)
    assert bench.all() == []
    bench.ack(a, 0)
    bench.grant(a, 1)  # took the second, 18 seconds after it was sent
    bench.wait(9.9)
    assert bench.all() == []
    bench.wait(10.1)
    assert bench.all() == [Given("a", [1], attempt=2)]


def test_progress_with_others_does_not_prolong_a_record_that_was_taken_for_ever() -> None:
    bench = Bench(exclusive)
    a = bench.join("a", records=1_000)
    for _ in range(100):
        bench.load()
    bench.all()
    bench.grant(a, 1)  # took the first
    for offset in range(1, 30):
        bench.wait(1)
        bench.grant(a, 1)
        bench.ack(a, offset)
        if bench.dispatcher.counters.timed_out:
            break
    # No sooner than its time, and no later than twice that.
    assert ACK_TIMEOUT <= bench.now <= 2 * ACK_TIMEOUT
    assert bench.all() == [Given("a", [0], attempt=2)]


def test_a_new_policy_counts_for_what_is_in_flight_already() -> None:
    bench, _ = in_flight(Bench(exclusive, policy=replace(POLICY, ack_timeout_ms=0)), 1)
    bench.wait(3)
    bench.dispatcher.policy = replace(POLICY, ack_timeout_ms=5_000)
    bench.wait(1)
    assert bench.dispatcher.next_due == 5
    bench.wait(1)
    assert bench.all() == [Given("a", [0], attempt=2)]
    bench.dispatcher.policy = replace(POLICY, ack_timeout_ms=0)
    bench.wait(1_000)
    assert bench.all() == []


def test_a_consumer_that_leaves_does_not_use_up_an_attempt() -> None:
    bench = Bench(exclusive)
    for name in "abcdefgh":
        member = bench.join(name)
        if name == "a":
            bench.load()
        assert bench.all() == [Given(name, [0], attempt=1)]
        bench.leave(member)
