"""``python -m benchmarks.cluster failover|moves|idle``: measure a cluster of processes."""

from __future__ import annotations

import argparse
import asyncio
import json
import os

from benchmarks.cluster.failover import failover
from benchmarks.cluster.idle import idle
from benchmarks.cluster.moves import moves


def main() -> None:
    """Run one measurement; prints JSON, including the machine's load."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("failover", help="kill a broker with kill -9")
    one.add_argument("--topics", type=int, default=1000)
    one.add_argument("--lease", type=int, default=8)
    one.add_argument("--freeze", action="store_true", help="SIGSTOP instead of kill -9")
    one = kinds.add_parser("moves", help="move a topic while publishing to it")
    one.add_argument("--count", type=int, default=30)
    one = kinds.add_parser("idle", help="create many idle topics on one broker")
    one.add_argument("--topics", type=int, default=10_000)
    given = parser.parse_args()
    if given.kind == "failover":
        work = failover(given.topics, given.lease, freeze=given.freeze)
    elif given.kind == "moves":
        work = moves(given.count)
    else:
        work = idle(given.topics)
    before = os.getloadavg()[0]
    print(json.dumps({**asyncio.run(work), "load_of_machine": before}, indent=2))


if __name__ == "__main__":
    main()
