"""The order of a run: each system in turn per load and size, repeated in whole rounds.

Systems take turns within a load and size, and repetitions are whole rounds, so that changes of the
machine's speed during the run affect all systems. The machine itself is measured between all cells.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import turns, yardsticks
from benchmarks.cell import Cell, CellOutcome
from benchmarks.compare import LATENCY_SIZE, RECORDS_SIZE, middle
from benchmarks.conduct import run_cell
from benchmarks.noise import noise
from benchmarks.options import SIZES, BenchmarkOptions
from benchmarks.program import data_folder
from benchmarks.results import RunResults, describe, this_machine
from benchmarks.systems import OURS, SYSTEMS, System
from benchmarks.turns import Turn
from benchmarks.units import count_name, size_name

YARDSTICK_SECONDS = 1.0
LOOP_SIZE = 100


def measure(options: BenchmarkOptions, console: Console) -> int:
    """Run all measurements that ``options`` select and this machine supports. Blocks.

    Each turn is written to ``options.out`` when it is done; with ``resume``, those that are there
    are kept. Systems that are not installed are left out, and cells that fail are kept as failures.
    Returns how many cells are left, because ``stop_after`` ended the run.
    """
    systems, _ = available(options.systems)
    if not options.resume:
        shutil.rmtree(options.out / turns.FOLDER, ignore_errors=True)
    planned = [
        (number, cell)
        for number in range(options.repeat)
        for cell in plan(options, systems)
        if not turns.path_of(options.out, cell.key, number).exists()
    ]
    described = {system.name: describe(system) for system in systems}
    begun = time.monotonic()
    with data_folder(options.data, "run") as folder, _progress(console) as progress:
        machine = this_machine(folder)
        whole = progress.add_task("whole run", total=len(planned), note="")
        before = _take_yardsticks(options, folder, progress) if planned else None
        for done, (number, cell) in enumerate(planned):
            if options.stop_after and time.monotonic() - begun > options.stop_after:
                return len(planned) - done
            assert before is not None
            outcome = _run(SYSTEMS[cell.system], cell, folder / f"{number}-{cell.key}", progress)
            after = _take_yardsticks(options, folder, progress)
            when = datetime.now(UTC).isoformat(timespec="milliseconds")
            info = described[cell.system]
            turns.write(Turn(number, when, machine, info, outcome, before, after), options.out)
            before = after
            progress.advance(whole)
    return 0


def summarize(found: Sequence[Turn], skipped: dict[str, str]) -> RunResults:
    """The results of a run, from its turns, of which there must be at least one."""
    cells: dict[str, list[CellOutcome]] = {}
    for turn in found:
        cells.setdefault(turn.outcome.cell.key, []).append(turn.outcome)
    infos = {turn.system.name: turn.system for turn in found}
    outcomes = [middle(outcomes) for outcomes in cells.values()]
    order = list(SYSTEMS)
    loads = ["throughput", "latency", "loop"]
    outcomes.sort(
        key=lambda outcome: (
            loads.index(outcome.cell.load),
            outcome.cell.size,
            order.index(outcome.cell.system),
        )
    )
    return RunResults(
        when=found[-1].when,
        machine=found[-1].machine,
        seconds=found[-1].outcome.cell.seconds,
        systems=[infos[name] for name in SYSTEMS if name in infos],
        skipped={name: reason for name, reason in skipped.items() if name not in infos},
        outcomes=outcomes,
        repetitions=[turn.outcome for turn in found],
        yardsticks=yardsticks.join(
            [found[0].before, *(turn.after for turn in found)],
        ),
        noise=noise(found),
    )


def profile(options: BenchmarkOptions, console: Console) -> list[CellOutcome]:
    """Run the cells that ``options`` name at full speed, once; by default our 100-byte cell.

    Blocks. All selected systems must be available.
    """
    systems = options.systems if set(options.systems) != set(SYSTEMS) else (OURS,)
    sizes = options.sizes if options.sizes != SIZES else (RECORDS_SIZE,)
    with data_folder(options.data, "run") as folder, _progress(console) as progress:
        return [
            _run(
                SYSTEMS[name],
                _cell(options, SYSTEMS[name], size),
                folder / f"{name}-{size}",
                progress,
            )
            for size in sizes
            for name in systems
        ]


def available(names: Sequence[str]) -> tuple[list[System], dict[str, str]]:
    """The systems that can run on this machine, and the reasons why others cannot."""
    systems: list[System] = []
    skipped: dict[str, str] = {}
    for name in names:
        reason = SYSTEMS[name].unavailable()
        if reason is None:
            systems.append(SYSTEMS[name])
        else:
            skipped[name] = reason
    return systems, skipped


def plan(options: BenchmarkOptions, systems: list[System]) -> list[Cell]:
    """All cells of a round, in order."""
    cells: list[Cell] = []
    if "throughput" in options.loads:
        cells += [_cell(options, system, size) for size in options.sizes for system in systems]
    if "latency" in options.loads:
        cells += [_cell(options, system, LATENCY_SIZE, rate=options.rate) for system in systems]
    if "loop" in options.loads:
        cells += [_cell(options, system, LOOP_SIZE, loops=options.loops) for system in systems]
    return cells


def _cell(
    options: BenchmarkOptions,
    system: System,
    size: int,
    *,
    rate: int | None = None,
    loops: int = 0,
) -> Cell:
    return Cell(
        system=system.name,
        size=size,
        batch=system.batch(size),
        seconds=options.seconds,
        max_bytes=options.max_bytes,
        rate=rate,
        loops=loops,
        warm_up=options.warm_up,
    )


def pace_name(cell: Cell) -> str:
    """The load of a cell, for people."""
    if cell.loops:
        return f"{cell.loops:,} producers, one record in flight each"
    return "full speed" if cell.rate is None else f"{cell.rate:,} msg/s"


def _run(system: System, cell: Cell, folder: Path, progress: Progress) -> CellOutcome:
    title = f"{system.title}, {size_name(cell.size)}, {pace_name(cell)}"
    seconds = cell.warm_up + cell.seconds
    task = progress.add_task(title, total=seconds, note="starting")

    def show(elapsed: float, received: int) -> None:
        note = f"{count_name(received)} records"
        progress.update(task, completed=min(elapsed, seconds), note=note)

    try:
        return run_cell(system, cell, folder, show)
    finally:
        progress.remove_task(task)


def _take_yardsticks(
    options: BenchmarkOptions, folder: Path, progress: Progress
) -> yardsticks.YardstickReading:
    task = progress.add_task("the machine alone", total=None, note="")
    try:
        seconds = min(YARDSTICK_SECONDS, options.seconds)
        return yardsticks.take(folder, seconds, options.rate, options.max_bytes)
    finally:
        progress.remove_task(task)


def _progress(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, transient=True)
