"""Turns a container of a task definition into a process of this machine.

Command, environment and secrets are those of the definition, the entry point that of the image's
Dockerfile. Only addresses and paths are replaced.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker_containers.container import PREFIX
from broker_containers.local_cluster.ports import LOCAL
from localstack.cloud.addresses import ADMIN, BINARY, GRPC, HTTP, METRICS, STORAGE, AddressBook
from localstack.environments import ROOT
from sulina.metadata.etcd.server import find_etcd
from sulina.runtime.resources import CONTAINER_CPUS

_DOCKERFILES: Final = {"broker": "broker_containers", "storage": "storage_grpc"}
_MOUNT: Final = "/var/lib/sulina"
"""The folder of a member's volume in its container."""
_BROKER_PORTS: Final = {BINARY: "PORT", HTTP: "HTTP_PORT", GRPC: "GRPC_PORT", ADMIN: "ADMIN_PORT"}
_STORAGE: Final = "SULINA_STORAGE_"
_CPU_UNITS: Final = 1_024


@dataclass(frozen=True, slots=True)
class ServiceDefinition:
    """An ECS service: how many tasks of which definition."""

    name: str
    """Without the stack's prefix."""
    desired: int
    member: bool
    """Whether it is one task with a volume of its own, bound to a machine."""
    task: Mapping[str, Any]

    @property
    def container(self) -> Mapping[str, Any]:
        """The essential container; sidecars do not run here."""
        found: Mapping[str, Any] = self.task["containerDefinitions"][0]
        return found

    @property
    def stop_seconds(self) -> float:
        """How long a task may take to stop."""
        return float(self.container.get("stopTimeout", 30))


@dataclass(frozen=True, slots=True)
class TaskProcess:
    """A command and all its environment variables."""

    command: Sequence[str]
    environment: Mapping[str, str]


def task_process(
    service: ServiceDefinition,
    task: str,
    ports: Mapping[int, int],
    folder: Path,
    book: AddressBook,
    secrets: Mapping[str, str],
    more: Mapping[str, str],
) -> TaskProcess:
    """The process for the task ``task``, with its data in ``folder``.

    ``secrets`` are the values of the container's secrets by variable; ``more`` are the variables
    of this process and of AWS's libraries.
    """
    container = service.container
    image = str(container["name"])

    def here(text: str) -> str:
        return book.here(text.replace(_MOUNT, str(folder)), ports)

    given = {each["name"]: here(each["value"]) for each in container.get("environment", ())}
    entry, built = _from_dockerfile(image)
    variables = {**more, **built, **given, **secrets}
    command = [here(each) for each in container.get("command", ())]
    if image == "broker":
        # A container has the name and the address of its host.
        variables |= {f"{PREFIX}ID": task, f"{PREFIX}HOST": LOCAL}
        variables |= {f"{PREFIX}{name}": str(ports[port]) for port, name in _BROKER_PORTS.items()}
    elif image == "storage":
        variables |= {
            f"{_STORAGE}HOST": LOCAL,
            f"{_STORAGE}PORT": str(ports[STORAGE]),
            f"{_STORAGE}METRICS_PORT": str(ports[METRICS]),
        }
    elif command[0] == "etcd":
        command[0] = str(find_etcd())
    if service.task.get("cpu"):
        variables[CONTAINER_CPUS] = str(int(service.task["cpu"]) / _CPU_UNITS)
    return TaskProcess((*entry, *command), variables)


def _from_dockerfile(image: str) -> tuple[list[str], dict[str, str]]:
    """The entry point, with this Python, and the variables of ours; nothing for other images."""
    if image not in _DOCKERFILES:
        return [], {}
    text = (ROOT / _DOCKERFILES[image] / "Dockerfile").read_text()
    entry = json.loads(re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)[-1])
    variables = dict(re.findall(r"\b(SULINA_\w+)=(\S+)", text))
    return [sys.executable, *entry[1:]], variables


def secret_values(account: Any, container: Mapping[str, Any]) -> dict[str, str]:
    """The values of a container's secrets, as ECS reads them when it starts a task. Blocks."""
    client = account.client("secretsmanager")
    found = {}
    for each in container.get("secrets", ()):
        # ARN, then optionally :key:stage:version.
        parts = str(each["valueFrom"]).split(":")
        arn, key = ":".join(parts[:7]), parts[7] if len(parts) > 7 else ""
        value = client.get_secret_value(SecretId=arn)["SecretString"]
        found[each["name"]] = json.loads(value)[key] if key else value
    return found


def read_services(account: Any, cluster: str, prefix: str) -> list[ServiceDefinition]:
    """All services of the ECS cluster, as they are now. Blocks."""
    ecs = account.client("ecs")
    arns = [
        arn
        for page in ecs.get_paginator("list_services").paginate(cluster=cluster)
        for arn in page["serviceArns"]
    ]
    found = []
    for start in range(0, len(arns), 10):  # the most that ECS describes at once
        described = ecs.describe_services(cluster=cluster, services=arns[start : start + 10])
        for each in described["services"]:
            arn = each["taskDefinition"]
            task = ecs.describe_task_definition(taskDefinition=arn)["taskDefinition"]
            found.append(
                ServiceDefinition(
                    name=each["serviceName"].removeprefix(f"{prefix}-"),
                    desired=int(each["desiredCount"]),
                    member="FARGATE" not in task.get("requiresCompatibilities", ()),
                    task=task,
                )
            )
    return found


def inherited() -> dict[str, str]:
    """This process's variables, except those that configure Sulina or AWS."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SULINA_", "AWS_"))
    }
