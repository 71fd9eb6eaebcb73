"""Middleware of every request: a deadline, a check of its origin, and errors as problems."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from itertools import count

from aiohttp import web

from broker_containers.broker.settings import HttpSettings
from broker_containers.doors.http import problems
from broker_containers.doors.http.connections import HttpConnections
from broker_containers.doors.http.problems import Problem, answer
from broker_containers.metrics.requests import RequestMetrics
from sulina.errors import SulinaError
from sulina.runtime.deadline import within
from sulina.runtime.logs import logged_with, request_id
from sulina.runtime.seam import Clock
from sulina.runtime.traces import TRACE_PARENT, caused_by
from sulina.version import __version__

_log = logging.getLogger(__name__)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_HEALTH = "/health/"
_CORS_SECONDS = "600"
_LOCAL = ("localhost", "")
REQUEST_ID = "X-Request-Id"
OPERATION = web.RequestKey("operation", str)
"""The operation or page of a request, for the metrics."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpGuard:
    """The middleware of the HTTP door."""

    def __init__(
        self,
        settings: HttpSettings,
        clock: Clock,
        metrics: RequestMetrics,
        connections: HttpConnections,
        own_host: str | None,
    ) -> None:
        """``own_host`` is the broker's name if it needs no tokens, otherwise None."""
        self._settings = settings
        self._own_host = own_host
        self._clock = clock
        self._metrics = metrics
        self._connections = connections
        self._numbers = count(1)

    @web.middleware
    async def __call__(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = request.headers
        number = request_id(headers.get(REQUEST_ID, "")) or f"http-{next(self._numbers)}"
        with logged_with(request=number), caused_by(headers.get(TRACE_PARENT, "")):
            response = await self._served(request, handler)
            response.headers[REQUEST_ID] = number
        return response

    async def _served(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        began = self._clock.now()
        only_health = self._connections.begin(request.protocol)
        try:
            if only_health and not request.path.startswith(_HEALTH):
                limit = self._settings.max_connections
                detail = f"all {limit} connections are in use: close some, or try again later"
                response: web.StreamResponse = answer(problems.TOO_MANY, detail, request.path)
            else:
                response = await self._answer(request, handler)
            if only_health:
                response.force_close()
        finally:
            self._connections.end(request.protocol)
        self._add_headers(request, response)
        self._metrics.add(
            request.get(OPERATION, "none"),
            ok=response.status < 400,
            milliseconds=(self._clock.now() - began) * 1000,
        )
        return response

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        path = request.path
        try:
            self._check_host(request)
            self._check_origin(request)
            if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
                return web.Response(status=204)
            seconds = self._settings.request_seconds
            return await within(self._clock, seconds, handler(request))
        except Problem as problem:
            return answer(problem.kind, str(problem), path)
        except SulinaError as error:
            return answer(problems.kind_of(error), str(error), path)
        except web.HTTPException as error:
            return _translated(error, request)
        except TimeoutError:
            return self._too_slow(request)
        except Exception:
            _log.exception("%s %s failed", request.method, path)
            return answer(problems.INTERNAL, "the broker's log has the details", path)

    def _too_slow(self, request: web.Request) -> web.StreamResponse:
        seconds = f"{self._settings.request_seconds:g} s"
        if not request.content.is_eof():
            detail = f"the body did not arrive within {seconds}: send it faster, or in parts"
            response = answer(problems.TOO_SLOW, detail, request.path)
            response.force_close()
            return response
        kind = problems.UNAVAILABLE if request.method in _SAFE else problems.UNKNOWN_OUTCOME
        detail = f"the broker did not finish within {seconds}: check the outcome, then try again"
        return answer(kind, detail, request.path)

    # ---- web sites ----

    def _allowed(self, request: web.Request, origin: str) -> bool:
        origins = self._settings.cors_origins
        own = origin.partition("://")[2] == request.host
        return own or origin in origins or "*" in origins

    def _check_host(self, request: web.Request) -> None:
        """Refuse names that a web site could point to this broker's address (DNS rebinding).

        Where tokens are needed they protect the broker, because a browser has none for that site.
        """
        header = request.headers.get("Host")
        if self._own_host is None or header is None or request.path.startswith(_HEALTH):
            return
        host = _host_name(header)
        allowed = self._settings.allowed_hosts
        if host in (*_LOCAL, self._own_host.lower()) or host.endswith(".localhost"):
            return
        if _is_address(host) or host in allowed or "*" in allowed:
            return
        raise Problem(
            problems.OTHER_HOST,
            f"requests for the host {host!r} are not answered without a token: call the broker by "
            f"its IP address or as localhost, or allow the name with --http-host {host} or the "
            "setting http.allowed_hosts",
        )

    def _check_origin(self, request: web.Request) -> None:
        """Browsers send some requests of any web site without a preflight: refuse those."""
        origin = request.headers.get("Origin")
        if origin is None or request.method in _SAFE or self._allowed(request, origin):
            return
        raise Problem(
            problems.OTHER_SITE,
            f"requests from {origin} are not allowed: allow them with --http-cors {origin}",
        )

    def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        headers = response.headers
        headers["Server"] = f"sulina/{__version__}"
        headers["X-Content-Type-Options"] = "nosniff"
        headers.setdefault("Cache-Control", "no-store")
        origin = request.headers.get("Origin")
        if not self._settings.cors_origins or origin is None:
            return
        headers["Vary"] = "Origin"
        if self._allowed(request, origin):
            headers["Access-Control-Allow-Origin"] = origin
            if request.method == "OPTIONS":
                wanted = request.headers.get("Access-Control-Request-Headers", "")
                headers["Access-Control-Allow-Methods"] = "GET, POST, PUT, PATCH, DELETE"
                headers["Access-Control-Allow-Headers"] = wanted
                headers["Access-Control-Max-Age"] = _CORS_SECONDS


def _host_name(header: str) -> str:
    """The host of a Host header, without port and brackets."""
    host = header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _translated(error: web.HTTPException, request: web.Request) -> web.StreamResponse:
    """Errors of the HTTP library as problems."""
    path = request.path
    match error:
        case web.HTTPNotFound():
            return answer(
                problems.NO_SUCH_PATH, f"there is nothing at {path}: /docs lists all paths", path
            )
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            detail = f"{path} does not support {request.method}: use {allowed}"
            return answer(problems.WRONG_METHOD, detail, path, {"Allow": allowed})
        case web.HTTPExpectationFailed():
            return answer(problems.EXPECTATION, "only 100-continue is supported", path)
        case _:
            kind = problems.ProblemKind("refused", error.status, error.reason)
            return answer(kind, error.text or error.reason, path)
