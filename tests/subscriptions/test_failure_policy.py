"""How long a record waits before it comes again, and which policies make no sense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sulina.errors import Refused
from sulina.model import Backoff, FailurePolicy, Poison


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
