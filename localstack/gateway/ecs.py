"""Plays ECS's part, which moto lacks: deployments of services become steady, or roll back.

moto stores services but runs nothing. Here a deployment succeeds at once, unless a container that
its task needs has an image tagged with ``BROKEN``, or the service is one of ``failing``. As on AWS,
such a deployment never ends without a circuit breaker. With one, it fails after some attempts, and
the service goes back to the task definition of its last successful deployment; a service without
one has nothing to go back to, and runs nothing.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any, Final

from localstack.gateway.server import Answer, Call

BROKEN: Final = "broken"
"""The image tag that never becomes healthy."""
_TRIPPED: Final = (
    "Service deployment rolled back because the circuit breaker threshold was exceeded."
)
_KEPT: Final = (
    *("availabilityZoneRebalancing", "capacityProviderStrategy", "enableECSManagedTags"),
    *("enableExecuteCommand", "healthCheckGracePeriodSeconds", "loadBalancers"),
    *("networkConfiguration", "propagateTags", "serviceRegistries"),
)
"""What moto forgets, or does not change."""
_REDEPLOYING: Final = ("loadBalancers", "networkConfiguration", "serviceRegistries")
"""A change of these replaces the tasks of a service, like another task definition."""


@dataclass(slots=True)
class _Deployment:
    number: int
    definition: str
    next: list[str]
    """The statuses that it goes through, one each time that somebody asks."""
    created: float = field(default_factory=time.time)

    @property
    def status(self) -> str:
        return self.next[0]

    def advance(self) -> None:
        if len(self.next) > 1:
            del self.next[0]


@dataclass(slots=True)
class _Service:
    latest: _Deployment | None = None
    good: str = ""
    """The task definition of the last successful deployment."""
    options: dict[str, Any] = field(default_factory=dict)
    configuration: dict[str, Any] = field(default_factory=dict)

    @property
    def running(self) -> str:
        """The task definition of its tasks; none if the latest deployment has not ended well."""
        steady = self.latest is not None and self.latest.status.endswith("SUCCESSFUL")
        return self.good if steady else ""


class EcsDeployments:
    """Completes moto's answers about services."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._broken: set[str] = set()
        """The ARNs of task definitions that do not start."""
        self._services: dict[str, _Service] = {}
        self._on_machines: set[str] = set()
        """The families of task definitions that require machines."""
        self.failing: set[str] = set()
        """The names of services whose new tasks do not start."""

    def runs(self, service: str) -> str:
        """The task definition of a service's tasks; none if it runs nothing."""
        with self._lock:
            known = self._services.get(service)
            return "" if known is None else known.running

    def before(self, call: Call) -> Answer | Call | None:
        """Answer the operations that moto does not know."""
        match call.operation:
            case "RegisterTaskDefinition":
                return self._registered(call)
            case "ListServiceDeployments":
                name = _short(json.loads(call.body)["service"])
                with self._lock:
                    return Answer.of_json({"serviceDeployments": self._described(name)})
            case "DescribeServiceDeployments":
                [arn] = json.loads(call.body)["serviceDeploymentArns"]
                name = arn.split("/")[-2]
                with self._lock:
                    said = self._described(name)
                    self._advance(name)
                return Answer.of_json({"serviceDeployments": said})
        return None

    def after(self, call: Call, answer: Answer) -> Answer:
        """Let services run what they should."""
        if call.service != "ecs" or answer.status != 200 or call.operation not in _OPERATIONS:
            return answer
        said, asked = json.loads(answer.body), json.loads(call.body)
        with self._lock:
            if "taskDefinition" in said:
                self._complete_definition(said["taskDefinition"])
            else:
                if call.operation in ("CreateService", "UpdateService"):
                    self._deploy(asked, said["service"])
                for service in said.get("services") or [said["service"]]:
                    self._complete(service)
        return Answer(answer.status, answer.headers, json.dumps(said).encode())

    def _registered(self, call: Call) -> Call:
        """For tasks on machines, moto demands a limit of memory; ECS is content with less."""
        asked = json.loads(call.body)
        if asked.get("requiresCompatibilities") != ["EC2"]:
            return call
        with self._lock:
            self._on_machines.add(asked["family"])
        del asked["requiresCompatibilities"]
        return replace(call, body=json.dumps(asked).encode())

    def _complete_definition(self, definition: dict[str, Any]) -> None:
        if definition["family"] in self._on_machines:
            definition["requiresCompatibilities"] = ["EC2"]
        containers = definition["containerDefinitions"]
        awaited = {one["containerName"] for each in containers for one in each.get("dependsOn", ())}
        for each in containers:
            needed = each.get("essential", True) or each["name"] in awaited
            if needed and each["image"].endswith(f":{BROKEN}"):
                self._broken.add(definition["taskDefinitionArn"])

    def _deploy(self, asked: dict[str, Any], service: dict[str, Any]) -> None:
        name, definition = service["serviceName"], service["taskDefinition"]
        known = self._services.setdefault(name, _Service())
        known.options |= {option: asked[option] for option in _KEPT if option in asked}
        known.configuration |= asked.get("deploymentConfiguration", {})
        before = known.latest
        if before is not None:
            # moto does not know of rollbacks: without a wish, the service keeps what it runs.
            current = known.good or before.definition
            definition = definition if asked.get("taskDefinition") else current
            redeploys = asked.get("forceNewDeployment") or any(map(asked.get, _REDEPLOYING))
            if definition == current and not redeploys:
                return
        if definition in self._broken or name in self.failing:
            statuses = ["IN_PROGRESS"]
            breaker = known.configuration.get("deploymentCircuitBreaker")
            if breaker is not None and breaker["enable"] and breaker["rollback"]:
                statuses += (
                    ["ROLLBACK_IN_PROGRESS", "ROLLBACK_SUCCESSFUL"]
                    if known.good
                    else ["ROLLBACK_FAILED"]
                )
        else:
            statuses = ["SUCCESSFUL"]
            known.good = definition
        number = 1 if before is None else before.number + 1
        known.latest = _Deployment(number, definition, statuses)

    def _advance(self, name: str) -> None:
        known = self._services.get(name)
        if known is not None and known.latest is not None:
            known.latest.advance()

    def _described(self, name: str) -> list[dict[str, Any]]:
        known = self._services.get(name)
        if known is None or known.latest is None:
            return []
        latest = known.latest
        arn = f"arn:aws:ecs:eu-central-1:123456789012:service-deployment/cluster/{name}"
        reason = _TRIPPED if latest.status.startswith("ROLLBACK") else ""
        return [
            {
                "serviceDeploymentArn": f"{arn}/{latest.number}",
                "targetServiceRevisionArn": f"{arn}/{latest.number}",
                "status": latest.status,
                "statusReason": reason,
                "createdAt": latest.created,
            }
        ]

    def _complete(self, service: dict[str, Any]) -> None:
        name, status = service["serviceName"], service.get("status")
        if not service.get("networkConfiguration"):
            service.pop("networkConfiguration", None)  # empty, it makes the plugin panic
        if status == "INACTIVE":
            self._services.pop(name, None)
        known = self._services.get(name)
        service["runningCount"] = service["pendingCount"] = 0
        if known is None or known.latest is None or status != "ACTIVE":
            return
        service |= known.options
        service["deploymentConfiguration"] = {
            **service.get("deploymentConfiguration", {}),
            **known.configuration,
        }
        latest, wanted = known.latest, service["desiredCount"]
        definition = known.running or latest.definition
        service["runningCount"] = wanted if known.running else 0
        service["taskDefinition"] = definition
        service["deploymentController"] = {"type": "ECS"}
        service["deployments"] = [
            {
                "id": f"ecs-svc/{latest.number}",
                "status": "PRIMARY",
                "taskDefinition": definition,
                "desiredCount": wanted,
                "runningCount": service["runningCount"],
                "createdAt": latest.created,
            }
        ]


_OPERATIONS: Final = {
    *("RegisterTaskDefinition", "DescribeTaskDefinition", "DeregisterTaskDefinition"),
    *("CreateService", "UpdateService", "DescribeServices", "DeleteService"),
}


def _short(name: str) -> str:
    return name.rpartition("/")[2]
