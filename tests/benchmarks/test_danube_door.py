"""The benchmark of Danube's clients: its tables, and one short load."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import danube_runs
from benchmarks.danube_door import CEILING, DANUBE, SULINA, DanubeRound, tables
from benchmarks.danube_runs import LoadPlan, LoadResult
from benchmarks.stats import summarize
from benchmarks.systems.base import SystemServer

LOAD = LoadResult(SULINA, "Go", 100, 64, False, 20_000.0, summarize([1.0]), 0.05, 0)
PACED = replace(LOAD, size=1024, in_flight=1, paced=True, rate=500.0)


def printed(*loads: LoadResult) -> str:
    console = Console(file=io.StringIO(), width=200)
    for each in tables([DanubeRound(summarize([1.0]), loads)]):
        console.print(each)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_goals_that_are_met_are_told_from_those_that_are_missed() -> None:
    danube = replace(LOAD, server=DANUBE, rate=10_000.0)
    text = printed(PACED, LOAD, danube)
    assert "1.00: met" in text
    assert "CPU: met, 2.00 x Danube: met, rate: met" in text
    slow = replace(LOAD, rate=5_000.0, cpu_ms=0.2)
    text = printed(replace(PACED, ms=summarize([9.0])), slow, danube)
    assert "9.00: missed" in text
    assert "CPU: missed, 0.50 x Danube: missed, rate: missed" in text


def test_a_load_that_danube_did_not_deliver_is_not_compared() -> None:
    text = printed(LOAD, replace(LOAD, server=DANUBE, undelivered=7))
    assert "20,000 (7 not delivered)" in text and "x Danube" not in text


def test_one_message_at_a_time_stands_beside_what_any_synced_server_could_reach() -> None:
    one = replace(LOAD, in_flight=1, rate=900.0)
    text = printed(PACED, one, replace(one, server=CEILING, rate=1_500.0))
    assert "0.60 x calls and one sync" in text and "1,500" in text


@pytest.mark.parametrize("start", [danube_runs.sulina_server, danube_runs.ceiling_server])
def test_a_load_of_the_stock_client_is_measured_end_to_end(
    start: Callable[[Path], AbstractContextManager[SystemServer]], tmp_path: Path
) -> None:
    plan = LoadPlan(100, 4, 0.2)
    with start(tmp_path) as server:
        found = danube_runs.run_load(SULINA, server, danube_runs.python_client(), plan)
    assert found.rate > 0 and found.cpu_ms > 0 and found.undelivered == 0
