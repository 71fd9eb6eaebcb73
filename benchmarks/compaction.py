"""``python -m benchmarks.compaction``: compaction by key beside plain copying, on one machine.

Writes objects with records of random keys to a folder. Then one process copies them all (read,
check, decode, encode, write, read back, verify), and another one compacts them in the way storage
nodes do: run by run, each compared with all later objects. Both verify what they wrote. Rates are
in MB of the frames that are read, 10^6 bytes; memory is each process's peak. The result is compared
with the newest offset of each key.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.program import option, parse
from storage_grpc.tier.local import LocalTier
from storage_grpc.tier.tier import EntrySource, ReplaceJob, Rewrite, SourceObject, key_of
from sulina.lake.encoder import LedgerEncoder
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.names import TopicName
from sulina.objects.folder import FolderStore
from sulina.runtime.real_random import real_random
from sulina.runtime.threads import ThreadRunner
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import assign

TOPIC: Final = TopicName.parse("/default/compacted")
_NOW: Final = 1_790_000_000_000_000
_MB: Final = 1e6
_FRAME: Final = 1000
_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """The command line's options."""

    records: int = option(1_000_000, "records")
    keys: int = option(100_000, "keys")
    size: int = option(100, "bytes per payload")
    ledger_records: int = option(1_000_000, "records per object")
    run_records: int = option(10_000_000, "records that one compacted object replaces")
    out: str = option("", "data folder; a temporary one if empty")
    json: bool = option(False, "print the result as JSON")


@dataclass(frozen=True, slots=True)
class Phase:
    """What one process did."""

    seconds: float
    cpu_seconds: float
    peak_memory: int
    objects: int
    records: int
    """In the objects that it wrote."""
    bytes: int
    """Of those objects."""


@dataclass(frozen=True, slots=True)
class CompactionRates:
    """The outcome."""

    records: int
    keys: int
    left: int
    """Records after compaction."""
    frame_bytes: int
    object_bytes: int
    copy: Phase
    compaction: Phase

    def rate(self, phase: Phase) -> float:
        """MB of frames per second."""
        return self.frame_bytes / _MB / phase.seconds


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parse(CompactionOptions, "benchmarks.compaction", __doc__ or "", arguments)
    if options.out:
        Path(options.out).mkdir(parents=True, exist_ok=True)
        rates = measure(options, Path(options.out))
    else:
        with tempfile.TemporaryDirectory(prefix="sulina-compaction-") as folder:
            rates = measure(options, Path(folder))
    if options.json:
        print(json.dumps(asdict(rates)))
    else:
        _show(rates)
    return 0


def measure(options: CompactionOptions, folder: Path) -> CompactionRates:
    """Write the objects, copy them, compact them, each in a process of its own."""
    sources: list[ObjectSummary] = _apart(partial(_write, options, folder))
    before = set(folder.rglob("*.parquet"))
    copied: Phase = _apart(partial(_replace, folder, Rewrite.MERGE, sources, options))
    for copy in set(folder.rglob("*.parquet")) - before:
        copy.unlink()  # so that there is never more than twice the data on the disk
    compacted: Phase = _apart(partial(_replace, folder, Rewrite.COMPACT, sources, options))
    left = len(np.unique(_keys(options)))
    if compacted.records != left:
        raise SystemExit(f"{compacted.records} records are left instead of {left}")
    return CompactionRates(
        options.records,
        options.keys,
        left,
        sum(each.bytes for each in sources),
        sum(each.size for each in sources),
        copied,
        compacted,
    )


def _apart(work: Callable[[], Any]) -> Any:
    """The result of ``work`` in a new process, so that its memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work)


def _keys(options: CompactionOptions) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(_SEED).integers(0, options.keys, options.records)


def _write(options: CompactionOptions, folder: Path) -> list[ObjectSummary]:
    keys = _keys(options)
    chance = np.random.default_rng(_SEED + 1)
    found: list[ObjectSummary] = []
    for number, start in enumerate(range(0, options.records, options.ledger_records)):
        head = ObjectHead(TOPIC, number + 1, start)
        encoder = LedgerEncoder(head)
        path = folder / key_of(head)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for first in range(start, min(start + options.ledger_records, options.records), _FRAME):
                some = keys[first : min(first + _FRAME, start + options.ledger_records)]
                body = chance.bytes(options.size * len(some))
                frame = bytearray(
                    encode_frame(
                        Origin("benchmark"),
                        first,
                        [body[at : at + options.size] for at in range(0, len(body), options.size)],
                        _NOW + first,
                        keys=[b"customer-%08d" % key for key in some.tolist()],
                    )
                )
                assign(frame, first, 1)
                file.writelines(encoder.add([bytes(frame)]))
            rest, summary = encoder.finish()
            file.writelines(rest)
        found.append(summary)
    return found


class _NoEntries(EntrySource):
    async def read(self, ledger: int, first: int, *, max_entries: int, max_bytes: int) -> Any:
        raise AssertionError("compaction reads objects, never entries")


def _replace(
    folder: Path, rewrite: Rewrite, sources: Sequence[ObjectSummary], options: CompactionOptions
) -> Phase:
    return asyncio.run(_replacing(folder, rewrite, sources, options))


async def _replacing(
    folder: Path, rewrite: Rewrite, summaries: Sequence[ObjectSummary], options: CompactionOptions
) -> Phase:
    store = FolderStore(folder, real_random())
    tier = LocalTier(store, _NoEntries(), ThreadRunner(2))
    sources = [
        SourceObject(ObjectHead(TOPIC, each.ledger, each.first_offset), each.digest)
        for each in summaries
    ]
    began, cpu = time.perf_counter(), time.process_time()
    generation = 1 if rewrite is Rewrite.MERGE else 1001
    at_once = max(options.run_records // options.ledger_records, 1)
    objects = records = size = 0
    for start in range(0, len(sources), at_once):
        run, last = sources[start : start + at_once], summaries[start : start + at_once][-1]
        head = ObjectHead(
            TOPIC, last.ledger, run[0].head.first_offset, generation + start, last.last_offset
        )
        later = tuple(sources[start + at_once :]) if rewrite is Rewrite.COMPACT else ()
        made = await tier.replace(ReplaceJob(head, tuple(run), rewrite, (), later))
        left = made.ref.records
        records += last.last_offset - head.first_offset + 1 if left is None else left
        objects, size = objects + 1, size + made.ref.size
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    await tier.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Phase(seconds, used, peak, objects, records, size)


def _show(rates: CompactionRates) -> None:
    sizes = [f"{size / _MB:,.0f} MB" for size in (rates.frame_bytes, rates.object_bytes)]
    title = f"{rates.records:,} records, {rates.keys:,} keys, {sizes[0]}, as objects {sizes[1]}"
    table = Table(title=title)
    for column in ("", "MB/s", "MB/s of CPU", "seconds", "memory", "left", "objects"):
        table.add_column(column, justify="right" if column else "left")
    for name, phase in (("copying", rates.copy), ("compaction", rates.compaction)):
        table.add_row(
            name,
            f"{rates.rate(phase):,.0f}",
            f"{rates.frame_bytes / _MB / phase.cpu_seconds:,.0f}",
            f"{phase.seconds:,.1f}",
            f"{phase.peak_memory / _MB:,.0f} MB",
            f"{phase.records:,}",
            f"{phase.objects}: {phase.bytes / _MB:,.0f} MB",
        )
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
