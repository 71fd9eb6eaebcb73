"""``python -m benchmarks.balance``: simulate, print the tables, write the JSON and the plot."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import program
from benchmarks.balance import options as command_line
from benchmarks.balance.options import LARGE, USUAL_ALPHA, BalanceOptions
from benchmarks.balance.run import BalanceOutcome, simulate
from benchmarks.balance.scenarios import SCENARIOS, scaled
from benchmarks.balance.start import StartResult, measure_start
from benchmarks.balance.tables import reason_table, run_table, start_table


def main() -> int:
    """Run the simulation."""
    options = command_line.parse(sys.argv[1:])
    console = program.wide_console(stderr=options.json, width=200)
    try:
        starts, outcomes = _simulate(options, console)
    except KeyboardInterrupt:
        console.print("stopped; no results were written")
        return 130
    if starts:
        console.print(start_table(starts))
    if outcomes:
        console.print(run_table(outcomes))
        console.print(reason_table(outcomes))
    document = json.dumps(
        {
            "starts": [asdict(one) for one in starts],
            "scenarios": [one.to_dict() for one in outcomes],
        }
    )
    path = options.out / "balance.json"
    try:
        program.write_document(document, path, show=options.json)
        console.print(f"written: {path}", highlight=False)
        if options.plot is not None and (starts or outcomes):
            program.draw(partial(_write_plot, starts, outcomes), options.plot, console)
    except OSError as error:
        console.print(f"the results could not be written: {error}", style="red")
        return 1
    return 0


def _simulate(
    options: BalanceOptions, console: Console
) -> tuple[list[StartResult], list[BalanceOutcome]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    plans = [
        (*size, alpha)
        for size in sorted(options.sizes)
        for alpha in (options.alphas if size == LARGE else (USUAL_ALPHA,))
    ]
    starts: list[StartResult] = []
    outcomes: list[BalanceOutcome] = []
    with Progress(*columns, console=console, transient=True) as bars:
        whole = bars.add_task("random starts", total=len(plans), visible=bool(plans))
        for brokers, topics, alpha in plans:
            starts.append(measure_start(brokers, topics, alpha, options.seed))
            bars.advance(whole)
        for name in options.scenarios:
            scenario = scaled(
                SCENARIOS[name], hours=options.hours, quick=options.quick, seed=options.seed
            )
            for balancing in (True, False) if options.unbalanced else (True,):
                bar = bars.add_task(f"{name}, balancing {'on' if balancing else 'off'}", total=1.0)
                outcomes.append(
                    simulate(
                        replace(scenario, balancing=balancing),
                        progress=lambda share, bar=bar: bars.update(bar, completed=share),  # type: ignore[misc]
                    )
                )
                bars.remove_task(bar)
    return starts, outcomes


def _write_plot(starts: list[StartResult], outcomes: list[BalanceOutcome], path: Path) -> None:
    from benchmarks.balance.plot import write_plot

    write_plot(starts, outcomes, path)


if __name__ == "__main__":
    sys.exit(main())
