"""Runs Pulumi's own command on a copy of the project, and reads the events that it prints.

The copy has stack files of its own and its state in a folder; the program, and the environment that
it runs in, are those of the repository.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from infra.artifacts import ROOT
from infra.config.stack_file import stack_values

PLUGINS: Final = {"aws": "pulumi-aws", "tls": "pulumi-tls", "docker-build": "pulumi-docker-build"}
"""The Python package with the version of each plugin."""
UNCHANGED: Final = {"same", "read", "refresh"}
_SECONDS: Final = 1_800


class EngineMissing(Exception):
    """Pulumi or a plugin is not installed; the message says how to get it."""


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


def find_pulumi() -> str:
    """The path of Pulumi's command. Raises ``EngineMissing`` if it or a plugin is not installed."""
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        raise EngineMissing(
            "Pulumi is not installed: get it from https://www.pulumi.com/docs/install/ "
            "and run `pulumi plugin install` here"
        )
    listed = subprocess.run(
        [pulumi, "plugin", "ls", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env=_variables(),
    )
    there = {(each["name"], each["version"]) for each in json.loads(listed.stdout)}
    for name, package in PLUGINS.items():
        version = importlib.metadata.version(package)
        if (name, version) not in there:
            raise EngineMissing(
                f"Pulumi's plugin {name} {version} is not installed: "
                f"run `pulumi plugin install resource {name} {version}`"
            )
    return pulumi


class Engine:
    """One stack of a copy of the project in ``folder``."""

    def __init__(self, folder: Path, stack: str, pulumi: str, emulator: Mapping[str, Any]) -> None:
        """``emulator`` are the settings of the provider with which it finds the emulated AWS."""
        self.stack = stack
        self._pulumi = pulumi
        self._project = folder / "project"
        self._state = folder / "state"
        self._emulator = emulator
        for each in (self._project, self._state):
            each.mkdir(parents=True, exist_ok=True)
        project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
        project["main"] = str(ROOT / project["main"])
        project["runtime"]["options"]["virtualenv"] = str(ROOT / ".venv")
        (self._project / "Pulumi.yaml").write_text(yaml.safe_dump(project))
        self._command("stack", "init", stack).check_returncode()

    def configure(self, settings: Mapping[str, str]) -> None:
        """Replace the stack's configuration: its file in the repository, and ``settings``."""
        path = self._project / f"Pulumi.{self.stack}.yaml"
        found = yaml.safe_load(path.read_text()) if path.exists() else None
        found = found or {}
        found["config"] = {
            **{
                name: json.loads(value) if value[:1] in "[{" else value
                for name, value in stack_values(self.stack).items()
            },
            **self._emulator,
            **{f"sulina:{name}": value for name, value in settings.items()},
        }
        path.write_text(yaml.safe_dump(found))

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
        done = self._command("stack", "export", "--stack", self.stack)
        done.check_returncode()
        found: list[dict[str, Any]] = json.loads(done.stdout)["deployment"].get("resources", [])
        return found

    def _run(self, *arguments: str) -> Outcome:
        began = time.monotonic()
        done = self._command(*arguments, "--stack", self.stack, "--json")
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
            [self._pulumi, *arguments, "--non-interactive", "--cwd", str(self._project)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            env={
                **_variables(),
                "PULUMI_BACKEND_URL": f"file://{self._state}",
                "PULUMI_CONFIG_PASSPHRASE": "only for tests",
                "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
                "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            },
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


def _variables() -> dict[str, str]:
    """The environment, without anything that leads to an account of AWS."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "PULUMI_CONFIG", "PULUMI_BACKEND", "PULUMI_STACK"))
    }
    return {**ours, "PULUMI_SKIP_UPDATE_CHECK": "true", "AWS_EC2_METADATA_DISABLED": "true"}
