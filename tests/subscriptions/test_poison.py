"""Records that fail too often: how long they wait, and whether they are kept, dropped or moved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.dead_letters import DeadLetter
from sulina.errors import Refused
from sulina.model import Backoff, FailurePolicy, Poison, SubscriptionType
from tests.subscriptions.harness import POLICY, Bench, Given

exclusive = SubscriptionType.EXCLUSIVE
shared = SubscriptionType.SHARED
LONGEST = POLICY.max_redelivery_delay_ms / 1000


def bench_with(poison: Poison, type_: SubscriptionType = exclusive) -> Bench:
    topic = "/default/dead" if poison is Poison.DEAD_LETTER else ""
    policy = replace(
        POLICY, poison=poison, dead_letter_topic=topic, backoff=Backoff.FIXED, ack_timeout_ms=0
    )
    return Bench(type_, policy=policy)


def fail(bench: Bench, member: AttachedConsumer, offset: int, times: int) -> None:
    """Deliver and refuse a record so many times."""
    for _ in range(times):
        bench.all()
        bench.nack(member, offset)
        bench.wait(1)


def failed(
    poison: Poison,
    *,
    type_: SubscriptionType = exclusive,
    records: int = 1,
    offset: int = 0,
    times: int = 3,
) -> tuple[Bench, AttachedConsumer]:
    """A bench with a frame, of which the only consumer refused a record so many times."""
    bench = bench_with(poison, type_)
    a = bench.join("a")
    bench.load(records)
    fail(bench, a, offset, times)
    return bench, a


@pytest.mark.parametrize("type_", SubscriptionType)
def test_a_poisonous_record_is_dropped(type_: SubscriptionType) -> None:
    bench, a = failed(Poison.DROP, type_=type_, records=2, times=2)
    assert bench.all() == [Given("a", [0], attempt=3)]
    bench.nack(a, 0)
    assert bench.dispatcher.counters.dropped == 1
    assert bench.window.position == 1
    bench.ack(a, 1)
    assert len(bench.window) == 0


def test_a_record_that_times_out_too_often_is_dropped_too() -> None:
    bench = Bench(exclusive, policy=replace(POLICY, poison=Poison.DROP))
    bench.join("a")
    bench.load()
    for attempt in (1, 2, 3):
        assert bench.all() == [Given("a", [0], attempt)]
        bench.wait(10)
    assert bench.window.position == 1
    assert bench.dispatcher.counters.dropped == 1


def test_a_poisonous_record_goes_to_the_dead_letter_topic_and_then_is_done() -> None:
    bench, a = failed(Poison.DEAD_LETTER, records=3, offset=1)
    (letter,) = bench.dispatcher.dead_letters
    assert letter == DeadLetter(0, 0b010, 3, "could not")
    bench.ack(a, 0, 2)
    assert bench.window.position == 1, "not before it is safely published"
    assert bench.all() == []
    bench.dispatcher.dead_letter_stored(letter)
    assert bench.window.position == 3 and len(bench.window) == 0
    assert bench.dispatcher.counters.dead_lettered == 1


def test_a_dead_letter_that_can_not_be_published_is_tried_again_later() -> None:
    bench, a = failed(Poison.DEAD_LETTER)
    letter = bench.dispatcher.dead_letters.pop()
    bench.dispatcher.dead_letter_failed(letter, bench.now)
    (loaded,) = bench.window.frames.values()
    assert not loaded.dead
    assert bench.dispatcher.next_due == bench.now + LONGEST
    bench.wait(LONGEST)
    assert bench.all() == [Given("a", [0], attempt=4)]
    bench.nack(a, 0)
    bench.dispatcher.dead_letter_stored(bench.dispatcher.dead_letters.pop())
    assert bench.window.position == 1


def test_a_dead_letter_may_be_acknowledged_while_it_is_being_published() -> None:
    for outcome in ("dead_letter_stored", "not dead_letter_stored"):
        bench, a = failed(Poison.DEAD_LETTER, records=2)
        letter = bench.dispatcher.dead_letters.pop()
        bench.ack(a, 0)
        if outcome == "dead_letter_stored":
            bench.dispatcher.dead_letter_stored(letter)
        else:
            bench.dispatcher.dead_letter_failed(letter, bench.now)
        bench.wait(2 * LONGEST)
        assert bench.all() == []
        assert bench.window.position == 1
        assert bench.dispatcher.counters.dead_lettered == 0


def test_a_dead_letter_of_before_a_seek_changes_nothing() -> None:
    bench, _ = failed(Poison.DEAD_LETTER)
    (letter,) = bench.dispatcher.dead_letters
    bench.dispatcher.restart(0)
    assert bench.dispatcher.dead_letters == []
    bench.dispatcher.dead_letter_stored(letter)
    bench.dispatcher.dead_letter_failed(letter, bench.now)
    bench.load()
    bench.dispatcher.dead_letter_stored(letter)
    bench.dispatcher.dead_letter_failed(letter, bench.now)
    assert bench.all() == [Given("a", [0])]
    assert bench.window.position == 0


# ---- block ----


def test_a_poisonous_record_that_is_kept_comes_again_at_the_longest_delay() -> None:
    bench, a = failed(Poison.BLOCK, times=2)
    for attempt in (3, 4, 5, 6):
        assert bench.all() == [Given("a", [0], attempt)]
        bench.nack(a, 0)
        bench.wait(LONGEST - 0.001)
        assert bench.all() == []
        bench.wait(0.001)


def test_in_order_a_poisonous_record_holds_back_what_follows() -> None:
    bench = bench_with(Poison.BLOCK)
    a = bench.join("a", records=1)
    bench.load()
    bench.load()
    for attempt in (1, 2, 3):
        assert bench.all() == [Given("a", [0], attempt)]
        bench.nack(a, 0)
        bench.wait(1)
        bench.grant(a, 1)
    bench.grant(a, 100)
    assert bench.all() == [] and not bench.hungry()
    bench.wait(LONGEST)
    assert bench.all() == [Given("a", [0], attempt=4)]
    assert bench.all() == [] and not bench.hungry()
    bench.ack(a, 0)
    assert bench.hungry()
    assert bench.all() == [Given("a", [1])]


def test_a_poisonous_record_does_not_hold_back_what_comes_before_it() -> None:
    bench = bench_with(Poison.BLOCK)
    a = bench.join("a")
    bench.load(2)
    bench.load(1)
    fail(bench, a, 1, times=3)
    bench.leave(a)
    b = bench.join("b")
    assert bench.all() == [Given("b", [0])], "2 follows the poisonous 1, but 0 does not"
    bench.ack(b, 0)
    assert bench.window.position == 1
    bench.wait(LONGEST)
    assert bench.all() == [Given("b", [1], attempt=4)]
    bench.ack(b, 1)
    assert bench.all() == [Given("b", [2])]


def test_without_order_a_poisonous_record_holds_nothing_back() -> None:
    bench, _ = failed(Poison.BLOCK, type_=shared)
    bench.load()
    assert bench.hungry()
    assert bench.all() == [Given("a", [1])]


def test_a_seek_ends_the_blocking() -> None:
    bench, _ = failed(Poison.BLOCK)
    assert not bench.hungry()
    bench.dispatcher.restart(1)
    assert bench.hungry()
    bench.load()
    assert bench.all() == [Given("a", [1])]


# ---- halt ----


@pytest.mark.parametrize("type_", [exclusive, SubscriptionType.FAILOVER, shared])
def test_a_record_that_halts_a_subscription_is_not_delivered_again_nor_what_follows(
    type_: SubscriptionType,
) -> None:
    bench, a = failed(Poison.HALT, type_=type_)
    bench.load(2)
    bench.wait(100 * LONGEST)
    assert bench.all() == [] and not bench.hungry()
    assert bench.dispatcher.halted_at == 0
    bench.leave(a)
    b = bench.join("b")
    assert bench.all() == [], "another consumer does not change that"
    bench.ack(b, 0)
    assert bench.all() == [Given("b", [1, 2])]


def test_what_is_in_flight_behind_a_halted_record_is_still_retried() -> None:
    bench, a = failed(Poison.HALT, records=2)
    bench.nack(a, 1)
    bench.wait(1)
    assert bench.all() == [Given("a", [1], attempt=2)]


def test_a_record_that_halts_a_key_shared_subscription_holds_back_its_key_alone() -> None:
    bench = bench_with(Poison.HALT, SubscriptionType.KEY_SHARED)
    a = bench.join("a")
    bench.load_keys("bad")
    fail(bench, a, 0, times=3)
    bench.load_keys("good", "bad", "good")
    bench.wait(100 * LONGEST)
    assert bench.all() == [Given("a", [1, 3])]


@pytest.mark.parametrize("poison", [Poison.HALT, Poison.DROP])
def test_a_new_policy_delivers_what_was_halted_once_more(poison: Poison) -> None:
    bench, a = failed(Poison.HALT, records=1)
    bench.with_policy(poison=poison)
    bench.wait(0)
    assert bench.all() == [Given("a", [0], attempt=4)]
    bench.nack(a, 0)
    assert (bench.dispatcher.halted_at is None) is (poison is Poison.DROP)
    assert bench.all() == []


def test_no_redelivery_at_all_is_a_policy_too() -> None:
    bench = bench_with(Poison.DROP).with_policy(max_redelivery_count=0, poison=Poison.DROP)
    a = bench.join("a")
    bench.load()
    bench.all()
    bench.nack(a, 0)
    assert bench.window.position == 1


def test_exponential_delays_double_up_to_the_longest() -> None:
    policy = FailurePolicy(base_redelivery_delay_ms=1_000, max_redelivery_delay_ms=10_000)
    delays = [policy.delay_ms(attempt) for attempt in range(1, 7)]
    assert delays == [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]


def test_fixed_delays_stay_the_same() -> None:
    policy = FailurePolicy(base_redelivery_delay_ms=1_000, backoff=Backoff.FIXED)
    assert [policy.delay_ms(attempt) for attempt in (1, 2, 50)] == [1_000] * 3


@given(st.integers(0, 10**9), st.integers(0, 1 << 64))
def test_a_delay_is_never_shorter_than_the_base_nor_longer_than_the_longest(
    attempt: int, requested: int
) -> None:
    policy = FailurePolicy(base_redelivery_delay_ms=50, max_redelivery_delay_ms=5_000)
    delay = policy.delay_ms(attempt, requested)
    assert 50 <= delay <= 5_000
    assert delay >= min(requested, 5_000)


def test_a_dead_letter_policy_needs_a_topic() -> None:
    with pytest.raises(Refused, match="dead_letter_topic"):
        FailurePolicy(poison=Poison.DEAD_LETTER)
    FailurePolicy(poison=Poison.DEAD_LETTER, dead_letter_topic="/default/dead")


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_redelivery_delay_ms": 2_000, "max_redelivery_delay_ms": 1_000},
        {"max_redelivery_count": -1},
        {"ack_timeout_ms": -1},
        {"base_redelivery_delay_ms": -1},
        {"base_redelivery_delay_ms": -2, "max_redelivery_delay_ms": -1},
    ],
    ids=str,
)
def test_policies_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(Refused):
        FailurePolicy(**wrong)  # type: ignore[arg-type]
