"""The simulator: virtual days with the real decisions, small enough for every test run."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.balance.__main__ import main
from benchmarks.balance.run import (
    BalanceEvent,
    BalanceEventKind,
    BalanceOutcome,
    Scenario,
    simulate,
)
from benchmarks.balance.start import measure_start
from benchmarks.balance.workload import WorkloadShape
from benchmarks.balance.world import Trouble

HOUR = 3_600.0
SMALL = Scenario("small", brokers=8, topics=240, hours=24, alpha=2.5, step=120)


def test_24_hours_of_steady_load_end_balanced_and_without_oscillation() -> None:
    outcome = simulate(SMALL)
    figures = outcome.summary()
    assert figures["oscillations"] == 0
    assert figures["moves_after_first_hour"] <= 3  # noise alone may push somebody over a bound
    assert figures["moves"] > 0
    assert figures["max_over_bound_end"] <= 1.15
    assert figures["max_over_mean_start"] > 1.2


def test_a_run_follows_from_its_seed() -> None:
    short = replace(SMALL, hours=2, shape=WorkloadShape.FLASH, trouble=Trouble(0.1, 0.1, 0.1))
    one, two = simulate(short), simulate(short)
    assert one.points == two.points
    assert simulate(replace(short, seed=2)).points != one.points


def test_lost_and_late_reports_do_not_make_topics_flap() -> None:
    noisy = replace(SMALL, hours=12, trouble=Trouble(noise=0.2, lost=0.3, late=0.2))
    figures = simulate(noisy).summary()
    assert figures["oscillations"] == 0
    assert figures["max_over_bound_end"] < 1.2
    assert figures["reasons"]["stale_report"] > 0


def test_an_empty_broker_that_joins_ten_full_ones_is_filled() -> None:
    outcome = simulate(
        Scenario(
            "joined",
            brokers=10,
            topics=500,
            hours=2,
            alpha=0,
            utilisation=0.8,
            events=(BalanceEvent(HOUR, BalanceEventKind.JOIN),),
        )
    )
    assert outcome.points[-1].brokers == 11
    assert outcome.points[-1].max_over_mean < 1.10
    assert outcome.points[-1].cv < 0.1


def test_topics_of_a_dead_broker_are_served_again_and_a_slow_one_gets_less() -> None:
    events = (
        BalanceEvent(1.0 * HOUR, BalanceEventKind.DIE, 2),
        BalanceEvent(2.0 * HOUR, BalanceEventKind.SLOW),
        BalanceEvent(4.0 * HOUR, BalanceEventKind.RECOVER),
    )
    on = simulate(replace(SMALL, hours=4, events=events, step=60))
    off = simulate(replace(SMALL, hours=4, events=events, step=60, balancing=False))
    assert on.points[-1].brokers == 6
    assert on.failover_pause > 0
    assert off.moves == 0
    assert _worst_after(on, 3.0) < 1.3 < _worst_after(off, 3.0)


@pytest.mark.parametrize("alpha", [0.0, 2.5])
def test_a_random_start_reaches_the_goal_with_little_more_than_the_least_possible(
    alpha: float,
) -> None:
    result = measure_start(100, 10_000, alpha, seed=3)
    assert result.max_over_bound_after <= 1.10
    assert result.moved_to_goal is not None
    assert result.least_for_bound <= result.moved_to_goal <= result.moved_share
    assert result.moved_share <= result.least_for_mean + 0.01


@pytest.mark.slow
def test_a_thousand_brokers_with_skewed_topics_reach_the_goal_moving_less_than_2_percent() -> None:
    result = measure_start(1_000, 100_000, 2.5, seed=1)
    assert result.max_over_bound_after <= 1.10
    assert result.moved_to_goal is not None and result.moved_to_goal <= 0.02


def test_the_command_prints_tables_and_writes_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--quick", "--no-plot", "--hours", "0.5", "--scenarios", "steady"]
    monkeypatch.setattr(
        sys, "argv", ["balance", *arguments, "--sizes", "10x100", "--json", "--out", str(tmp_path)]
    )
    assert main() == 0
    printed = capsys.readouterr()
    assert "oscillations" in printed.err
    document = json.loads(printed.out)
    assert document == json.loads((tmp_path / "balance.json").read_text())
    assert [one["balancing"] for one in document["scenarios"]] == [True, False]
    assert document["starts"][0]["brokers"] == 10


def test_a_wrong_option_is_answered_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in (
        ["--sizes", "many"],
        ["--scenarios", "doom"],
        ["--alphas", "0.5"],
        ["--hours", "x"],
    ):
        monkeypatch.setattr(sys, "argv", ["balance", *wrong])
        with pytest.raises(SystemExit):
            main()
        assert "Traceback" not in capsys.readouterr().err


def _worst_after(outcome: BalanceOutcome, hours: float) -> float:
    return max(one.max_over_mean for one in outcome.points if hours <= one.hours < hours + 0.9)
