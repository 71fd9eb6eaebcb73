"""``python -m tests.simulation --seeds 0-299``: runs many seeds on all cores.

A failing seed is shown with the end of its trace and the command that repeats it. Where the output
is no terminal, a line every ten seconds names the seeds that have ended, and each violation is
shown as soon as it is found, so that a run which is stopped tells what it has tried.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tests.simulation.simulate import RunOutcome, simulate
from tests.simulation.switches import Switches

_SHOWN = 60
_PROGRESS_SECONDS = 10.0
Mode = dict[str, bool]
"""The kind of world: ``services``, ``tier``, ``tables``, ``life``."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of many seeds."""

    seeds: int
    failed: list[RunOutcome]
    events: int
    records: int
    seconds: float


def replay_command(
    seed: int,
    without: str | None = None,
    *,
    services: bool = False,
    tier: bool = False,
    tables: bool = False,
    life: bool = False,
) -> str:
    """The command that repeats a run."""
    option = f" --without {without}" if without else ""
    mode = " --cluster" if services else " --tier" if tier else " --tables" if tables else ""
    mode = " --life" if life else mode
    return f"python -m tests.simulation{mode} --seeds {seed} --trace{option}"


def run_many(
    seeds: Sequence[int],
    jobs: int,
    without: str | None = None,
    *,
    services: bool = False,
    tier: bool = False,
    tables: bool = False,
    life: bool = False,
) -> Iterator[RunOutcome]:
    """The outcomes, in the order of completion."""
    switches = Switches() if without is None else Switches().without(without)
    mode = {"services": services, "tier": tier, "tables": tables, "life": life}
    work = partial(simulate, switches=switches, keep=_SHOWN, **mode)
    if jobs == 1 or len(seeds) == 1:
        yield from map(work, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(work, seeds)


def parse_seeds(text: str) -> list[int]:
    """``7``, ``0-299`` or ``3,8,20-29``."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        try:
            seeds += range(int(first), int(last or first) + 1)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"invalid seeds {text!r}: write 7, 0-299 or 3,8,20-29"
            ) from None
    return seeds


def parse_safeguards(text: str) -> str:
    """Check that ``text`` names safeguards."""
    known = Switches.names()
    for name in text.split("+"):
        if name not in known:
            raise argparse.ArgumentTypeError(
                f"unknown safeguard {name!r}: choose from {', '.join(known)}"
            )
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if no seed fails, 1 otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description="Simulate a whole cluster with faults, once per seed.",
    )
    parser.add_argument("--seeds", type=parse_seeds, default=parse_seeds("0-299"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--cluster", action="store_true", help="with the cluster's services: they assign topics"
    )
    parser.add_argument(
        "--tier", action="store_true", help="with an object store: ledgers are offloaded"
    )
    parser.add_argument(
        "--tables", action="store_true", help="without a cluster: a lake, a table and who commits"
    )
    parser.add_argument(
        "--life", action="store_true", help="with policies: years pass, and records with them"
    )
    parser.add_argument("--trace", action="store_true", help="show all events")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument(
        "--without",
        type=parse_safeguards,
        metavar="SAFEGUARD",
        help="leave out a safeguard, or several: this+that",
    )
    options = parser.parse_args(arguments)
    mode = {
        "services": options.cluster,
        "tier": options.tier,
        "tables": options.tables,
        "life": options.life,
    }
    console = Console(stderr=options.json)
    if options.trace:
        return _show(console, options.seeds, options.without, mode)
    summary = _run(console, options.seeds, options.jobs, options.without, mode)
    for outcome in summary.failed:
        _report(console, outcome, options.without, mode)
    if options.json:
        sys.stdout.write(json.dumps(_as_json(summary, options.without, mode), indent=2) + "\n")
    else:
        console.print(
            f"{summary.seeds} seeds, {len(summary.failed)} failed, "
            f"{summary.records:,} records confirmed; {summary.seconds:.1f} s, "
            f"{summary.seeds / summary.seconds:.1f} seeds/s, "
            f"{summary.events / summary.seconds:,.0f} events/s with {options.jobs} processes"
        )
    return 1 if summary.failed else 0


def _run(
    console: Console, seeds: Sequence[int], jobs: int, without: str | None, mode: Mode
) -> Summary:
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]} failed"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    failed: list[RunOutcome] = []
    ended: list[int] = []
    events = records = 0
    began = said = time.perf_counter()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(seeds), failed=0)
        for outcome in run_many(seeds, jobs, without, **mode):
            events += outcome.events
            records += outcome.records
            ended.append(outcome.seed)
            if outcome.violation is not None:
                failed.append(outcome)
                if not console.is_terminal:
                    _say(console, f"seed {outcome.seed}: {outcome.violation}")
            progress.update(bar, advance=1, failed=len(failed))
            if not console.is_terminal and time.perf_counter() - said >= _PROGRESS_SECONDS:
                said = time.perf_counter()
                _say(console, progress_line(ended, len(seeds), len(failed)))
    failed.sort(key=lambda outcome: outcome.seed)
    return Summary(len(seeds), failed, events, records, time.perf_counter() - began)


def progress_line(ended: Iterable[int], total: int, failed: int) -> str:
    """Which seeds have ended, as ``--seeds`` takes them."""
    seeds = sorted(ended)
    # In a row of consecutive seeds, the difference between a seed and its place is the same.
    rows = [
        [seed for _, seed in row]
        for _, row in groupby(enumerate(seeds), key=lambda pair: pair[1] - pair[0])
    ]
    ranges = ",".join(str(row[0]) if len(row) == 1 else f"{row[0]}-{row[-1]}" for row in rows)
    return f"{len(seeds)} of {total} seeds ended, {failed} failed: {ranges}"


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.file.flush()


def _report(console: Console, outcome: RunOutcome, without: str | None, mode: Mode) -> None:
    console.rule(f"seed {outcome.seed}")
    for line in outcome.lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(outcome.violation, style="red", markup=False, soft_wrap=True)
    again = replay_command(outcome.seed, without, **mode)
    console.print(f"to repeat: {again}", markup=False, soft_wrap=True)


def _show(console: Console, seeds: Sequence[int], without: str | None, mode: Mode) -> int:
    failed = 0
    switches = Switches() if without is None else Switches().without(without)
    for seed in seeds:
        outcome = simulate(seed, switches, keep=None, **mode)
        for line in outcome.lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        console.print(
            f"seed {seed}: {outcome.violation or 'no violation'}, {outcome.digest}", markup=False
        )
        failed += outcome.violation is not None
    return 1 if failed else 0


def _as_json(summary: Summary, without: str | None, mode: Mode) -> dict[str, object]:
    return {
        "seeds": summary.seeds,
        "records": summary.records,
        "events": summary.events,
        "seconds": round(summary.seconds, 3),
        "failed": [
            {
                "seed": outcome.seed,
                "violation": outcome.violation,
                "again": replay_command(outcome.seed, without, **mode),
            }
            for outcome in summary.failed
        ],
    }
