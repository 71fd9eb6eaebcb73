"""Reads what the test runners of Rust, Go, Python and Java report, into one form.

Each function takes a runner's whole output and returns its tests. What a runner counted and what
was read must agree: a test that is lost here would count as neither passed nor failed.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Case:
    """One test of theirs: ``suite/file::name``, without the parts that a runner does not have."""

    name: str
    outcome: Outcome
    detail: str = ""
    """Why it failed, in the runner's words."""


class Unreadable(Exception):
    """A runner's output is not as expected."""


_RUNNING = re.compile(r"^\s*Running (?:tests/)?(\S+?)\.rs \(", re.MULTILINE)
_BEGUN = re.compile(r"^test (\S+) \.\.\. (.*)$")
_SUMMARY = re.compile(
    r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE
)
_DETAIL = re.compile(
    r"^---- (\S+) stdout ----\n(.*?)(?=^----|^failures:|\Z)", re.DOTALL | re.MULTILINE
)
_RUST_OUTCOMES = {
    "ok": Outcome.PASSED,
    "FAILED": Outcome.FAILED,
    "ignored": Outcome.SKIPPED,
}


def read_cargo(output: str) -> list[Case]:
    """``cargo test -- --test-threads=1``, standard output and standard error together.

    Names are ``file::test``. What tests print may stand between a test's name and its outcome.
    Raises ``Unreadable``.
    """
    starts = [*_RUNNING.finditer(output)]
    found: list[Case] = []
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(output)
        found += _read_binary(start[1], output[start.end() : end])
    return found


def _read_binary(file: str, output: str) -> list[Case]:
    details = {name: text.strip() for name, text in _DETAIL.findall(output)}
    cases: list[Case] = []
    name = ""
    for line in output.splitlines():
        if begun := _BEGUN.match(line):
            name, line = begun[1], begun[2]
        word = line.split(",")[0].rpartition(" ")[2] if name else ""
        if word in _RUST_OUTCOMES:
            cases.append(Case(f"{file}::{name}", _RUST_OUTCOMES[word], details.get(name, "")))
            name = ""
    counted = [tuple(map(int, each)) for each in _SUMMARY.findall(output)]
    read = tuple(sum(each.outcome == kind for each in cases) for kind in Outcome)
    if counted != [read]:
        raise Unreadable(
            f"{file}: read {read} passed, failed and ignored tests, the runner counted {counted}"
        )
    return cases


def read_go(suite: str, output: str) -> list[Case]:
    """``go test -json``. Subtests count as part of their test."""
    said: dict[str, list[str]] = {}
    cases = []
    kinds = {"pass": Outcome.PASSED, "fail": Outcome.FAILED, "skip": Outcome.SKIPPED}
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        test = event.get("Test", "").partition("/")[0]
        if not test:
            continue
        said.setdefault(test, []).append(event.get("Output", ""))
        if event["Action"] in kinds and event["Test"] == test:
            outcome = kinds[event["Action"]]
            detail = "".join(said[test]).strip() if outcome is Outcome.FAILED else ""
            cases.append(Case(f"{suite}/{test}", outcome, detail))
    return cases


def read_junit(suite: str, documents: Iterable[str]) -> list[Case]:
    """JUnit's XML, as pytest and Maven write it."""
    cases = []
    for document in documents:
        for case in ElementTree.fromstring(document).iter("testcase"):
            bad = [child for kind in ("failure", "error") for child in case.iter(kind)]
            skipped = next(case.iter("skipped"), None) is not None
            outcome = Outcome.FAILED if bad else Outcome.SKIPPED if skipped else Outcome.PASSED
            detail = "\n".join(filter(None, (part for each in bad for part in _said(each))))
            file = case.get("classname", "").rpartition(".")[2]
            cases.append(Case(f"{suite}/{file}::{case.get('name')}", outcome, detail))
    return cases


def _said(element: ElementTree.Element) -> tuple[str, str]:
    return element.get("message") or "", (element.text or "").strip()
