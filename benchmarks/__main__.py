"""``python -m benchmarks``: measure, print the tables, write the JSON and the plot."""

from __future__ import annotations

import signal
import sys
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from benchmarks import markdown, program, turns
from benchmarks import options as command_line
from benchmarks.cell import CellFailure
from benchmarks.fetch import FETCHED, CannotFetch
from benchmarks.options import BenchmarkOptions
from benchmarks.report import print_report, print_skipped, profile_table
from benchmarks.results import RunResults, to_json
from benchmarks.run import available, measure, profile, summarize
from benchmarks.systems import OURS, SYSTEMS


def main() -> int:
    """Run the benchmarks; the exit status is 1 if one of Sulina's own cells failed."""
    options = command_line.parse(sys.argv[1:])
    console = program.wide_console(stderr=options.json)
    # SIGTERM cleans up like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.fetch:
            return fetch_servers(console)
        if options.list:
            return list_systems(console)
        if options.profile:
            return show_profile(options, console)
        return show_all(options, console)
    except KeyboardInterrupt:
        console.print("stopped: all processes have exited; --resume continues this run")
        return 130
    except OSError as error:
        console.print(f"the run failed: {error}", style="red")
        return 1


def list_systems(console: Console) -> int:
    """List the systems that can be measured on this machine."""
    for system in SYSTEMS.values():
        reason = system.unavailable()
        if reason is None:
            state = f"[green]ready[/], {escape(system.version())}"
        else:
            state = f"[yellow]{escape(reason)}[/]"
        console.print(f"{system.name:<17} {system.title:<32} {state}", highlight=False)
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
            console.print(f"the cell failed: {outcome.reason}", style="red", markup=False)
        else:
            console.print(profile_table(outcome))
    return 1 if any(isinstance(outcome, CellFailure) for outcome in outcomes) else 0


def show_all(options: BenchmarkOptions, console: Console) -> int:
    """Measure everything that is not measured yet, and write and print the results."""
    left = 0 if options.report or options.publish else measure(options, console)
    found = turns.read_all(options.out)
    if not found:
        console.print(f"nothing was measured: {options.out} has no turns", style="red")
        print_skipped(available(options.systems)[1], console)
        return 1
    results = summarize(found, available(options.systems)[1])
    print_report(results, console)
    if left:
        console.print(f"{left} cells are left: --resume continues this run", style="yellow")
    path = options.out / "results.json"
    program.write_document(to_json(results), path, show=options.json)
    console.print(f"written: {path}", highlight=False)
    if options.plot:
        program.draw(partial(_write_plot, results), options.out / "results.svg", console)
    if options.publish:
        for document in markdown.publish(results):
            console.print(f"written: {document}", highlight=False)
        program.draw(partial(_write_plot, results), markdown.ROOT / markdown.PLOT, console)
    broken = [
        outcome
        for outcome in results.outcomes
        if isinstance(outcome, CellFailure) and outcome.cell.system == OURS
    ]
    return 1 if broken else 0


def fetch_servers(console: Console) -> int:
    """Get the servers that no package of Debian has; blocks for minutes."""
    failed = 0
    for server in FETCHED:
        console.print(f"getting {server.title} with {server.tool}", highlight=False)
        try:
            server.fetch()
        except CannotFetch as error:
            failed = 1
            console.print(str(error), style="red", highlight=False)
    return failed


def _write_plot(results: RunResults, path: Path) -> None:
    from benchmarks.plot import write_plot

    write_plot(results, path)


if __name__ == "__main__":
    sys.exit(main())
