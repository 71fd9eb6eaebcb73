"""Proves from one end to the other that a record survives as it was published.

Real processes, a real S3 server: publishes records to topics of all kinds, makes objects of them,
wipes every journal, comes back, replays all with a consumer and scans all with Spark. Exit code 0:
all three saw the same records, with the same digests; 1: they did not, or a step failed, and data
and logs are kept; 2: wrong arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from localstack.emulators.s3 import make_bucket
from localstack.emulators.seaweedfs import running_seaweedfs
from sulina.cli.output import console, print_table
from sulina.cli.progress import Progress
from sulina.cli.settings import CliSettings
from sulina.errors import SulinaError
from tests.end_to_end.places import open_place
from tests.end_to_end.proof import Proof, prove
from tests.end_to_end.scan import Scanned

_BUCKET: Final = "lake"
_LEAST: Final = 1000


def main() -> int:
    """Parse, prove, tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.end_to_end", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="default: 1000000")
    parser.add_argument("--embedded", action="store_true", help="one process, and no cluster")
    parser.add_argument("--tier", help="an object store that is there; else a new SeaweedFS")
    parser.add_argument("--seed", default="sulina", help="makes the records")
    parser.add_argument("--no-spark", action="store_true", help="leave out Spark's part")
    parser.add_argument("--json", action="store_true", help="print the result as JSON alone")
    parser.add_argument("--report", type=Path, help="also write the JSON there")
    parser.add_argument("--data", type=Path, help="a new folder for data and logs; it is kept")
    given = parser.parse_args()
    if given.records < _LEAST:
        parser.error(f"--records has to be {_LEAST} or more")
    if given.data is not None and given.data.exists():
        parser.error(f"{given.data} is there already: --data names a new folder")
    folder = given.data or Path(tempfile.mkdtemp(prefix="sulina-end-to-end-"))
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    try:
        proof = _run(given, folder.absolute())
    except (SulinaError, RuntimeError, ExceptionGroup) as error:
        sys.stderr.write(f"error: {_cause(error)}; data and logs: {folder}\n")
        return 1
    result = proof.to_dict()
    if given.report is not None:
        given.report.write_text(json.dumps(result, indent=2) + "\n")
    if given.json:
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        _tell(proof)
    if proof.faults:
        sys.stderr.write(f"data and logs: {folder}\n")
        return 1
    if given.data is None:
        shutil.rmtree(folder)
    return 0


def _run(given: argparse.Namespace, folder: Path) -> Proof:
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        tier = given.tier
        if tier is None:
            server = stack.enter_context(running_seaweedfs(folder / "seaweedfs"))
            make_bucket(server.url, server.credentials, _BUCKET)
            os.environ.update(server.variables)  # for the processes, and Spark's
            tier = f"s3://{_BUCKET}/proof"

        async def scan() -> Scanned:
            return await asyncio.to_thread(_scan, tier, folder / "spark.log")

        async def run() -> Proof:
            async with open_place(folder / "sulina", tier, embedded=given.embedded) as place:
                wanted = None if given.no_spark else scan
                return await prove(place, given.records, given.seed, wanted, watch)

        watch = stack.enter_context(_Shown(CliSettings(json=given.json)))
        return asyncio.run(run())


def _scan(tier: str, log: Path) -> Scanned:
    """Spark in a process of its own, as a job is."""
    command = [sys.executable, "-m", "tests.end_to_end.scan", "--path", tier]
    with log.open("ab") as said:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=said, check=False)
    if ran.returncode:
        raise RuntimeError(f"Spark's part ended with {ran.returncode}: {log} says why")
    return Scanned(**json.loads(ran.stdout))


class _Shown(ExitStack):
    """Each step as a bar on a terminal, and as a line when it is over."""

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


def _tell(proof: Proof) -> None:
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
        "journals wiped"
    )
    for fault in proof.faults:
        out.print(f"FAULT {fault}", markup=False)
    if not proof.faults:
        seen = ", replayed and scanned" if proof.scanned else " and replayed"
        out.print(
            f"{len(proof.published)} topic partitions: published{seen} records have the same "
            "digests"
        )


def _cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
