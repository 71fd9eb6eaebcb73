"""The API of Lambda and EMR Serverless: executes calls and job runs, passes the rest on to moto."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import ClientSession, ClientTimeout, web

from broker_containers.local_cluster.ports import LOCAL
from localstack.cloud.functions import RUNTIME, FunctionError, FunctionRunner
from localstack.cloud.job_runs import JobRun, JobRunner
from sulina.errors import NotFound, SulinaError

_MAX_BYTES: Final = 64 << 20
_SECONDS: Final = 60.0
_NOT_PASSED: Final = frozenset({"connection", "content-length", "host", "transfer-encoding"})

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Door:
    """Use as ``async with``; ``port`` is a free one unless given."""

    def __init__(
        self, functions: FunctionRunner, jobs: JobRunner, moto: str, port: int = 0
    ) -> None:
        self._functions = functions
        self._jobs = jobs
        self._moto = moto
        self._port = port
        app = web.Application(client_max_size=_MAX_BYTES, middlewares=[_errors])
        runtime = f"/{RUNTIME}/{{name}}/2018-06-01/runtime/invocation"
        runs = "/applications/{application}/jobruns"
        app.add_routes(
            [
                web.post("/2015-03-31/functions/{name}/invocations", self._invoke),
                web.get(f"{runtime}/next", self._next),
                web.post(f"{runtime}/{{call}}/{{outcome:response|error}}", self._finish),
                web.post(runs, self._start_run),
                web.get(runs, self._list_runs),
                web.get(f"{runs}/{{run}}", self._get_run),
                web.delete(f"{runs}/{{run}}", self._cancel_run),
                web.route("*", "/{path:.*}", self._pass_on),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        self._session: ClientSession | None = None

    async def __aenter__(self) -> str:
        """The URL."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOCAL, self._port)
        await site.start()
        address = f"{LOCAL}:{self._runner.addresses[0][1]}"
        self._functions.address = address
        self._session = ClientSession(timeout=ClientTimeout(total=_SECONDS), auto_decompress=False)
        return f"http://{address}"

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

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

    def _run(self, request: web.Request) -> JobRun:
        return self._jobs.find(request.match_info["run"])

    async def _pass_on(self, request: web.Request) -> web.Response:
        assert self._session is not None
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _NOT_PASSED
        }
        async with self._session.request(
            request.method,
            f"{self._moto}{request.raw_path}",
            headers=headers,
            data=await request.read(),
        ) as answer:
            kept = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() not in _NOT_PASSED
            }
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)


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
