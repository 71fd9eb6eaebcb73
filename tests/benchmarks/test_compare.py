"""Ratios, medians and targets."""

from __future__ import annotations

from benchmarks.cell import CellFailure, CellResult
from benchmarks.compare import advantage, kept_rate, middle, targets
from tests.benchmarks.sample import cell, result, yardsticks


def test_every_ratio_above_one_means_that_sulina_does_better() -> None:
    ours = result(per_s=1000, rate=1000, p99=2.0, memory=10)
    theirs = result("redis", per_s=500, rate=1000, p99=6.0, memory=40)
    better = advantage(ours, theirs)
    assert (better.throughput, better.memory, better.p99) == (2.0, 4.0, 3.0)


def test_latencies_are_compared_only_where_both_were_taken() -> None:
    assert advantage(result(), result("redis")).p99 is None


def test_the_median_repetition_stands_for_the_cell_with_the_spread_of_all() -> None:
    runs = [result(per_s=per_s) for per_s in (900.0, 1000.0, 400.0)]
    chosen = middle(runs)
    assert isinstance(chosen, CellResult)
    assert chosen.spread is not None
    assert chosen.records_per_s == 900
    assert (chosen.spread.runs, chosen.spread.lowest, chosen.spread.highest) == (3, 400, 1000)


def test_of_two_repetitions_the_worse_stands_for_the_cell() -> None:
    slower = middle([result(per_s=900), result(per_s=400)])
    later = middle([result(rate=5000, p99=1.0), result(rate=5000, p99=3.0)])
    assert isinstance(slower, CellResult)
    assert isinstance(later, CellResult)
    assert (slower.measure, later.measure) == (400, 3.0)


def test_a_failed_repetition_is_counted_and_the_others_stand() -> None:
    chosen = middle([CellFailure(cell(), "tired"), result(per_s=7)])
    assert isinstance(chosen, CellResult)
    assert chosen.spread is not None
    assert chosen.spread.failed == 1


def test_a_cell_whose_repetitions_all_failed_has_failed() -> None:
    assert isinstance(middle([CellFailure(cell(), "tired")] * 2), CellFailure)


def test_a_rate_is_kept_within_two_percent() -> None:
    assert kept_rate(result(rate=5000, per_s=4950))
    assert not kept_rate(result(rate=5000, per_s=4000))


def test_targets_that_are_met_pass() -> None:
    ours = [
        result(size=100, per_s=1_000_000),
        result(size=16384, per_s=12_000),
        result(size=1024, rate=5000, per_s=5000, p99=4.0),
    ]
    assert [target.passed for target in targets(ours, yardsticks())] == [True, True, True]


def test_targets_that_are_missed_fail() -> None:
    ours = [
        result(size=100, per_s=999_000),
        result(size=16384, per_s=10_000),
        result(size=1024, rate=5000, per_s=5000, p99=4.1),
    ]
    assert [target.passed for target in targets(ours, yardsticks())] == [False, False, False]


def test_a_low_latency_at_a_rate_not_kept_is_no_success() -> None:
    ours = [result(size=1024, rate=5000, per_s=2000, p99=0.1)]
    assert targets(ours, yardsticks())[2].passed is False


def test_targets_that_were_not_measured_are_neither() -> None:
    assert [target.passed for target in targets([], yardsticks())] == [None, None, None]
