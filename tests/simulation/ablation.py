"""``python -m tests.simulation.ablation``: leaves out each safeguard and counts the seeds until an
invariant is violated.

Prints a table in Markdown. Fails if leaving out a safeguard violates nothing within ``--most``
seeds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from tests.simulation.run import parse_safeguards, run_many
from tests.simulation.simulate import RunOutcome
from tests.simulation.switches import Switches

_AT_ONCE = 8
"""Seeds that several processes run before anybody looks; one process looks after each."""
_FENCES = "fence_before_recovery"
UNNOTICED = {
    _FENCES: (
        "every read of a recovery fences too, and as many nodes are read to find the end; "
        "see the next row"
    ),
    "life_in_appends": (
        "2 of 20,000 seeds found it: a node must lose a synced fence while an earlier owner is cut "
        "off, and another node of the quorum must never have got it; a scenario in "
        "`test_pitfalls.py` does"
    ),
    "drop_only_entries": (
        "an erasure and tiering must delete the same entries while an object is replaced; a test "
        "in `tests/tier/test_tiering.py` does that"
    ),
    "settle_restored": (
        "an undo must fall between two rounds of compaction, and another removal after it; tests "
        "in `tests/tier/test_compacting.py` do that"
    ),
    "forget_erased": (
        "consumers of the simulation have taken what is in memory long before its erasure is done; "
        "a test in `tests/broker/test_compacted_topics.py` fails without it"
    ),
}
"""Safeguards whose absence need not be found, and why."""
ALL = [
    name
    for safeguard in Switches.names()
    for name in (
        (safeguard, f"{_FENCES}+fence_on_recovery_read") if safeguard == _FENCES else (safeguard,)
    )
]


@dataclass(frozen=True, slots=True)
class Finding:
    """How a missing safeguard was found."""

    safeguard: str
    seeds: int
    """How many were run, including the one that found it."""
    found: RunOutcome | None


def look_for(safeguard: str, most: int, jobs: int, first: int = 0) -> Finding:
    """Run seeds without a safeguard until one finds a violation.

    Safeguards of the cluster's services, of the cold tier, of tables and of the life of records are
    left out in runs with these.
    """
    mode = {
        "services": Switches.about_cluster(safeguard),
        "tier": Switches.about_tier(safeguard),
        "tables": Switches.about_tables(safeguard),
        "life": Switches.about_life(safeguard),
    }
    at_once = 1 if jobs == 1 else _AT_ONCE
    for start in range(first, first + most, at_once):
        seeds = range(start, min(start + at_once, first + most))
        outcomes = run_many(seeds, jobs, safeguard, **mode)
        found = [outcome for outcome in outcomes if outcome.violation is not None]
        if found:
            earliest = min(found, key=lambda outcome: outcome.seed)
            return Finding(safeguard, earliest.seed - first + 1, earliest)
    return Finding(safeguard, most, None)


def table(findings: Sequence[Finding]) -> str:
    """The findings in Markdown."""
    lines = ["| safeguard off | seeds needed | what was found |", "|---|---|---|"]
    for finding in findings:
        if finding.found is None:
            why = UNNOTICED.get(finding.safeguard, "")
            lines.append(f"| `{finding.safeguard}` | not found in {finding.seeds} | {why} |")
            continue
        what = (finding.found.violation or "").replace("|", "/")
        lines.append(f"| `{finding.safeguard}` | {finding.seeds} | {what[:160]} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if every missing safeguard was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.ablation")
    parser.add_argument(
        "--most", type=int, default=2000, help="maximum number of seeds per safeguard"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "safeguards",
        nargs="*",
        type=parse_safeguards,
        metavar="SAFEGUARD",
        help="this, or this+that",
    )
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    findings = []
    for name in options.safeguards or ALL:
        began = time.perf_counter()
        finding = look_for(name, options.most, options.jobs)
        findings.append(finding)
        outcome = f"seed {finding.found.seed}" if finding.found else "NOT FOUND"
        console.print(f"{name}: {outcome}, {time.perf_counter() - began:.1f} s", highlight=False)
    sys.stdout.write(table(findings) + "\n")
    return 0 if all(f.found or f.safeguard in UNNOTICED for f in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
