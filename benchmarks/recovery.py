"""``python -m benchmarks.recovery``: how long a new owner needs to recover a ledger.

A writer process appends entries to a ledger on three storage node processes and is killed with
SIGKILL; then another owner recovers the ledger: fences it, finds its end, and closes it. This is
measured twice: with every entry confirmed and known to be, and with every entry in flight, so that
the new owner must read and rewrite each of them.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

from rich.console import Console

from benchmarks import program
from benchmarks.stats import percentile
from benchmarks.systems.base import SystemServer
from benchmarks.systems.sulina_ import start_storage_nodes
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.settings import QuorumSettings
from storage_grpc.remote import RemoteNodes
from sulina.metadata.embedded import EmbeddedStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_disk import RealDisk
from sulina.runtime.real_random import real_random

GOAL_SECONDS = 2.0
LEDGER = 1
NODES = 3
WINDOW = 100
"""The number of appends in flight of the writer that waits for confirmations."""
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class RecoveryOptions(program.OutputOptions):
    """The command line's options."""

    entries: int = program.option(10_000, "number of entries")
    size: int = program.option(1024, "bytes per entry")
    repeat: int = program.option(5, "number of repetitions, each with new processes")


@dataclass(frozen=True, slots=True)
class Case:
    """What the writer had done when it was killed, and how long each recovery took, sorted."""

    name: str
    seconds: list[float]


def main() -> int:
    """Run the benchmark; exits with 1 if a recovery took too long."""
    options = program.parse(RecoveryOptions, "recovery", __doc__, None)
    console = Console(stderr=options.json)
    cases = [
        Case("all confirmed", _measure(options, in_flight=False)),
        Case("all in flight", _measure(options, in_flight=True)),
    ]
    table = program.table_of(
        f"recovery of an open ledger with {options.entries:,} entries of {options.size:,} B "
        f"on {NODES} storage processes, {options.repeat} times",
        *("when the writer was killed", "median s", "worst s"),
        caption=f"goal: under {GOAL_SECONDS:g} s",
    )
    for case in cases:
        table.add_row(case.name, f"{percentile(case.seconds, 0.5):.2f}", f"{case.seconds[-1]:.2f}")
    console.print(table)
    document = json.dumps(
        {"entries": options.entries, "size": options.size, "cases": [asdict(c) for c in cases]},
        indent=1,
    )
    program.write_document(document, options.out / "recovery.json", show=options.json)
    return 0 if all(case.seconds[-1] < GOAL_SECONDS for case in cases) else 1


def _measure(options: RecoveryOptions, *, in_flight: bool) -> list[float]:
    return sorted(_repetition(options, in_flight) for _ in range(options.repeat))


def _repetition(options: RecoveryOptions, in_flight: bool) -> float:
    with program.data_folder(options.out, "recovery") as folder:
        server = SystemServer(folder / "server.log")
        try:
            places = start_storage_nodes(server, folder)
            _write_and_die(options, places, folder, in_flight)
            return asyncio.run(_recover(options, places, folder))
        finally:
            server.stop()


def _write_and_die(
    options: RecoveryOptions, places: list[str], folder: Path, in_flight: bool
) -> None:
    context = multiprocessing.get_context("spawn")
    written = context.Event()
    writer = context.Process(
        target=_writer_main, args=(options, places, folder, in_flight, written), daemon=True
    )
    writer.start()
    try:
        if not written.wait(PATIENCE):
            raise TimeoutError(f"the writer did not finish within {PATIENCE:g} s")
    finally:
        writer.kill()
        writer.join()


def _writer_main(
    options: RecoveryOptions, places: list[str], folder: Path, in_flight: bool, written: Event
) -> None:
    asyncio.run(_write(options, places, folder, in_flight, written))


async def _write(
    options: RecoveryOptions, places: list[str], folder: Path, in_flight: bool, written: Event
) -> None:
    async with _ledgers(places, folder) as ledgers:
        writer = await ledgers.create(LEDGER)
        payload = bytes(options.size)
        appended = []
        for entry in range(options.entries):
            appended.append(writer.append(payload))
            if not in_flight and entry >= WINDOW:
                await appended[entry - WINDOW]
        # Sent in one go, no entry could tell the nodes that another one was confirmed.
        await asyncio.gather(*appended)
        written.set()
        await asyncio.sleep(PATIENCE)


async def _recover(options: RecoveryOptions, places: list[str], folder: Path) -> float:
    async with _ledgers(places, folder) as ledgers:
        began = time.monotonic()
        last = await ledgers.recover(LEDGER)
        took = time.monotonic() - began
    if last != options.entries - 1:
        raise AssertionError(f"the last of {options.entries} acknowledged entries is {last}")
    return took


@asynccontextmanager
async def _ledgers(places: list[str], folder: Path) -> AsyncIterator[QuorumLedgers]:
    """A broker's ledger client, without the broker."""
    clock = RealClock()
    disk = RealDisk(folder / "metadata")
    store = await EmbeddedStore.open(clock, disk)
    try:
        async with RemoteNodes(places, clock, real_random()) as nodes:
            async with asyncio.timeout(PATIENCE):
                await nodes.ready(NODES)
            yield QuorumLedgers(nodes, store, clock, QuorumSettings())
    finally:
        await store.close()
        await disk.close()


if __name__ == "__main__":
    sys.exit(main())
