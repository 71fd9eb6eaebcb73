"""A short fuzz run with every test run; a long one is ``python -m tests.wire.fuzz``."""

from __future__ import annotations

import random

import pytest

from tests.wire import fuzz


def test_two_seconds_of_fuzzing_find_nothing() -> None:
    tally = fuzz.run(seed=random.SystemRandom().getrandbits(32), seconds=2.0)
    assert tally.understood and tally.refused


def test_a_case_is_the_same_every_time() -> None:
    first = [fuzz.run_case(7, case) for case in range(100)]
    assert [fuzz.run_case(7, case) for case in range(100)] == first


def test_the_command_line_says_how_many_cases_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--seed", "3", "--seconds", "0.1"]) == 0
    assert "cases" in capsys.readouterr().out
    assert fuzz.main(["--seed", "3", "--case", "12"]) == 0
