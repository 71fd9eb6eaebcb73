"""The APIs of Lambda, EMR Serverless and ECS: executes calls and job runs, and counts tasks.

The rest is passed on to moto, which would say that no task runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from localstack.cloud.forwarding import Forwarding, Handler
from localstack.cloud.functions import RUNTIME, FunctionError, FunctionRunner
from localstack.cloud.job_runs import JobRun, JobRunner
from sulina.errors import NotFound, SulinaError

_DESCRIBE_SERVICES: Final = "AmazonEC2ContainerServiceV20141113.DescribeServices"


class Door(Forwarding):
    """Use as ``async with``, which returns its URL."""

    def __init__(self, functions: FunctionRunner, jobs: JobRunner, moto: str) -> None:
        super().__init__(moto)
        self._functions = functions
        self._jobs = jobs
        self.count_tasks: Callable[[str], tuple[int, int]] = lambda service: (0, 0)
        """How many tasks of an ECS service run, and how many are about to."""
        runtime = f"/{RUNTIME}/{{name}}/2018-06-01/runtime/invocation"
        runs = "/applications/{application}/jobruns"
        self.middlewares = [_errors]
        self.routes = [
            web.post("/2015-03-31/functions/{name}/invocations", self._invoke),
            web.get(f"{runtime}/next", self._next),
            web.post(f"{runtime}/{{call}}/{{outcome:response|error}}", self._finish),
            web.post(runs, self._start_run),
            web.get(runs, self._list_runs),
            web.get(f"{runs}/{{run}}", self._get_run),
            web.delete(f"{runs}/{{run}}", self._cancel_run),
            web.post("/", self._container_service),
            web.route("*", "/{path:.*}", self.pass_on),
        ]

    async def __aenter__(self) -> str:
        url = await super().__aenter__()
        self._functions.address = url.removeprefix("http://")
        return url

    async def _invoke(self, request: web.Request) -> web.Response:
        # An ARN is as good as a name.
        name = request.match_info["name"].rpartition(":")[2]
        event = await request.read() or b"{}"
        if request.headers.get("X-Amz-Invocation-Type") == "Event":
            self._functions.call_in_background(name, event)
            return web.Response(status=202)
        try:
            return web.Response(body=await self._functions.call(name, event))
        except FunctionError as error:
            failed = {"X-Amz-Function-Error": "Unhandled"}
            return web.Response(body=str(error).encode(), headers=failed)

    async def _next(self, request: web.Request) -> web.Response:
        call = await self._functions.next_call(request.match_info["name"])
        headers = {
            "Lambda-Runtime-Aws-Request-Id": call.id,
            "Lambda-Runtime-Deadline-Ms": str(call.deadline_ms),
        }
        return web.Response(body=call.event, headers=headers)

    async def _finish(self, request: web.Request) -> web.Response:
        given, body = request.match_info, await request.read()
        self._functions.finish(
            given["name"], given["call"], body, failed=given["outcome"] == "error"
        )
        return web.Response(status=202)

    async def _start_run(self, request: web.Request) -> web.Response:
        run = self._jobs.start(request.match_info["application"], await request.json())
        return _json(run.described())

    async def _list_runs(self, request: web.Request) -> web.Response:
        states = request.query.getall("states", [])
        application = request.match_info["application"]
        found = [
            run.described()
            for run in self._jobs.runs
            if run.request["applicationId"] == application and (run.state in states or not states)
        ]
        return _json({"jobRuns": found})

    async def _get_run(self, request: web.Request) -> web.Response:
        return _json({"jobRun": self._run(request).described()})

    async def _cancel_run(self, request: web.Request) -> web.Response:
        run = self._run(request)
        self._jobs.cancel(run.id)
        return _json(run.described())

    async def _container_service(self, request: web.Request) -> web.Response:
        answer = await self.pass_on(request)
        if request.headers.get("X-Amz-Target") != _DESCRIBE_SERVICES or answer.status != 200:
            return answer
        assert isinstance(answer.body, bytes)
        described = json.loads(answer.body)
        for service in described["services"]:
            running, pending = self.count_tasks(service["serviceName"])
            for each in (service, *service.get("deployments", ())[:1]):
                each |= {"runningCount": running, "pendingCount": pending}
        return _json(described)

    def _run(self, request: web.Request) -> JobRun:
        return self._jobs.find(request.match_info["run"])


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors as AWS's services answer them."""
    try:
        return await handler(request)
    except SulinaError as error:
        missing = isinstance(error, NotFound)
        kind = "ResourceNotFoundException" if missing else "ServiceUnavailableException"
        body = {"message": str(error), "Message": str(error)}
        return _json(body, 404 if missing else 503, {"X-Amzn-ErrorType": kind})


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    body = json.dumps(value, default=str).encode()
    return web.Response(status=status, body=body, headers=headers, content_type="application/json")
