"""The command line of the chaos test: ``make chaos MINUTES=5``, or ``python -m tests.chaos``.

Exit code 0: every promise was kept; 1: one was broken, and the data and logs are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from broker_containers.local_cluster.ports import ClusterSize
from sulina.cli import output
from sulina.cli.progress import Progress
from sulina.cli.settings import CliSettings
from tests.chaos.faults import FAULTS
from tests.chaos.report import Report
from tests.chaos.run import Task, run


def main() -> int:
    """Parse, run, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to do harm")
    parser.add_argument("--seed", type=int, default=None, help="repeats the same faults")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--storage", type=int, default=3)
    parser.add_argument("--etcd", type=int, default=3)
    parser.add_argument("--loads", type=int, default=2, help="sets of 4 producers, 7 consumers")
    parser.add_argument("--lease", type=int, default=4, help="seconds until a broker counts dead")
    parser.add_argument("--only", action="append", metavar="FAULT", help="this kind, and further")
    parser.add_argument("--report", type=Path, help="write the report there, as JSON")
    parser.add_argument("--data", type=Path, help="a new folder for data and logs; it is kept")
    given = parser.parse_args()
    kinds = {fault.kind: fault for fault in FAULTS}
    unknown = set(given.only or ()) - set(kinds)
    if unknown:
        parser.error(f"no fault is called {', '.join(unknown)}: choose from {', '.join(kinds)}")
    task = Task(
        seconds=given.minutes * 60,
        seed=random.randrange(1 << 32) if given.seed is None else given.seed,
        counts=ClusterSize(given.brokers, given.storage, given.etcd),
        loads=given.loads,
        lease=given.lease,
        faults=tuple(kinds[kind] for kind in given.only) if given.only else FAULTS,
    )
    folder = given.data or Path(tempfile.mkdtemp(prefix="sulina-chaos-"))
    # The wires write to whom was killed a moment ago, which asyncio finds worth a warning.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    console = output.console()
    console.print(f"seed {task.seed}: {given.minutes:g} minutes of faults")
    report = asyncio.run(_shown(task, folder, console))
    report.show(console)
    if given.report is not None:
        given.report.write_text(json.dumps(report.to_dict(), indent=2) + "\n")
    if report.violations:
        console.print(f"data and logs: {folder}; the same faults again: --seed {task.seed}")
        return 1
    if given.data is None:
        shutil.rmtree(folder)
    return 0


async def _shown(task: Task, folder: Path, console: Console) -> Report:
    """Run it with a bar that shows how far it is, on a terminal."""
    began = time.monotonic()
    with Progress(CliSettings(), "chaos", task.seconds) as bar:

        async def tick() -> None:
            while True:
                done = time.monotonic() - began
                note = "harm" if done < task.seconds else "checking"
                bar.show(min(done, task.seconds), note)
                await asyncio.sleep(0.5)

        def tell(line: str) -> None:
            console.print(line, markup=False)
            sys.stdout.flush()

        ticking = asyncio.create_task(tick())
        try:
            return await run(task, folder, tell)
        finally:
            ticking.cancel()
