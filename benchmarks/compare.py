"""Compares results: Sulina's ratio to each system, and the targets.

A ratio above 1 always means that Sulina is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.cell import CellOutcome, CellResult, Spread
from benchmarks.stats import ratio
from benchmarks.yardsticks import Yardsticks

RECORDS_TARGET = 1_000_000
RECORDS_SIZE = 100
BANDWIDTH_TARGET = 0.60
BANDWIDTH_SIZE = 16 * 1024
LATENCY_TARGET = 4.0
LATENCY_SIZE = 1024
LATENCY_RATE = 5000
RATE_KEPT = 0.98


@dataclass(frozen=True, slots=True)
class Advantage:
    """Sulina's ratio to another system in the same cell; None if a value is missing."""

    throughput: float | None
    memory: float | None
    p50: float | None
    p99: float | None
    p999: float | None


@dataclass(frozen=True, slots=True)
class Target:
    """A target and whether it was met; ``passed`` is None if it was not measured."""

    name: str
    wanted: str
    got: str
    passed: bool | None


def middle(repetitions: Sequence[CellOutcome]) -> CellOutcome:
    """The median repetition of a cell, with the spread of all; a failure if all failed.

    Of an even number, it is the worse of the two in the middle. It is one actual run, not a mean
    per column, so that its values belong together.
    """
    done = sorted(
        (outcome for outcome in repetitions if isinstance(outcome, CellResult)),
        key=lambda result: result.measure,
    )
    if not done:
        return repetitions[0]
    spread = Spread(
        runs=len(done),
        failed=len(repetitions) - len(done),
        lowest=done[0].measure,
        highest=done[-1].measure,
    )
    # A low rate is worse, and so is a high latency.
    place = len(done) // 2 if done[0].cell.load == "latency" else (len(done) - 1) // 2
    return replace(done[place], spread=spread)


def advantage(ours: CellResult, theirs: CellResult) -> Advantage:
    """How many times better Sulina is than ``theirs``, per measure."""

    def latency(name: str) -> float | None:
        if ours.latency is None or theirs.latency is None:
            return None
        return ratio(getattr(theirs.latency, name), getattr(ours.latency, name))

    return Advantage(
        throughput=ratio(ours.records_per_s, theirs.records_per_s),
        memory=ratio(theirs.peak_memory, ours.peak_memory),
        p50=latency("p50"),
        p99=latency("p99"),
        p999=latency("p999"),
    )


def kept_rate(result: CellResult) -> bool:
    """Whether a cell reached its fixed rate."""
    rate = result.cell.rate
    return rate is None or result.records_per_s >= rate * RATE_KEPT


def targets(ours: list[CellResult], yardsticks: Yardsticks) -> list[Target]:
    """The targets, evaluated with Sulina's cells of this run."""
    return [_records(ours), _bandwidth(ours, yardsticks), _latency(ours, yardsticks)]


def _find(ours: list[CellResult], size: int, rate: int | None) -> CellResult | None:
    open_loads = (result for result in ours if not result.cell.loops)
    found = (
        result for result in open_loads if (result.cell.size, result.cell.rate) == (size, rate)
    )
    return next(found, None)


def _records(ours: list[CellResult]) -> Target:
    name, wanted = "100-byte records end to end", f"at least {RECORDS_TARGET:,}/s"
    result = _find(ours, RECORDS_SIZE, None)
    if result is None:
        return Target(name, wanted, "not measured", None)
    reached = result.records_per_s
    return Target(name, wanted, f"{reached:,.0f}/s", reached >= RECORDS_TARGET)


def _bandwidth(ours: list[CellResult], yardsticks: Yardsticks) -> Target:
    name = "16 KiB records end to end"
    disk = yardsticks.sequential_mb_per_s
    wanted = f"at least {BANDWIDTH_TARGET:.0%} of the plain write's {disk:,.0f} MB/s"
    result = _find(ours, BANDWIDTH_SIZE, None)
    if result is None:
        return Target(name, wanted, "not measured", None)
    share = result.mb_per_s / disk
    got = f"{result.mb_per_s:,.0f} MB/s = {share:.0%}"
    return Target(name, wanted, got, share >= BANDWIDTH_TARGET)


def _latency(ours: list[CellResult], yardsticks: Yardsticks) -> Target:
    name = f"p99 at {LATENCY_RATE:,} msg/s of 1 KiB"
    bare = yardsticks.sync.p99
    wanted = f"at most {LATENCY_TARGET:g} x the bare sync's {bare:.2f} ms"
    result = _find(ours, LATENCY_SIZE, LATENCY_RATE)
    if result is None or result.latency is None:
        return Target(name, wanted, "not measured", None)
    times = result.latency.p99 / bare
    got = f"{result.latency.p99:.2f} ms = {times:.1f} x"
    if not kept_rate(result):
        return Target(name, wanted, f"{got}, but only {result.records_per_s:,.0f} msg/s", False)
    return Target(name, wanted, got, times <= LATENCY_TARGET)
