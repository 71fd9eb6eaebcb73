"""Runs the program under Pulumi's own engine, where it is installed with its plugins.

The project is a copy whose stack file names the emulators; its state is in the cloud's folder. The
result is the same as without the engine: resources in the account, and the program's outputs.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from localstack.cloud.endpoints import IN_LOCALSTACK, Endpoints
from localstack.deployment.stack_files import stack_values
from localstack.environments import ROOT

_PLUGINS: Final = ("aws", "tls", "docker-build")
_PROVIDER_NAMES: Final = {
    "application-autoscaling": "appautoscaling",
    "emr-serverless": "emrserverless",
}
"""What the provider calls a service in ``aws:endpoints``, where it is not boto3's name."""
_LIST_SECONDS: Final = 60.0
CREATED: Final = b'"resOutputsEvent"'
"""In the engine's output, once per resource."""


def find_pulumi() -> str | None:
    """Pulumi's command, if it is installed with the plugins that the program needs. Blocks."""
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        return None
    listed = subprocess.run(
        [pulumi, "plugin", "ls", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIST_SECONDS,
    )
    if listed.returncode:
        return None
    there = {(each["name"], each["version"]) for each in json.loads(listed.stdout)}
    wanted = {(name, importlib.metadata.version(f"pulumi-{name}")) for name in _PLUGINS}
    return pulumi if wanted <= there else None


class EngineProject:
    """The copy of the project in ``folder``, for the stack ``stack``."""

    def __init__(self, folder: Path, stack: str, pulumi: str) -> None:
        self._stack = stack
        self._pulumi = pulumi
        self._project = folder / "project"
        self._state = folder / "state"

    def write(self, settings: Mapping[str, str], endpoints: Endpoints, gateway: str) -> None:
        """Write the project; ``gateway`` stands before moto."""
        shutil.rmtree(self._project, ignore_errors=True)
        shutil.rmtree(self._state, ignore_errors=True)  # the emulators are empty
        self._project.mkdir(parents=True)
        self._state.mkdir()
        project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
        project["main"] = str(ROOT / project["main"])
        project["runtime"]["options"]["virtualenv"] = str(ROOT / ".venv")
        (self._project / "Pulumi.yaml").write_text(yaml.safe_dump(project))
        port = endpoints.url.rpartition(":")[2]
        config: dict[str, Any] = {
            name: json.loads(value) if value[:1] in ("[", "{") else value
            for name, value in stack_values(self._stack).items()
        }
        services = dict.fromkeys(IN_LOCALSTACK, endpoints.url)
        services |= {_PROVIDER_NAMES.get(name, name): gateway for name in endpoints.elsewhere}
        services["s3control"] = f"http://localhost:{port}"
        config["aws:endpoints"] = [services]
        config |= dict.fromkeys(("aws:httpProxy", "aws:httpsProxy"), endpoints.url)
        config |= {f"sulina:{name}": value for name, value in settings.items()}
        path = self._project / f"Pulumi.{self._stack}.yaml"
        path.write_text(yaml.safe_dump({"config": config}))

    def command(self, *arguments: str) -> tuple[str, ...]:
        """Pulumi's command line for this project."""
        place = ("--stack", self._stack, "--non-interactive", "--cwd", str(self._project))
        return (self._pulumi, *arguments, *place)

    @property
    def variables(self) -> dict[str, str]:
        """The environment, without anything that leads to an account of AWS."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return {
            **ours,
            "AWS_EC2_METADATA_DISABLED": "true",
            "PULUMI_BACKEND_URL": f"file://{self._state}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
