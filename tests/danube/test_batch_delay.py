"""How long a frame waits for more messages."""

from __future__ import annotations

import pytest

from broker_containers.doors.danube.batch_delay import BatchDelay

STEP = 0.25
MOST = 1.0


@pytest.fixture
def delay() -> BatchDelay:
    return BatchDelay(STEP, MOST)


def test_the_first_message_of_all_waits_for_nobody(delay: BatchDelay) -> None:
    assert not delay.keeps_waiting(1, 5.0)


def test_a_lone_caller_waits_for_nobody(delay: BatchDelay) -> None:
    delay.answered(1, 5.0)
    assert not delay.keeps_waiting(1, 5.1)


def test_a_frame_waits_for_those_who_were_answered_together(delay: BatchDelay) -> None:
    delay.answered(3, 5.0)
    assert delay.keeps_waiting(1, 5.1) and not delay.complete(2)
    assert delay.complete(3) and not delay.keeps_waiting(3, 5.35)


def test_a_frame_waits_only_as_long_as_more_come(delay: BatchDelay) -> None:
    delay.answered(64, 5.0)
    assert delay.keeps_waiting(1, 5.1)
    assert delay.keeps_waiting(7, 5.35)
    assert not delay.keeps_waiting(7, 5.6)


def test_a_frame_does_not_wait_for_callers_that_come_back_one_by_one(
    delay: BatchDelay,
) -> None:
    delay.answered(64, 5.0)
    assert delay.keeps_waiting(1, 5.1)
    assert not delay.keeps_waiting(2, 5.35)


def test_however_many_come_the_wait_is_bounded(delay: BatchDelay) -> None:
    delay.answered(1000, 5.0)
    looks = 0
    while delay.keeps_waiting(10 * (looks + 1), 5.0 + looks * STEP):
        looks += 1
    assert looks == MOST / STEP


def test_who_comes_long_after_the_answer_waits_for_nobody(delay: BatchDelay) -> None:
    delay.answered(64, 5.0)
    assert not delay.keeps_waiting(1, 5.0 + STEP)


def test_after_an_answer_the_count_begins_anew(delay: BatchDelay) -> None:
    delay.answered(8, 5.0)
    assert delay.keeps_waiting(6, 5.1)
    assert not delay.keeps_waiting(6, 5.35)
    delay.answered(8, 5.5)
    assert delay.keeps_waiting(2, 5.6)
