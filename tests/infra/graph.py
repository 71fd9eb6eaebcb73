"""A stack's resources and outputs, with the queries that tests need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.infra.policy import IamPolicy


@dataclass(frozen=True, slots=True)
class CreatedResource:
    """A resource."""

    kind: str
    name: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    id: str
    taggable: bool
    urn: str
    parent: str
    """The URN of its component."""
    depends_on: list[str]
    """The URNs of what must be there before it is registered, in addition to its parent."""
    uses: dict[str, list[str]]
    """By input: the URNs of the resources that its value comes from."""
    options: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def arn(self) -> str:
        """Its ARN."""
        return str(self.outputs["arn"])


@dataclass(frozen=True, slots=True)
class Graph:
    """All resources of a stack, and its outputs."""

    resources: tuple[CreatedResource, ...]
    outputs: dict[str, Any]
    seen: dict[str, Any]
    """What boto3 saw after all resources were created."""
    said: list[str]
    """The messages that the program logged."""
    exposed: list[str]
    """The URNs of resources with a private key in plain text."""
    asked: list[str]
    """The provider's functions that the program called."""
    error: str
    """The program's error message, if it failed."""

    @classmethod
    def read(cls, path: Path) -> Graph:
        """From the runner's file."""
        found = json.loads(path.read_text())
        return cls(
            tuple(CreatedResource(**each) for each in found.get("resources", ())),
            found.get("outputs", {}),
            found.get("seen", {}),
            found.get("said", []),
            found.get("exposed", []),
            found.get("asked", []),
            found.get("error", ""),
        )

    def all(self, kind: str) -> list[CreatedResource]:
        """The resources of a Pulumi type, for AWS without its prefix: ``ecs/service:Service``."""
        return [made for made in self.resources if made.kind in (kind, f"aws:{kind}")]

    def one(self, kind: str, name: str) -> CreatedResource:
        """A resource by type and name."""
        found = [made for made in self.all(kind) if made.name == name]
        assert len(found) == 1, f"{len(found)} {kind} are named {name}"
        return found[0]

    def before(self, resource: CreatedResource) -> set[str]:
        """The URNs of all that is complete before a resource is registered."""
        by_urn = {made.urn: made for made in self.resources}
        found: set[str] = set()
        waiting = [resource]
        while waiting:
            made = waiting.pop()
            for urn in {*made.depends_on, made.parent} - found:
                found.add(urn)
                if urn in by_urn:
                    waiting.append(by_urn[urn])
        return found

    def policy(self, role: str) -> IamPolicy:
        """A role's permissions; ``role`` is its name without the stack's prefix."""
        documents = [
            made.inputs["policy"]
            for made in self.all("iam/rolePolicy:RolePolicy")
            if made.name == role
        ]
        return IamPolicy.of(*documents)

    def trust(self, role: str) -> IamPolicy:
        """A role's trust policy."""
        return IamPolicy.of(self.one("iam/role:Role", role).inputs["assumeRolePolicy"])

    def roles(self) -> Iterator[str]:
        """The names of all roles."""
        return (made.name for made in self.all("iam/role:Role"))

    def containers(self, name: str) -> list[dict[str, Any]]:
        """The containers of a task definition: its own first, then its sidecars."""
        definition = self.one("ecs/taskDefinition:TaskDefinition", name)
        found: list[dict[str, Any]] = json.loads(definition.inputs["containerDefinitions"])
        assert [each["essential"] for each in found] == [True, *(False for _ in found[1:])]
        return found

    def container(self, name: str) -> dict[str, Any]:
        """The essential container of a task definition."""
        return self.containers(name)[0]

    def environment(self, name: str) -> dict[str, str]:
        """The environment of a container."""
        return {each["name"]: each["value"] for each in self.container(name)["environment"]}
