"""Plays ECS's part, which moto lacks: deployments of services become steady, or roll back.

moto stores services but runs nothing. Here, a deployment succeeds at once if no image of its task
definition is tagged with ``BROKEN``. If one is, a service with a circuit breaker rolls back, and
one without it stays in progress, as on AWS.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.deploy.gateway import Answer, Call

BROKEN: Final = "broken"
"""The image tag that never becomes healthy."""


@dataclass(slots=True)
class _Deployment:
    number: int
    definition: str
    status: str
    reason: str = ""
    created: float = field(default_factory=time.time)


class EcsDeployments:
    """Completes moto's answers about services, and knows in which order they were deployed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._images: dict[str, list[str]] = {}
        """The images of task definitions by ARN and by family:revision."""
        self._services: dict[str, _Deployment] = {}
        self._breakers: dict[str, bool] = {}
        self._on_machines: set[str] = set()
        """The families of task definitions that require machines."""
        self.deployed: list[tuple[str, str]] = []
        """Services and statuses of their deployments, in order."""

    def before(self, call: Call) -> Answer | Call | None:
        """Answer the operations that moto does not know."""
        if call.operation == "RegisterTaskDefinition":
            return self._registered(call)
        if call.operation == "ListServiceDeployments":
            name = _short(json.loads(call.body)["service"])
            with self._lock:
                found = self._services.get(name)
            briefs = [] if found is None else [_described(name, found)]
            return Answer.of_json({"serviceDeployments": briefs})
        if call.operation == "DescribeServiceDeployments":
            [arn] = json.loads(call.body)["serviceDeploymentArns"]
            name = arn.split("/")[-2]
            with self._lock:
                found = self._services[name]
            return Answer.of_json({"serviceDeployments": [_described(name, found)]})
        return None

    def after(self, call: Call, answer: Answer) -> Answer:
        """Let services run what they should."""
        if call.service != "ecs" or answer.status != 200 or call.operation not in _OPERATIONS:
            return answer
        said, asked = json.loads(answer.body), json.loads(call.body)
        with self._lock:
            if call.operation == "RegisterTaskDefinition":
                made = said["taskDefinition"]
                self._images[made["taskDefinitionArn"]] = [
                    container["image"] for container in made["containerDefinitions"]
                ]
            if "taskDefinition" in said:
                if said["taskDefinition"]["family"] in self._on_machines:
                    said["taskDefinition"]["requiresCompatibilities"] = ["EC2"]
                return Answer(answer.status, answer.headers, json.dumps(said).encode())
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

    def _deploy(self, asked: dict[str, Any], service: dict[str, Any]) -> None:
        name = service["serviceName"]
        breaker = asked.get("deploymentConfiguration", {}).get("deploymentCircuitBreaker")
        if breaker is not None:
            self._breakers[name] = bool(breaker["enable"] and breaker["rollback"])
        definition = service["taskDefinition"]
        before = self._services.get(name)
        if before is not None and before.definition == definition:
            return
        status, reason = "SUCCESSFUL", ""
        if any(image.endswith(f":{BROKEN}") for image in self._images.get(definition, ())):
            status = "IN_PROGRESS"
            if self._breakers.get(name):
                status = "ROLLBACK_SUCCESSFUL"
                reason = "the circuit breaker rolled the deployment back"
        number = 1 if before is None else before.number + 1
        self._services[name] = _Deployment(number, definition, status, reason)
        self.deployed.append((name, status))

    def _complete(self, service: dict[str, Any]) -> None:
        name, status = service["serviceName"], service.get("status")
        if not service.get("networkConfiguration"):
            service.pop("networkConfiguration", None)  # empty, it makes the plugin panic
        if status == "INACTIVE":
            self._services.pop(name, None)
        deployment = self._services.get(name)
        if deployment is None or status != "ACTIVE":
            service["runningCount"] = 0
            return
        service["runningCount"] = service["desiredCount"]
        service["pendingCount"] = 0
        service["deploymentController"] = {"type": "ECS"}
        service["deployments"] = [
            {
                "id": f"ecs-svc/{deployment.number}",
                "status": "PRIMARY",
                "taskDefinition": deployment.definition,
                "desiredCount": service["desiredCount"],
                "runningCount": service["desiredCount"],
                "createdAt": deployment.created,
            }
        ]


_OPERATIONS: Final = {
    *("RegisterTaskDefinition", "DescribeTaskDefinition", "DeregisterTaskDefinition"),
    *("CreateService", "UpdateService", "DescribeServices", "DeleteService"),
}


def _described(name: str, deployment: _Deployment) -> dict[str, Any]:
    arn = f"arn:aws:ecs:eu-central-1:123456789012:service-deployment/cluster/{name}"
    return {
        "serviceDeploymentArn": f"{arn}/{deployment.number}",
        "targetServiceRevisionArn": f"{arn}/{deployment.number}",
        "status": deployment.status,
        "statusReason": deployment.reason,
        "createdAt": deployment.created,
    }


def _short(name: str) -> str:
    return name.rpartition("/")[2]
