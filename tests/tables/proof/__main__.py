"""Prove that a topic's table has each record once, typed, and equals the replay.

Uses real processes: three brokers, three storage nodes, etcd, a real S3 server and a REST catalog.
Publishes orders with three versions of their schema to four partitions; two brokers are killed and
the catalog is away on the way; two processes commit to the table all the time, and small objects
are merged. Exit codes: 0 if the table is right; 1 if not, with data and logs kept;
2 for invalid arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from localstack.emulators.s3 import make_bucket
from localstack.emulators.seaweedfs import running_seaweedfs
from sulina.errors import SulinaError
from tests.support.rest_catalog import running_rest_catalog
from tests.tables.proof.places import CatalogProcess, brokers
from tests.tables.proof.run import ProofOptions, TableProof, prove

_BUCKET: Final = "lake"
_MIN_RECORDS: Final = 1000


def main() -> int:
    """Run the proof. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.tables.proof", description=__doc__)
    parser.add_argument(
        "--records", type=int, default=10_000_000, help="number of records (default: 10000000)"
    )
    parser.add_argument(
        "--down", type=float, default=60.0, help="seconds without the catalog (default: 60)"
    )
    parser.add_argument("--embedded", action="store_true", help="one process instead of a cluster")
    parser.add_argument("--data", type=Path, help="a new folder for data and logs, to be kept")
    given = parser.parse_args()
    if given.records < _MIN_RECORDS:
        parser.error(f"--records must be at least {_MIN_RECORDS}")
    if given.data is not None and given.data.exists():
        parser.error(f"{given.data} already exists: --data must be a new folder")
    folder = given.data or Path(tempfile.mkdtemp(prefix="sulina-table-proof-"))
    try:
        proof = _run(given, folder.absolute())
    except (SulinaError, RuntimeError, ExceptionGroup) as error:
        sys.stderr.write(f"error: {_cause(error)}; data and logs: {folder}\n")
        return 1
    sys.stdout.write(json.dumps(_plain(proof), indent=1) + "\n")
    if proof.faults:
        sys.stderr.write(f"data and logs: {folder}\n")
        return 1
    if given.data is None:
        shutil.rmtree(folder)
    return 0


def _run(given: argparse.Namespace, folder: Path) -> TableProof:
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        store = stack.enter_context(running_seaweedfs(folder / "seaweedfs"))
        make_bucket(store.url, store.credentials, _BUCKET)
        lake = f"s3://{_BUCKET}/proof"
        os.environ.update(store.variables)  # for the processes, too
        where = {"s3.endpoint": store.url, "s3.region": store.credentials.region}
        server = stack.enter_context(running_rest_catalog(folder / "catalog", lake, **where))
        os.environ.update(SULINA_TIER=lake, SULINA_CATALOG=server.url)
        options = ProofOptions(given.records, given.down)

        async def run() -> TableProof:
            async with brokers(folder / "sulina", lake, embedded=given.embedded) as place:
                catalog = CatalogProcess(server)
                return await prove(place, catalog, lake, folder / "commits", options, _say)

        return asyncio.run(run())


def _say(what: str) -> None:
    sys.stderr.write(f"{what}\n")


def _plain(proof: TableProof) -> dict[str, Any]:
    told = asdict(proof) | {"proved": not proof.faults}
    for name in ("table", "replayed"):
        told[name] = {
            f"{topic} {part}": asdict(each)
            for (topic, part), each in sorted(getattr(proof, name).items())
        }
    return told


def _cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
