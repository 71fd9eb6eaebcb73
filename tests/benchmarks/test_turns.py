"""Turns: what is written is read again, and a busy machine is noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks import turns
from benchmarks.cell import CellFailure, CellOutcome
from benchmarks.noise import noise
from benchmarks.run import summarize
from benchmarks.turns import Turn
from benchmarks.yardsticks import YardstickReading
from tests.benchmarks.sample import cell, result, results


def _turn(outcome: CellOutcome, number: int = 0, *, disk: float = 300.0) -> Turn:
    run = results()
    system = next(system for system in run.systems if system.name == outcome.cell.system)
    reading = YardstickReading(disk, [0.2, 0.3], 4000.0, 800.0, 1.0)
    when = f"2026-01-01T00:00:0{number}"
    return Turn(number, when, run.machine, system, outcome, reading, reading)


def test_a_turn_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = [
        _turn(result(rate=5000), 0),
        _turn(CellFailure(cell("redis"), "the producer failed: it was tired"), 1),
    ]
    for turn in written:
        turns.write(turn, tmp_path)
    assert turns.read_all(tmp_path) == written


def test_a_summary_has_the_median_turn_of_each_cell() -> None:
    rates = (900.0, 1000.0, 400.0)
    found = [_turn(result(per_s=per_s), number) for number, per_s in enumerate(rates)]
    summary = summarize(found, {"nats": "it is not installed"})
    assert [outcome.records_per_s for outcome in summary.measured()] == [900.0]
    assert summary.skipped == {"nats": "it is not installed"}


def test_turns_with_other_work_or_a_slow_disk_are_named() -> None:
    calm = result()
    busy = replace(calm, cpu=replace(calm.cpu, foreign=1.2))
    found = noise([_turn(calm), _turn(busy, 1), _turn(calm, 2, disk=100.0), _turn(calm, 3)])
    assert found == [
        "sulina, throughput, 100 B, turn 2: 1.20 cores were used by others",
        "sulina, throughput, 100 B, turn 3: the disk wrote 100 MB/s, 300 at the median",
    ]
