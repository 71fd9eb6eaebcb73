"""``python -m benchmarks.balance``: simulate, print the tables, write the JSON and the plot."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchmarks.balance import options as command_line
from benchmarks.balance.options import LARGE, USUAL_ALPHA, BalanceOptions
from benchmarks.balance.run import BalanceOutcome, simulate
from benchmarks.balance.scenarios import SCENARIOS, scaled
from benchmarks.balance.start import StartResult, measure_start
from benchmarks.balance.tables import reason_table, run_table, start_table

FILE_WIDTH = 200


def main() -> int:
    """Run the simulation."""
    options = command_line.parse(sys.argv[1:])
    console = Console(stderr=options.json)
    if not console.is_terminal:
        console.width = FILE_WIDTH
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
            "starts": [one.to_dict() for one in starts],
            "scenarios": [one.to_dict() for one in outcomes],
        }
    )
    try:
        _write(options, document, starts, outcomes, console)
    except OSError as error:
        console.print(f"the results could not be written: {error}", style="red")
        return 1
    if options.json:
        sys.stdout.write(document + "\n")
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
                        progress=lambda share, bar=bar: _show(bars, bar, share),  # type: ignore[misc]
                    )
                )
                bars.remove_task(bar)
    return starts, outcomes


def _show(bars: Progress, bar: TaskID, share: float) -> None:
    bars.update(bar, completed=share)


def _write(
    options: BalanceOptions,
    document: str,
    starts: list[StartResult],
    outcomes: list[BalanceOutcome],
    console: Console,
) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "balance.json").write_text(document)
    console.print(f"written: {options.out / 'balance.json'}", highlight=False)
    if options.plot is None or not (starts or outcomes):
        return
    try:
        from benchmarks.balance.plot import write_plot
    except ImportError:
        console.print("no plot: matplotlib is not installed: `pip install 'sulina[bench]'`")
        return
    write_plot(starts, outcomes, options.plot)
    console.print(f"written: {options.plot}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
