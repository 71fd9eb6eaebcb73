"""The command line of the attacks: ``make attack``, or ``python -m tests.attack``.

Each attack runs against a real broker that needs tokens, while a bystander uses it. An attack
fails the run if the bystander waits more than 250 ms or is refused, if an attacker without a token
costs more than 64 MiB of memory, if anything is left behind after a minute (more than 8 MiB of
memory, file descriptors, threads, tasks, connections, files, topics, keys or leases), if a leader
or an owner of topics changes, or if the attack succeeds in another way. Finally SIGTERM must end
the broker with exit code 0. Exit code 0: the broker held; 1: it did not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

from tests.attack import strangers, tenants
from tests.attack.attack import ATTACKS, Attack, AttackSucceeded, Target
from tests.attack.footprint import settled
from tests.attack.run import Result, cluster, run_attack, single_broker

_EXAMPLES = """examples:
  python -m tests.attack --list
  python -m tests.attack --only http-kept-alive --only health-watchers
  python -m tests.attack --cluster --json > attacks.json
"""
GROUPS = (strangers, tenants)
"""The modules with attacks, imported for that."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, attack, report."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.attack",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="list the attacks and exit")
    parser.add_argument("--only", action="append", metavar="NAME", help="run this one; repeatable")
    parser.add_argument("--cluster", action="store_true", help="attack a broker of a cluster")
    parser.add_argument("--json", action="store_true", help="print one JSON object per attack")
    given = parser.parse_args(arguments)
    unknown = set(given.only or ()) - set(ATTACKS)
    if unknown:
        parser.error(f"unknown attack: {', '.join(sorted(unknown))}; --list shows all")
    if given.list:
        for each in ATTACKS.values():
            sys.stdout.write(f"{each.name:24} {each.needs:20} {each.what}\n")
        return 0
    chosen = [each for each in ATTACKS.values() if not given.only or each.name in given.only]
    start = cluster if given.cluster else single_broker
    try:
        results = asyncio.run(_run(chosen, start, as_json=given.json))
    except AttackSucceeded as error:
        sys.stderr.write(f"{error}\n")
        return 1
    failed = [each for each in results if not each.held]
    if not given.json:
        sys.stdout.write(f"{len(results) - len(failed)} of {len(results)} attacks held\n")
    return 1 if failed else 0


async def _run(
    attacks: Sequence[Attack],
    start: Callable[[Path], AbstractContextManager[Target]],
    *,
    as_json: bool,
) -> list[Result]:
    results = []
    if not as_json:
        sys.stdout.write(f"{'attack':24} {'growth':>10} {'left':>10} {'stall':>10}  outcome\n")
    with tempfile.TemporaryDirectory(prefix="sulina-attack-") as folder, start(Path(folder)) as at:
        await settled(at)
        for each in attacks:
            result = await run_attack(each, at)
            results.append(result)
            sys.stdout.write(json.dumps(asdict(result)) + "\n" if as_json else _row(result))
            sys.stdout.flush()
    return results


def _row(result: Result) -> str:
    outcome = "held" if result.held else f"FAILED: {result.detail}"
    return (
        f"{result.name:24} {result.growth_mib:6.0f} MiB {result.left_mib:6.0f} MiB "
        f"{result.stall_ms:7.0f} ms  {outcome}\n"
    )
