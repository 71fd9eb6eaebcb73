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
import sys
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.proof_command import new_lake, parse_proof, proof_arguments, run_proof
from tests.support.rest_catalog import running_rest_catalog
from tests.tables.proof.places import CatalogProcess, brokers
from tests.tables.proof.run import ProofOptions, TableProof, prove


def main() -> int:
    """Run the proof. Returns the exit code."""
    parser = proof_arguments("tests.tables.proof", __doc__, 10_000_000)
    parser.add_argument(
        "--down", type=float, default=60.0, help="seconds without the catalog (default: 60)"
    )
    given = parse_proof(parser)
    return run_proof(given, partial(_run, given), _show)


def _run(given: argparse.Namespace, folder: Path) -> TableProof:
    with ExitStack() as stack:
        lake, store = new_lake(stack, folder)
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


def _show(proof: TableProof) -> None:
    told: dict[str, Any] = asdict(proof) | {"proved": not proof.faults}
    for name in ("table", "replayed"):
        told[name] = {
            f"{topic} {part}": asdict(each)
            for (topic, part), each in sorted(getattr(proof, name).items())
        }
    sys.stdout.write(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
