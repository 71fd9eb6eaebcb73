"""The tests of Danube's that Sulina is expected to fail, and whether a run agrees with them.

``differences.toml`` is the list: the test's name, the reason, and, where it is not always so, on
which servers or with which rules for JSON Schemas. A run is good if exactly the listed tests fail.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.danube.conformance.results import Case, Outcome

LIST = Path(__file__).with_name("differences.toml")


@dataclass(frozen=True, slots=True)
class Difference:
    """One test that fails, and why that is right."""

    test: str
    reason: str
    servers: tuple[str, ...] = ()
    """Only on these; empty means on all."""
    rules: str = ""
    """Only with these rules for JSON Schemas, ``exact`` or ``danube``; empty means with both."""

    def applies(self, servers: str, rules: str) -> bool:
        """Whether it is expected on servers of this kind with these rules."""
        return (not self.servers or servers in self.servers) and self.rules in ("", rules)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run compared with the list."""

    passed: int
    skipped: int
    expected: tuple[tuple[Case, str], ...]
    """Failed as listed, each with its reason."""
    failed: tuple[Case, ...]
    """Failed and not listed."""
    healed: tuple[str, ...]
    """Listed and passed: the list must become shorter."""
    absent: tuple[str, ...]
    """Listed and not run, although tests beside it were: the name is wrong or out of date."""

    @property
    def good(self) -> bool:
        return not (self.failed or self.healed or self.absent)


def read_list(text: str) -> list[Difference]:
    """The list. Raises ``ValueError`` if an entry is not as it should be, or twice."""
    found = [_checked(entry) for entry in tomllib.loads(text).get("difference", [])]
    names = [each.test for each in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"listed twice: {', '.join(sorted(twice))}")
    return found


def _checked(entry: dict[str, Any]) -> Difference:
    known = {"test", "reason", "servers", "rules"}
    if not entry.get("test") or not entry.get("reason") or set(entry) - known:
        raise ValueError(f"an entry needs test and reason, and may have servers and rules: {entry}")
    return Difference(**{**entry, "servers": tuple(entry.get("servers", ()))})


def compare(cases: Iterable[Case], listed: Iterable[Difference]) -> Verdict:
    """``listed`` are the differences that apply to the run."""
    run = {each.name: each for each in cases}
    places = {_place(name) for name in run}
    reasons = {each.test: each.reason for each in listed if _place(each.test) in places}
    failed = [each for each in run.values() if each.outcome is Outcome.FAILED]
    ran = {each.name for each in run.values() if each.outcome is not Outcome.SKIPPED}
    passed = {each.name for each in run.values() if each.outcome is Outcome.PASSED}
    return Verdict(
        passed=len(passed),
        skipped=len(run) - len(ran),
        expected=tuple((each, reasons[each.name]) for each in failed if each.name in reasons),
        failed=tuple(each for each in failed if each.name not in reasons),
        healed=tuple(name for name in reasons if name in passed),
        absent=tuple(name for name in reasons if name not in ran),
    )


def _place(name: str) -> str:
    """The file that a test is in, or its suite where runners do not tell the file."""
    return name.partition("::")[0] if "::" in name else name.partition("/")[0]
