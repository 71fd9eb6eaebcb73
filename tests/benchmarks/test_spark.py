"""The benchmark of Spark makes sound data and measures plans; its queries run in tests/spark."""

from __future__ import annotations

from pathlib import Path

import emr_jobs
from benchmarks.spark import (
    LARGE,
    QueryTimes,
    SparkBenchmarkOptions,
    plan_small,
    write_large,
    write_small,
)


def test_the_data_is_what_was_asked_for(tmp_path: Path) -> None:
    options = SparkBenchmarkOptions(2500, 120, 3, 20)
    stored = write_large(tmp_path, options)
    assert stored == sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    assert emr_jobs.count(path=tmp_path, topic=LARGE) == 2500


def test_small_ledgers_are_planned_and_counted(tmp_path: Path) -> None:
    write_small(tmp_path, 20)
    assert set(plan_small(tmp_path)) == {
        *("plan", "plan by time", "first batch of a stream", "count"),
    }
    assert emr_jobs.count(path=tmp_path, topic="/default/small") == 200


def test_a_ratio_is_that_of_the_usual_turn_so_that_a_slow_minute_tells_nothing() -> None:
    pair = QueryTimes.of("x", {"ours": [3.0, 30.0, 6.0], "native": [2.0, 20.0, 1.0]}, goal=1.5)
    assert (pair.ours, pair.native, pair.ratio, pair.floor) == (6.0, 2.0, 1.5, None)
