"""Prove end to end that records survive unchanged.

Uses real processes and a real S3 server: publishes records to topics of all types, tiers them,
deletes every journal, restarts, replays everything with a consumer and scans everything with Spark.
Exit codes: 0 if the digests of all three are equal; 1 if not, or if a step failed, in which case
data and logs are kept; 2 for invalid arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from sulina.cli.output import console, print_table
from sulina.cli.progress import Progress
from sulina.cli.settings import CliSettings
from tests.end_to_end.deployments import open_deployment
from tests.end_to_end.proof import Proof, prove
from tests.end_to_end.scan import Scanned
from tests.support.proof_command import new_lake, parse_proof, proof_arguments, run_proof


def main() -> int:
    """Run the proof. Returns the exit code."""
    parser = proof_arguments("tests.end_to_end", __doc__, 1_000_000)
    parser.add_argument("--tier", help="an existing object store (default: a new SeaweedFS)")
    parser.add_argument("--seed", default="sulina", help="seed of the generated records")
    parser.add_argument("--no-spark", action="store_true", help="skip the steps with Spark")
    parser.add_argument("--json", action="store_true", help="print only the result, as JSON")
    parser.add_argument("--report", type=Path, help="also write the JSON to this file")
    given = parse_proof(parser)
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    return run_proof(given, partial(_run, given), partial(_show, given))


def _show(given: argparse.Namespace, proof: Proof) -> None:
    result = proof.to_dict()
    if given.report is not None:
        given.report.write_text(json.dumps(result, indent=2) + "\n")
    if given.json:
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        _print(proof)


def _run(given: argparse.Namespace, folder: Path) -> Proof:
    with ExitStack() as stack:
        tier = given.tier or new_lake(stack, folder)[0]

        async def scan() -> Scanned:
            return await asyncio.to_thread(_scan, tier, folder / "spark.log")

        async def run() -> Proof:
            async with open_deployment(folder / "sulina", tier, embedded=given.embedded) as place:
                wanted = None if given.no_spark else scan
                return await prove(place, given.records, given.seed, wanted, watch)

        watch = stack.enter_context(_ProgressBars(CliSettings(json=given.json)))
        return asyncio.run(run())


def _scan(tier: str, log: Path) -> Scanned:
    """Run Spark in a separate process, like a job."""
    command = [sys.executable, "-m", "tests.end_to_end.scan", "--path", tier]
    with log.open("ab") as said:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=said, check=False)
    if ran.returncode:
        raise RuntimeError(f"the Spark scan exited with {ran.returncode}: see {log}")
    return Scanned(**json.loads(ran.stdout))


class _ProgressBars(ExitStack):
    """Shows each step as a progress bar, or without a terminal as a line."""

    def __init__(self, settings: CliSettings) -> None:
        super().__init__()
        self._settings = settings
        self._bar: Progress | None = None
        self._total: float | None = None
        self._name = ""

    def step(self, name: str, total: float | None) -> None:
        self.close()
        self._bar = self.enter_context(Progress(self._settings, name, total))
        self._total, self._name = total, name
        if not self._settings.json and not sys.stderr.isatty():
            sys.stderr.write(f"{name} ...\n")
        self.show(0)

    def show(self, done: float) -> None:
        assert self._bar is not None
        of = "" if self._total is None else f"{done:,.0f} of {self._total:,.0f}"
        self._bar.show(done, of)


def _print(proof: Proof) -> None:
    rows: list[dict[str, Any]] = [
        {
            "step": each.name,
            "seconds": each.seconds,
            "rate": each.mb_per_second or None,
            "records": each.records / each.seconds if each.records and each.seconds else None,
        }
        for each in proof.steps
    ]
    headings = {"step": "step", "seconds": "s", "rate": "MB/s", "records": "records/s"}
    print_table(rows, headings)
    out = console()
    out.print(
        f"{proof.records:,} records, {proof.bytes / 1e6:,.1f} MB of payloads; {proof.objects} "
        f"objects, {proof.object_bytes / 1e6:,.1f} MB; {proof.wiped_bytes / 1e6:,.1f} MB of "
        "journals deleted"
    )
    for fault in proof.faults:
        out.print(f"FAULT {fault}", markup=False)
    if not proof.faults:
        seen = ", replayed and scanned" if proof.scanned else " and replayed"
        out.print(
            f"{len(proof.published)} topic partitions: published{seen} records have the same "
            "digests"
        )
