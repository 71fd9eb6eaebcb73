"""Stands between Pulumi's plugin and moto, and adds what the plugin waits for.

The plugin waits until the deployment of an ECS service is steady. Here services are stored first
and run afterwards, so each is steady at once; so are applications of EMR Serverless. moto has no
snapshot policies (DLM): they are kept here. Everything else is moto's.
"""

from __future__ import annotations

import json
from typing import Any, Final

from aiohttp import web

from localstack.cloud.forwarding import Forwarding

_ECS: Final = "AmazonEC2ContainerServiceV20141113."
_SCALING_TAGS: Final = "AnyScaleFrontendService.ListTagsForResource"
_JSON: Final = "application/x-amz-json-1.1"


class EngineGateway(Forwarding):
    """Use as ``async with``, which returns its URL."""

    def __init__(self, moto: str) -> None:
        super().__init__(moto)
        self._policies: dict[str, dict[str, Any]] = {}
        self.routes = [
            web.post("/policies", self._create_policy),
            web.get("/policies/{id}/", self._policy),
            web.get("/policies/{id}", self._policy),
            web.get("/applications/{id}", self._application),
            web.route("*", "/{path:.*}", self._others),
        ]

    async def _others(self, request: web.Request) -> web.Response:
        operation = request.headers.get("X-Amz-Target", "").removeprefix(_ECS)
        if operation == _SCALING_TAGS:
            return _json({"Tags": {}})  # moto fails
        if operation == "ListServiceDeployments":
            asked = await request.json()
            return _json({"serviceDeployments": [_steady(asked["service"])]})
        if operation == "DescribeServiceDeployments":
            [arn] = (await request.json())["serviceDeploymentArns"]
            return _json({"serviceDeployments": [_steady(arn.split("/")[-2])]})
        if operation == "RegisterTaskDefinition":
            asked = await request.json()
            for container in asked["containerDefinitions"]:
                # For machines AWS is content with a reservation; moto wants a limit.
                container.setdefault("memory", 2 * container.get("memoryReservation", 1_024))
            return await self.send_on(request, json.dumps(asked).encode())
        answer = await self.pass_on(request)
        if operation in ("CreateService", "DescribeServices", "UpdateService"):
            assert isinstance(answer.body, bytes)
            said = json.loads(answer.body)
            for service in said.get("services", ()) or [said["service"]]:
                _complete(service)
            return _json(said)
        return answer

    async def _application(self, request: web.Request) -> web.Response:
        """An application of EMR, which moto starts at once; the plugin waits for a stopped one."""
        answer = await self.pass_on(request)
        assert isinstance(answer.body, bytes)
        said = json.loads(answer.body)
        said["application"]["state"] = "CREATED"
        return _json(said)

    async def _create_policy(self, request: web.Request) -> web.Response:
        asked = await request.json()
        name = f"policy-{len(self._policies) + 1:017x}"
        arn = f"arn:aws:dlm:us-east-1:000000000000:policy/{name}"
        self._policies[name] = {"Tags": {}, **asked, "PolicyId": name, "PolicyArn": arn}
        return _json({"PolicyId": name})

    async def _policy(self, request: web.Request) -> web.Response:
        return _json({"Policy": self._policies[request.match_info["id"]]})


def _steady(service: str) -> dict[str, Any]:
    name = service.rpartition("/")[2]
    arn = f"arn:aws:ecs:us-east-1:000000000000:service-deployment/cluster/{name}/1"
    return {
        "serviceDeploymentArn": arn,
        "targetServiceRevisionArn": arn,
        "status": "SUCCESSFUL",
        "createdAt": 0,
    }


def _complete(service: dict[str, Any]) -> None:
    """Let a service run what it should."""
    wanted = service["desiredCount"]
    if not service.get("networkConfiguration"):
        service.pop("networkConfiguration", None)  # the plugin expects subnets in an empty one
    service |= {"runningCount": wanted, "pendingCount": 0}
    service["deploymentController"] = {"type": "ECS"}
    service["deployments"] = [
        {
            "id": "ecs-svc/1",
            "status": "PRIMARY",
            "taskDefinition": service["taskDefinition"],
            "desiredCount": wanted,
            "runningCount": wanted,
            "createdAt": 0,
        }
    ]


def _json(value: Any) -> web.Response:
    return web.Response(body=json.dumps(value).encode(), content_type=_JSON)
