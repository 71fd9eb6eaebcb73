"""``python -m benchmarks``: measure, print the tables, write the JSON and the plot."""

from __future__ import annotations

import signal
import subprocess
import sys

from rich.console import Console

from benchmarks import danube_door
from benchmarks import options as command_line
from benchmarks.cell import CellFailure
from benchmarks.options import BenchmarkOptions
from benchmarks.report import print_report, profile_table
from benchmarks.results import RunResults, to_json
from benchmarks.run import measure, profile
from benchmarks.systems import OURS, SYSTEMS
from benchmarks.systems.base import CannotStart
from sulina.errors import SulinaError

FILE_WIDTH = 140  # of tables, if the output is not a terminal


def main() -> int:
    """Run the benchmarks; the exit status is 1 if one of Sulina's own cells failed."""
    options = command_line.parse(sys.argv[1:])
    console = Console(stderr=options.json)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    # SIGTERM cleans up like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.list:
            return list_systems(console)
        if options.profile:
            return show_profile(options, console)
        return show_all(options, console)
    except KeyboardInterrupt:
        console.print("stopped: all processes have exited, and no results were written")
        return 130
    except OSError as error:
        console.print(f"the run failed: {error}", style="red")
        return 1


def list_systems(console: Console) -> int:
    """List the systems that can be measured on this machine."""
    for system in SYSTEMS.values():
        reason = system.unavailable()
        state = f"[green]ready[/], {system.version()}" if reason is None else f"[yellow]{reason}[/]"
        console.print(f"{system.name:<10} {system.title:<18} {state}", highlight=False)
    return 0


def show_profile(options: BenchmarkOptions, console: Console) -> int:
    """Print the CPU time of cells per process."""
    reason = SYSTEMS[OURS].unavailable()
    if reason is not None:
        console.print(reason, style="red")
        return 1
    outcomes = profile(options, console)
    for outcome in outcomes:
        if isinstance(outcome, CellFailure):
            console.print(f"the cell failed: {outcome.reason}", style="red")
        else:
            console.print(profile_table(outcome))
    return 1 if any(isinstance(outcome, CellFailure) for outcome in outcomes) else 0


def show_all(options: BenchmarkOptions, console: Console) -> int:
    """Measure everything, and write and print the results."""
    results = measure(options, console)
    print_report(results, console)
    options.out.mkdir(parents=True, exist_ok=True)
    document = to_json(results)
    (options.out / "results.json").write_text(document)
    console.print(f"written: {options.out / 'results.json'}", highlight=False)
    if options.plot:
        draw(results, options, console)
    if options.json:
        sys.stdout.write(document)
    if OURS in options.systems:
        show_danube(options, console)
    broken = [
        outcome
        for outcome in results.outcomes
        if isinstance(outcome, CellFailure) and outcome.cell.system == OURS
    ]
    return 1 if broken else 0


def show_danube(options: BenchmarkOptions, console: Console) -> None:
    """Measure the server for Danube clients."""
    try:
        danube_door.run(options.out, options.seconds, options.repeat, console)
    except (SulinaError, CannotStart, subprocess.SubprocessError) as error:
        console.print(f"Danube clients were not measured: {error}", style="yellow")


def draw(results: RunResults, options: BenchmarkOptions, console: Console) -> None:
    """Draw the plot, if matplotlib is installed."""
    try:
        from benchmarks.plot import write_plot
    except ImportError:
        console.print("no plot: matplotlib is not installed: `pip install 'sulina[bench]'`")
        return
    path = options.out / "results.svg"
    write_plot(results, path)
    console.print(f"written: {path}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
