"""How long a frame waits for company: by counts and times alone."""

from __future__ import annotations

import pytest

from broker_containers.doors.danube.gathering import Gathering

STEP = 0.25
MOST = 1.0


@pytest.fixture
def gathering() -> Gathering:
    return Gathering(STEP, MOST)


def test_the_first_message_of_all_waits_for_nobody(gathering: Gathering) -> None:
    assert not gathering.goes_on(1, 5.0)


def test_a_lone_caller_waits_for_nobody(gathering: Gathering) -> None:
    gathering.answered(1, 5.0)
    assert not gathering.goes_on(1, 5.1)


def test_a_frame_waits_for_those_who_were_answered_together(gathering: Gathering) -> None:
    gathering.answered(3, 5.0)
    assert gathering.goes_on(1, 5.1) and not gathering.complete(2)
    assert gathering.complete(3) and not gathering.goes_on(3, 5.35)


def test_a_frame_waits_only_as_long_as_more_come(gathering: Gathering) -> None:
    gathering.answered(64, 5.0)
    assert gathering.goes_on(1, 5.1)
    assert gathering.goes_on(7, 5.35)
    assert not gathering.goes_on(7, 5.6)


def test_a_frame_does_not_wait_for_callers_that_come_back_one_by_one(
    gathering: Gathering,
) -> None:
    gathering.answered(64, 5.0)
    assert gathering.goes_on(1, 5.1)
    assert not gathering.goes_on(2, 5.35)


def test_however_many_come_the_wait_is_bounded(gathering: Gathering) -> None:
    gathering.answered(1000, 5.0)
    looks = 0
    while gathering.goes_on(10 * (looks + 1), 5.0 + looks * STEP):
        looks += 1
    assert looks == MOST / STEP


def test_who_comes_long_after_the_answer_waits_for_nobody(gathering: Gathering) -> None:
    gathering.answered(64, 5.0)
    assert not gathering.goes_on(1, 5.0 + STEP)


def test_after_an_answer_the_count_begins_anew(gathering: Gathering) -> None:
    gathering.answered(8, 5.0)
    assert gathering.goes_on(6, 5.1)
    assert not gathering.goes_on(6, 5.35)
    gathering.answered(8, 5.5)
    assert gathering.goes_on(2, 5.6)
