"""Trying again: how often, for how long, and what not."""

from __future__ import annotations

import random

import pytest

from sulina.client.retry import may_retry, retry
from sulina.errors import Fenced, NotFound, Overloaded, Refused, Unavailable, UnknownOutcome
from sulina.runtime.retry_delay import FIRST_DELAY, LONGEST_DELAY, RetryDelay
from tests.client.bench import Bench


def test_pauses_grow_and_stay_within_bounds() -> None:
    backoff = RetryDelay(random.Random(1))
    delays = [backoff.next() for _ in range(20)]
    assert FIRST_DELAY / 2 <= delays[0] <= FIRST_DELAY
    assert all(delay <= LONGEST_DELAY for delay in delays)
    assert all(delay >= LONGEST_DELAY / 2 for delay in delays[10:])
    backoff.reset()
    assert backoff.next() <= FIRST_DELAY


def test_what_is_refused_is_not_tried_again() -> None:
    assert may_retry(Unavailable("x"))
    assert may_retry(Overloaded("x"))
    assert may_retry(Fenced("x"))
    assert may_retry(UnknownOutcome("x"))
    assert not may_retry(Refused("x"))
    assert not may_retry(NotFound("x"))


async def test_the_first_success_counts(bench: Bench) -> None:
    calls = 0

    async def attempt() -> str:
        nonlocal calls
        calls += 1
        if calls < 4:
            raise Overloaded("busy")
        return "done"

    assert await bench.eventually(retry(bench.runtime, 30, attempt)) == "done"
    assert calls == 4


async def test_a_refusal_is_raised_at_once(bench: Bench) -> None:
    async def attempt() -> None:
        raise NotFound("no such topic")

    with pytest.raises(NotFound):
        await retry(bench.runtime, 30, attempt)


async def test_when_time_is_up_the_last_error_is_raised(bench: Bench) -> None:
    async def attempt() -> None:
        raise Overloaded("still busy")

    began = bench.clock.now()
    with pytest.raises(Overloaded, match="still busy"):
        await bench.eventually(retry(bench.runtime, 30, attempt))
    assert bench.clock.now() - began == pytest.approx(30, abs=1)


async def test_an_attempt_that_hangs_is_cancelled(bench: Bench) -> None:
    async def attempt() -> None:
        await bench.clock.sleep(1e6)

    with pytest.raises(Unavailable):
        await bench.eventually(retry(bench.runtime, 5, attempt))
