"""Runs Danube's own tests against Sulina: ``make danube-tests``, or this module.

Takes checkouts of Danube's repositories where there are any, and runs their tests, unchanged, with
their own runners (cargo, pytest, go, Maven), against servers that it starts: one process, or a
cluster of three brokers that redirects clients or proxies for them. The outcome must be the list
in differences.toml: any other failure fails the run, and so does a listed test that passes.

Exit code 0: as listed; 1: not so, or a suite could not run; 2: there is nothing to run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from subprocess import SubprocessError

from benchmarks.systems.base import CannotStart
from tests.danube.conformance import servers, suites
from tests.danube.conformance.differences import LIST, Verdict, compare, read_list
from tests.danube.conformance.results import Case, Unreadable
from tests.danube.conformance.suites import RUST, SUITES, CannotRun, Suite

_EXAMPLES = """examples:
  python -m tests.danube.conformance --danube ~/danube
  python -m tests.danube.conformance --danube ~/danube --go ~/danube-go --on one,redirect,proxy
  python -m tests.danube.conformance --python ~/danube-py --json > danube.json
"""
_DETAIL_LINES = 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, report."""
    given = _parser().parse_args(arguments)
    chosen = {suite: getattr(given, suite.option.strip("-")) for suite in SUITES}
    ready: dict[Suite, Path] = {}
    for suite, checkout in chosen.items():
        if why := suite.missing(checkout):
            sys.stderr.write(f"{suite.name}: left out: {why}\n")
        else:
            ready[suite] = checkout.resolve()
    if not ready:
        return 2
    if servers.port_in_use():
        sys.stderr.write(f"port {servers.PORT} is in use: stop the broker that uses it\n")
        return 2
    run = ConformanceRun("danube" if given.danube_rules else "exact", as_json=given.json)
    with tempfile.TemporaryDirectory(prefix="sulina-danube-") as folder:
        run.all(ready, given.on.split(","), given.keep or Path(folder))
    return 0 if run.good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.danube.conformance",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for suite in SUITES:
        parser.add_argument(
            suite.option, type=Path, metavar="PATH", help=f"checkout of {suite.name}"
        )
    parser.add_argument(
        "--on",
        type=_kinds,
        default=servers.ONE,
        metavar="SERVERS",
        help=f"servers to run them on: {', '.join(servers.KINDS)}; several with commas "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--danube-rules",
        action="store_true",
        help="let the servers compare JSON Schemas by Danube's rules",
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep logs and data in it")
    parser.add_argument("--json", action="store_true", help="print one JSON object per servers")
    return parser


def _kinds(text: str) -> str:
    if unknown := set(text.split(",")) - set(servers.KINDS):
        raise argparse.ArgumentTypeError(f"unknown servers: {', '.join(sorted(unknown))}")
    return text


class ConformanceRun:
    """One run of the command. Reports each suite when it has ended, then what is wrong with it."""

    def __init__(self, rules: str, *, as_json: bool) -> None:
        self.good = True
        self._rules = rules
        self._json = as_json
        self._listed = read_list(LIST.read_text())

    def all(self, ready: Mapping[Suite, Path], kinds: Sequence[str], folder: Path) -> None:
        """Run all suites on servers of all kinds."""
        for kind in kinds:
            place = _new(folder / kind)
            with servers.started(kind, place, self._rules) as running:
                for suite, checkout in ready.items():
                    self._suite(kind, suite.name, partial(suite.run, checkout, running, place))
        if RUST in ready:
            place = _new(folder / servers.SECURED)
            with servers.secured(place) as guarded:
                security = partial(suites.run_security, ready[RUST], guarded, place)
                self._suite(servers.SECURED, RUST.name, security)

    def _suite(self, kind: str, name: str, run: Callable[[], list[Case]]) -> None:
        begun = time.monotonic()
        try:
            cases = run()
        except (CannotRun, CannotStart, Unreadable, SubprocessError) as error:
            self.good = False
            self._report(kind, name, {"error": str(error)}, f"could not run: {error}")
            return
        listed = [each for each in self._listed if each.applies(kind, self._rules)]
        verdict = compare(cases, listed)
        self.good &= verdict.good
        seconds = time.monotonic() - begun
        document = {**asdict(verdict), "good": verdict.good, "seconds": round(seconds)}
        self._report(kind, name, document, f"{described(verdict)} ({seconds:.0f} s)")

    def _report(self, kind: str, name: str, document: Mapping[str, object], text: str) -> None:
        if self._json:
            text = json.dumps({"servers": kind, "suite": name, **document})
        else:
            text = f"{name} on {kind}: {text}"
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def _new(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def described(verdict: Verdict) -> str:
    """A verdict in words: the counts, then a line for each test that needs attention."""
    counts = {
        "passed": verdict.passed,
        "failed": len(verdict.failed),
        "failed as expected": len(verdict.expected),
        "skipped": verdict.skipped,
    }
    lines = [", ".join(f"{number} {word}" for word, number in counts.items() if number)]
    lines += [f"  as expected: {case.name}: {reason}" for case, reason in verdict.expected]
    lines += [f"  passes, but is listed as a difference: {name}" for name in verdict.healed]
    lines += [f"  listed as a difference, but not run: {name}" for name in verdict.absent]
    for case in verdict.failed:
        lines.append(f"  FAILED {case.name}")
        lines += [f"    {line}" for line in case.detail.splitlines()[:_DETAIL_LINES]]
    return "\n".join(lines)
