"""The order of a run: disk baselines, then each system in turn per size, repeated.

Systems take turns within a size, and repetitions are whole rounds, so that changes of the machine's
speed during the run affect all systems.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import yardsticks
from benchmarks.cell import Cell, CellOutcome
from benchmarks.compare import LATENCY_SIZE, RECORDS_SIZE, middle
from benchmarks.conduct import run_cell
from benchmarks.options import SIZES, BenchmarkOptions
from benchmarks.program import data_folder
from benchmarks.results import RunResults, describe, this_machine
from benchmarks.systems import OURS, SYSTEMS, System
from benchmarks.units import count_name, size_name


def measure(options: BenchmarkOptions, console: Console) -> RunResults:
    """Run all measurements that ``options`` select and this machine supports. Blocks.

    Systems that are not installed and cells that fail are reported in the results; the rest runs.
    """
    systems, skipped = available(options.systems)
    cells = plan(options, systems)
    repetitions: list[CellOutcome] = []
    with data_folder(options.data, "run") as folder, _progress(console) as progress:
        steps = options.repeat * (len(cells) + 1) + 1
        whole = progress.add_task("whole run", total=steps, note="")
        readings: list[yardsticks.YardstickReading] = []
        for turn in range(options.repeat):
            readings.append(_take_yardsticks(options, folder, progress))
            progress.advance(whole)
            for number, cell in enumerate(cells):
                place = folder / f"{turn}-{number}"
                repetitions.append(_run(SYSTEMS[cell.system], cell, place, progress))
                progress.advance(whole)
        readings.append(_take_yardsticks(options, folder, progress))
        machine = this_machine(folder)
    return RunResults(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine,
        seconds=options.seconds,
        systems=[describe(system) for system in systems],
        skipped=skipped,
        outcomes=[
            middle([outcome for outcome in repetitions if outcome.cell == cell]) for cell in cells
        ],
        repetitions=repetitions,
        yardsticks=yardsticks.join(readings),
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
                _cell(options, SYSTEMS[name], size, None),
                folder / f"{name}-{size}",
                progress,
            )
            for size in sizes
            for name in systems
        ]


def available(names: tuple[str, ...]) -> tuple[list[System], dict[str, str]]:
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
    """All cells of a run, in order."""
    full_speed = [
        _cell(options, system, size, None) for size in options.sizes for system in systems
    ]
    return full_speed + [_cell(options, system, LATENCY_SIZE, options.rate) for system in systems]


def _cell(options: BenchmarkOptions, system: System, size: int, rate: int | None) -> Cell:
    return Cell(
        system=system.name,
        size=size,
        batch=system.batch(size),
        seconds=options.seconds,
        max_bytes=options.max_bytes,
        rate=rate,
    )


def _run(system: System, cell: Cell, folder: Path, progress: Progress) -> CellOutcome:
    pace = "full speed" if cell.rate is None else f"{cell.rate:,} msg/s"
    title = f"{system.title}, {size_name(cell.size)}, {pace}"
    task = progress.add_task(title, total=cell.seconds, note="starting")

    def show(elapsed: float, received: int) -> None:
        note = f"{count_name(received)} records"
        progress.update(task, completed=min(elapsed, cell.seconds), note=note)

    try:
        return run_cell(system, cell, folder, show)
    finally:
        progress.remove_task(task)


def _take_yardsticks(
    options: BenchmarkOptions, folder: Path, progress: Progress
) -> yardsticks.YardstickReading:
    task = progress.add_task("the disk alone", total=None, note="")
    try:
        # Half as long as a cell: it is taken at least twice.
        seconds = options.seconds / 2
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
