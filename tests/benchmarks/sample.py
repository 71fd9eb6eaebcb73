"""A run that never happened, for tests of what is made of runs."""

from __future__ import annotations

from benchmarks.cell import Cell, CellFailure, CellOutcome, CellResult, CpuSeconds
from benchmarks.results import MachineInfo, RunResults, SystemInfo
from benchmarks.stats import Percentiles
from benchmarks.yardsticks import Yardsticks


def cell(system: str = "sulina", size: int = 100, rate: int | None = None) -> Cell:
    return Cell(system=system, size=size, batch=10, seconds=1.0, max_bytes=1 << 20, rate=rate)


def result(
    system: str = "sulina",
    size: int = 100,
    *,
    per_s: float = 1000.0,
    rate: int | None = None,
    p99: float = 2.0,
    memory: int = 50 << 20,
) -> CellResult:
    return CellResult(
        cell=cell(system, size, rate),
        records=int(per_s),
        elapsed=1.0,
        peak_memory=memory,
        cpu=CpuSeconds(0.5, 0.3, 0.2),
        misplaced=0,
        latency=None if rate is None else Percentiles(p99 / 2, p99, p99 * 2, p99 * 3, 1000),
    )


def yardsticks(mb_per_s: float = 300.0, p99: float = 1.0) -> Yardsticks:
    return Yardsticks(mb_per_s, Percentiles(p99 / 2, p99, p99 * 2, p99 * 3, 1000), 4000.0)


def results(outcomes: list[CellOutcome] | None = None) -> RunResults:
    if outcomes is None:
        outcomes = [
            result(size=100, per_s=1_200_000),
            result("redis", 100, per_s=40_000, memory=25 << 20),
            result(size=16384, per_s=15_000),
            CellFailure(cell("redis", 16384), "the producer failed: it was tired"),
            result(size=1024, rate=5000, per_s=5000, p99=2.0),
            result("redis", 1024, rate=5000, per_s=3000, p99=900.0),
        ]
    return RunResults(
        when="2026-01-01T00:00:00+00:00",
        machine=MachineInfo("a processor", 2, 8 << 30, "Linux 6", "3.11.7", "ext4"),
        seconds=1.0,
        systems=[
            SystemInfo("sulina", "Sulina", "0.1", True, "synced", "batches"),
            SystemInfo("redis", "Redis Streams", "7", False, "synced too", "pipelines"),
        ],
        skipped={"nats": "install sulina[bench]"},
        outcomes=outcomes,
        repetitions=outcomes,
        yardsticks=yardsticks(),
    )
