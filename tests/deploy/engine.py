"""Runs Pulumi's own command, and reads the events that it prints."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from localstack.cloud.engine import EngineProject

UNCHANGED: Final = {"same", "read", "refresh"}
_SECONDS: Final = 1_800


@dataclass(frozen=True, slots=True)
class Step:
    """What the engine did to one resource."""

    operation: str
    """``create``, ``update``, ``create-replacement``, ``delete-replaced``, ``replace``, ..."""
    kind: str
    name: str
    urn: str
    properties: tuple[str, ...]
    """The paths of the inputs that differ."""
    began: int
    """The number of the event with which it began; later steps have higher numbers."""
    ended: int | None
    """The number of the event with which it ended; None if it failed."""

    def __str__(self) -> str:
        about = f" ({', '.join(self.properties)})" if self.properties else ""
        return f"{self.operation} {self.kind} {self.name}{about}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one command."""

    code: int
    seconds: float
    steps: tuple[Step, ...]
    """Everything that changed, in the order in which it began."""
    errors: str
    """What the engine reported as errors."""

    @property
    def counts(self) -> dict[str, int]:
        """The number of steps by operation."""
        return dict(sorted(Counter(step.operation for step in self.steps).items()))

    def of(self, kind: str) -> list[Step]:
        """The steps of resources of a type, such as ``ec2/instance:Instance``."""
        return [step for step in self.steps if step.kind in (kind, f"aws:{kind}")]


class Engine:
    """One stack of a copy of the project in ``folder``."""

    def __init__(self, folder: Path, stack: str, pulumi: str, provider: Mapping[str, Any]) -> None:
        """``provider`` are the settings with which the plugin finds the emulated AWS."""
        self._provider = provider
        self._project = EngineProject(folder, stack, pulumi)
        self._command("stack", "init").check_returncode()

    def configure(self, settings: Mapping[str, str]) -> None:
        """Replace the stack's configuration: its file in the repository, and ``settings``."""
        self._project.configure(settings, self._provider)

    def preview(self) -> Outcome:
        """Show what ``up`` would do."""
        return self._run("preview")

    def up(self, *arguments: str) -> Outcome:
        """Deploy."""
        return self._run("up", "--yes", "--skip-preview", *arguments)

    def destroy(self, *, preview: bool = False) -> Outcome:
        """Delete everything; after a preview, only if nothing is protected."""
        return self._run("destroy", "--yes", *(() if preview else ("--skip-preview",)))

    def resources(self) -> list[dict[str, Any]]:
        """The resources in the stack's state."""
        done = self._command("stack", "export")
        done.check_returncode()
        found: list[dict[str, Any]] = json.loads(done.stdout)["deployment"].get("resources", [])
        return found

    def _run(self, *arguments: str) -> Outcome:
        began = time.monotonic()
        done = self._command(*arguments, "--json")
        seconds = time.monotonic() - began
        events = list(events_of(done.stdout))
        errors = "\n".join(
            event["diagnosticEvent"]["message"].strip()
            for event in events
            if event.get("diagnosticEvent", {}).get("severity") == "error"
        )
        steps = tuple(steps_of(events))
        return Outcome(done.returncode, seconds, steps, errors or _tail(done))

    def _command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._project.command(*arguments),
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            env=self._project.variables,
        )


def events_of(text: str) -> Iterator[dict[str, Any]]:
    """The engine's events, which it prints one per line."""
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def steps_of(events: list[dict[str, Any]]) -> Iterator[Step]:
    """The steps that change something; a component's own are left out."""
    ended = {
        (event["resOutputsEvent"]["metadata"]["urn"], event["resOutputsEvent"]["metadata"]["op"]): n
        for n, event in enumerate(events)
        if "resOutputsEvent" in event
    }
    for number, event in enumerate(events):
        about = event.get("resourcePreEvent", {}).get("metadata")
        if about is None or about["op"] in UNCHANGED:
            continue
        if about["type"].startswith(("sulina:", "pulumi:")):
            continue
        yield Step(
            operation=about["op"],
            kind=about["type"],
            name=about["urn"].rpartition("::")[2],
            urn=about["urn"],
            properties=tuple(sorted(about.get("detailedDiff") or about.get("diffs") or ())),
            began=number,
            ended=ended.get((about["urn"], about["op"])),
        )


def _tail(done: subprocess.CompletedProcess[str]) -> str:
    """What a failed command printed instead of events."""
    return done.stderr.strip()[-2_000:] if done.returncode else ""
