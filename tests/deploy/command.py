"""``make deploy-test``: the real program under Pulumi's own engine, on emulators that it starts.

Each step is printed with its time and its outcome. Exit code 0: every step did what it should; 1:
one did not, and the folder with logs, state and configuration is kept; 3: Pulumi or one of its
plugins is not installed. Nothing reaches an account of AWS.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

from localstack.cloud.engine import find_pulumi
from sulina.errors import Unavailable
from tests.deploy.scenario import STACKS, Result, run_stack

MISSING: Final = 3


def main(arguments: list[str] | None = None) -> int:
    """Parse, run, report. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.deploy", description=__doc__)
    parser.add_argument(
        "--stack", action="append", choices=sorted(STACKS), help="only this one; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="print each step as a line of JSON")
    parser.add_argument("--folder", type=Path, help="for logs, state and configuration; it is kept")
    given = parser.parse_args(arguments)
    try:
        pulumi = find_pulumi()
    except Unavailable as missing:
        sys.stderr.write(f"{missing}\n")
        return MISSING
    folder = given.folder or Path(tempfile.mkdtemp(prefix="sulina-deploy-"))
    failed = False
    for stack in given.stack or STACKS:
        for result in run_stack(stack, folder / stack, pulumi):
            failed |= bool(result.problems)
            line = json.dumps(asdict(result)) if given.json else shown(result)
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    if failed:
        sys.stderr.write(f"logs, state and configuration: {folder}\n")
        return 1
    if given.folder is None:
        shutil.rmtree(folder)
    return 0


def shown(result: Result) -> str:
    """A result as one line, and one more for each problem and each explained difference."""
    counts = ", ".join(f"{count} {name}" for name, count in result.counts.items()) or "no changes"
    outcome = "FAILED" if result.problems else "ok"
    line = f"{result.stack:<11} {result.step:<44} {result.seconds:6.1f} s  {outcome:<6} {counts}"
    problems = [f"    {problem}" for problem in result.problems]
    theirs = [f"    {count} x emulator: {why}" for why, count in result.emulator.items()]
    return "\n".join([line, *problems, *theirs])
