"""Turns every endpoint into a handler of the HTTP library."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from broker_containers.doors.http.arguments import arguments_of, topic_of
from broker_containers.doors.http.bodies import read_body
from broker_containers.doors.http.connections import HttpConnections
from broker_containers.doors.http.console_files import (
    INDEX,
    PREFIX,
    ConsoleFile,
    console_files,
    content_policy,
)
from broker_containers.doors.http.guard import OPERATION, Handler, HttpGuard
from broker_containers.doors.http.health import Health, HealthReport, HealthStatus
from broker_containers.doors.http.live import LiveOverview
from broker_containers.doors.http.messages import HttpPublishing
from broker_containers.doors.http.openapi import document
from broker_containers.doors.http.page import documentation_page, index
from broker_containers.doors.http.routes import ENDPOINTS, PUBLISH, Endpoint
from broker_containers.doors.services import Services
from broker_containers.metrics.collectors.broker import BrokerMetrics
from broker_containers.metrics.requests import RequestMetrics
from broker_containers.security.access import Caller, Need
from broker_containers.security.bearer import bearer_token
from broker_containers.security.certificate import read_certificate
from broker_containers.security.errors import Unauthenticated
from sulina.metrics.exposition import CONTENT_TYPE, OPEN_METRICS_TYPE, wants_open_metrics
from sulina.model import EVERYTHING, Action
from sulina.operations.json_types import form_of
from sulina.operations.overview import OverviewOperations

_SEES_ALL = (None, Action.BROKERS, Action.CLUSTER)
"""Rights on everything that show the broker's own metrics; None is one to look topics up."""
_PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


class Application:
    """Everything that the HTTP door of one broker answers."""

    def __init__(
        self,
        services: Services,
        health: Health,
        metrics: BrokerMetrics,
        connections: HttpConnections,
    ) -> None:
        broker = services.broker
        self._broker = broker.settings.broker_id
        self._settings = broker.settings.http
        self._authority = services.authority
        self._throttle = services.throttle
        self._connections = connections
        self._audit = services.audit
        self._operations = services.operations
        self._health = health
        self._metrics = metrics
        self._publishing = HttpPublishing(broker, services.operations.client, services.publisher)
        requests = RequestMetrics("http", services.requests)
        metrics.add(requests.write)
        self._document = _json(document())
        self._page = documentation_page()
        pages: dict[str, Handler] = {
            "index": self._index,
            "health.live": self._live,
            "health.ready": self._ready,
            "metrics": self._collect,
            "openapi": self._openapi,
            "docs": self._docs,
        }
        own_host = None if services.authority.on else services.addresses.host
        guard = HttpGuard(self._settings, broker.clock, requests, connections, own_host)
        self.web = web.Application(middlewares=[guard.__call__])
        for endpoint in ENDPOINTS:
            self._add(endpoint, self._handler(endpoint, pages.get(endpoint.name)))
        for path, file in console_files().items():
            self.web.router.add_get(PREFIX + path, self._file(file))
        self._live_overview = LiveOverview(
            services.operations, services.sampler, broker.clock, self._settings.request_seconds
        )
        self.web.router.add_get(f"{PREFIX}live", self._follow)
        self.web.on_shutdown.append(self._shut_down)

    async def _caller(self, request: web.Request) -> Caller:
        """Waits only if the token is invalid. Raises ``Unauthenticated`` and ``Overloaded``."""
        token = bearer_token(request.headers.get("Authorization", ""))
        address = request.remote or ""
        try:
            transport = request.transport
            found = None if transport is None else transport.get_extra_info("peercert")
            access = self._audit.sign_in(
                self._authority, token, "http", address, certificate=read_certificate(found)
            )
        except Unauthenticated:
            if token:
                await self._throttle.refused(address)
            raise
        self._connections.identified(request.protocol, access.limited_as)
        return Caller(access, "http", address)

    def _handler(self, endpoint: Endpoint, page: Handler | None) -> Handler:
        operation = endpoint.operation

        async def handle(request: web.Request) -> web.StreamResponse:
            request[OPERATION] = endpoint.name
            # Before the body is read: a caller without a valid token is refused at once.
            caller = None if endpoint.public else await self._caller(request)
            if operation is None or caller is None:
                assert page is not None
                return await page(request)
            if endpoint.name == PUBLISH:
                return await self._publish(request, caller)
            given = await arguments_of(endpoint, request, self._settings.max_body_bytes)
            result = await self._operations.run_as(caller, operation.name, given)
            if endpoint.status == 204:
                return web.Response(status=204)
            return _answer(result, endpoint.status)

        return handle

    def _add(self, endpoint: Endpoint, handle: Handler) -> None:
        # The library's own pattern for a name does not match one with braces.
        path = endpoint.path.replace("}", ":[^/]+}")
        if endpoint.verb == "GET":
            self.web.router.add_get(path, handle, allow_head=True)
        else:
            self.web.router.add_route(endpoint.verb, path, handle)

    async def _publish(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        topic = topic_of(request)

        async def publish() -> web.StreamResponse:
            body = await read_body(request, self._publishing.max_body)
            published = await self._publishing.publish(topic, request, body)
            return _answer(form_of(type(published)).encode(published))

        return await self._operations.act_as(caller, PUBLISH, {"topic": topic}, publish)

    # ---- pages ----

    async def _index(self, request: web.Request) -> web.StreamResponse:
        accepted = request.headers.get("Accept", "")
        if "application/json" in accepted and "text/html" not in accepted:
            provider = self._authority.provider
            return _answer(index(self._broker, provider, token=self._authority.on))
        return await self._file(console_files()[INDEX])(request)

    def _file(self, file: ConsoleFile) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            request[OPERATION] = "console"
            provider = self._authority.provider
            origins = [] if provider is None else [_origin(provider.token_endpoint)]
            return file.answer(request, content_policy(*origins))

        return handle

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        request[OPERATION] = "live"
        caller = await self._caller(request)

        async def follow() -> web.StreamResponse:
            return await self._live_overview.stream(request, caller.access)

        return await self._operations.act_as(caller, OverviewOperations.show.name, {}, follow)

    async def _shut_down(self, application: web.Application) -> None:
        await self._live_overview.close()

    async def _docs(self, request: web.Request) -> web.StreamResponse:
        return _html(self._page)

    async def _openapi(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self._document, content_type="application/json")

    async def _live(self, request: web.Request) -> web.StreamResponse:
        return _health(self._health.live())

    async def _ready(self, request: web.Request) -> web.StreamResponse:
        return _health(await self._health.ready())

    async def _collect(self, request: web.Request) -> web.StreamResponse:
        access = (await self._caller(request)).access
        whole = any(access.allows(Need(each, EVERYTHING)) for each in _SEES_ALL)
        sees = None if whole and access.sees_all else access.sees
        form = wants_open_metrics(request.headers.get("Accept", ""))
        body = await self._metrics.collect(sees, whole=whole, open_metrics=form)
        headers = {"Content-Type": OPEN_METRICS_TYPE if form else CONTENT_TYPE, "Vary": "Accept"}
        return web.Response(body=body, headers=headers)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _answer(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=_json(value), status=status, content_type="application/json")


def _html(text: str) -> web.Response:
    headers = {"Content-Security-Policy": _PAGE_POLICY}
    return web.Response(text=text, content_type="text/html", headers=headers)


def _health(report: HealthReport) -> web.Response:
    status = 503 if report.status is HealthStatus.UNREADY else 200
    return _answer(form_of(HealthReport).encode(report), status)
