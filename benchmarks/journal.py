"""``python -m benchmarks.journal``: appends to a journal, with and without prepared files.

No broker and no network: writers in one process, each with one entry in flight, append to the
journal of a storage node. The two kinds take turns, each with an empty folder. The time to the
first prepared file is not measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks import program
from benchmarks.stats import Percentiles, summarize
from storage_grpc.journal import JournalSettings, JournalStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_disk import RealDisk
from sulina.runtime.real_random import real_random

KINDS = {"reserved only": 0, "prepared": JournalSettings().prewrite_after}
WRITERS = (1, 16, 64, 256)


@dataclass(frozen=True, slots=True)
class JournalOptions(program.OutputOptions):
    """The command line's options."""

    size: int = program.option(1024, "bytes per entry")
    seconds: float = program.option(3.0, "seconds of each turn that are measured")
    warm_up: float = program.option(2.0, "seconds before that")
    repeat: int = program.option(5, "turns of each kind")


@dataclass(frozen=True, slots=True)
class JournalTurn:
    """One turn: appends of a number of writers to one kind of journal."""

    kind: str
    writers: int
    per_second: float
    latency_ms: Percentiles
    cpu_us: float
    """Of the whole process, for each append; includes preparing files."""


def main() -> int:
    """Run the benchmark."""
    options = program.parse(JournalOptions, "journal", __doc__, None)
    console = Console(stderr=options.json)
    turns: list[JournalTurn] = []
    for writers in WRITERS:
        for number in range(options.repeat):
            turns += [_turn(options, kind, writers) for kind in KINDS]
            console.print(f"{writers} writers, turn {number + 1} of {options.repeat}")
    console.print(_table(turns, options))
    document = json.dumps([asdict(turn) for turn in turns], indent=1)
    program.write_document(document, options.out / "journal.json", show=options.json)
    return 0


def _turn(options: JournalOptions, kind: str, writers: int) -> JournalTurn:
    with program.data_folder(options.out, "journal") as folder:
        return asyncio.run(_append(options, kind, writers, folder))


async def _append(options: JournalOptions, kind: str, writers: int, folder: Path) -> JournalTurn:
    disk = RealDisk(folder)
    settings = JournalSettings(prewrite_after=KINDS[kind])
    store = await JournalStore.open(disk, RealClock(), settings, real_random())
    payload = os.urandom(options.size)
    samples: list[float] = []
    begin = time.perf_counter() + options.warm_up
    end = begin + options.seconds

    async def write(ledger: int) -> None:
        entry = 0
        while (sent := time.perf_counter()) < end:
            await store.append(ledger, entry, entry - 1, payload)
            entry += 1
            if sent >= begin:
                samples.append((time.perf_counter() - sent) * 1000)

    writing = [asyncio.create_task(write(1 + number)) for number in range(writers)]
    await asyncio.sleep(options.warm_up)
    before = _cpu_seconds()
    await asyncio.gather(*writing)
    used = _cpu_seconds() - before
    await store.close()
    await disk.close()
    return JournalTurn(
        kind,
        writers,
        len(samples) / options.seconds,
        summarize(samples),
        used * 1e6 / len(samples),
    )


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _table(turns: list[JournalTurn], options: JournalOptions) -> Table:
    table = program.table_of(
        f"appends of {options.size:,} B, one in flight for each writer; medians of "
        f"{options.repeat} turns",
        *("writers", "files", "appends/s", "p50 ms", "p99 ms", "p99.9 ms", "CPU us"),
        left=2,
    )
    for writers in WRITERS:
        for kind in KINDS:
            some = [turn for turn in turns if (turn.writers, turn.kind) == (writers, kind)]
            table.add_row(
                str(writers),
                kind,
                f"{median(turn.per_second for turn in some):,.0f}",
                f"{median(turn.latency_ms.p50 for turn in some):.2f}",
                f"{median(turn.latency_ms.p99 for turn in some):.2f}",
                f"{median(turn.latency_ms.p999 for turn in some):.2f}",
                f"{median(turn.cpu_us for turn in some):.1f}",
            )
    return table


if __name__ == "__main__":
    raise SystemExit(main())
