"""Runs the program under Pulumi's own engine, where it is installed with its plugins.

The project is a copy with a stack file and a state of its own; the program, and the environment
that it runs in, are those of the repository.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from localstack.deployment.stack_files import stack_values
from localstack.environments import ROOT
from sulina.errors import Unavailable

PLUGINS: Final = ("aws", "tls", "docker-build")
LOCALSTACK_PORT: Final = 4566
MOTO_PORT: Final = 4567
"""The ports in the file of the stack ``localstack``."""
_LIST_SECONDS: Final = 60.0
_NOT_PASSED: Final = ("AWS_", "PULUMI_CONFIG", "PULUMI_BACKEND", "PULUMI_STACK")
_CREATED: Final = re.compile(
    rb'"resOutputsEvent":\{"metadata":\{"op":"create","urn":"[^"]*","type":"(?!sulina:|pulumi:)'
)


def find_pulumi() -> str:
    """Pulumi's command. Raises ``Unavailable`` if it or a plugin is not installed. Blocks."""
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        raise Unavailable(
            "Pulumi is not installed: get it from https://www.pulumi.com/docs/install/ "
            "and run `pulumi plugin install` here"
        )
    listed = subprocess.run(
        [pulumi, "plugin", "ls", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIST_SECONDS,
        env=_variables(),
    )
    if listed.returncode:
        raise Unavailable(f"`pulumi plugin ls` failed: {listed.stderr.strip()[-500:]}")
    there = {(each["name"], each["version"]) for each in json.loads(listed.stdout)}
    for name in PLUGINS:
        version = importlib.metadata.version(f"pulumi-{name}")
        if (name, version) not in there:
            raise Unavailable(
                f"Pulumi's plugin {name} {version} is not installed: "
                f"run `pulumi plugin install resource {name} {version}`"
            )
    return pulumi


def created_resources(output: bytes) -> int:
    """How many resources the engine has created so far; components are none."""
    return len(_CREATED.findall(output))


def provider_settings(localstack: str, moto: str) -> dict[str, Any]:
    """The settings of the AWS provider in the file of the stack ``localstack``, for these URLs."""
    ports = {LOCALSTACK_PORT: localstack, MOTO_PORT: moto}
    text = json.dumps(
        {name: value for name, value in _typed("localstack").items() if name.startswith("aws:")}
    )
    for port, url in ports.items():
        text = re.sub(rf":{port}\b", f":{url.rpartition(':')[2]}", text)
    found: dict[str, Any] = json.loads(text)
    return found


class EngineProject:
    """The copy of the project in ``folder``, for the stack ``stack``."""

    def __init__(self, folder: Path, stack: str, pulumi: str) -> None:
        self._stack = stack
        self._pulumi = pulumi
        self._project = folder / "project"
        self._state = folder / "state"
        for each in (self._project, self._state):
            each.mkdir(parents=True, exist_ok=True)
        project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
        project["main"] = str(ROOT / project["main"])
        project["runtime"]["options"]["virtualenv"] = str(ROOT / ".venv")
        (self._project / "Pulumi.yaml").write_text(yaml.safe_dump(project))

    def configure(self, settings: Mapping[str, str], provider: Mapping[str, Any]) -> None:
        """Replace the configuration: the stack's own, with these settings and the provider's."""
        path = self._project / f"Pulumi.{self._stack}.yaml"
        # The engine keeps the salt of its encryption there.
        written = yaml.safe_load(path.read_text()) if path.exists() else {}
        ours = {f"sulina:{name}": value for name, value in settings.items()}
        written["config"] = {**_typed(self._stack), **provider, **ours}
        path.write_text(yaml.safe_dump(written))

    def command(self, *arguments: str) -> tuple[str, ...]:
        """Pulumi's command line for this project."""
        place = ("--stack", self._stack, "--non-interactive", "--cwd", str(self._project))
        return (self._pulumi, *arguments, *place)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the command."""
        return {
            **_variables(),
            "PULUMI_BACKEND_URL": f"file://{self._state}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
        }


def _typed(stack: str) -> dict[str, Any]:
    """A stack's configuration with lists as lists."""
    return {
        name: json.loads(value) if value[:1] in ("[", "{") else value
        for name, value in stack_values(stack).items()
    }


def _variables() -> dict[str, str]:
    """The environment, without anything that leads to an account of AWS or another state."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED)}
    return {**ours, "PULUMI_SKIP_UPDATE_CHECK": "true", "AWS_EC2_METADATA_DISABLED": "true"}
