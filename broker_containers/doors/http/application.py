"""Puts the table of routes to work: each row becomes a handler."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from broker_containers.doors.http.arguments import arguments, topic_of
from broker_containers.doors.http.callers import access_of
from broker_containers.doors.http.guard import OPERATION, Guard, Handler
from broker_containers.doors.http.health import Health
from broker_containers.doors.http.message_methods import PUBLISH, MessageMethods
from broker_containers.doors.http.messages import Messages
from broker_containers.doors.http.openapi import document
from broker_containers.doors.http.page import page
from broker_containers.doors.http.problems import NO_SUCH_PATH, Problem
from broker_containers.doors.http.routes import ROUTES, Route, offered
from broker_containers.doors.services import Services
from broker_containers.metrics.collectors.broker import BrokerMetrics
from broker_containers.metrics.exposition import CONTENT_TYPE
from broker_containers.metrics.requests import RequestMetrics
from broker_containers.security.access import of_topic
from broker_containers.security.needs import check_method
from sulina.metadata.keys.auth import Action

_PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


class Application:
    """Everything that the door answers, of one broker."""

    def __init__(self, services: Services, health: Health, metrics: BrokerMetrics) -> None:
        broker, admin = services.broker, services.admin
        settings = broker.settings.http
        self._settings = settings
        self._authority = services.authority
        self._admin = admin
        self._health = health
        self._metrics = metrics
        methods = MessageMethods(broker, settings, services.schemas)
        admin.offer(methods.methods())
        self._publisher = methods.publisher
        self._messages = Messages(broker, admin, methods.publisher)
        requests = RequestMetrics("http", services.requests)
        metrics.add(requests.write)
        routes = offered(admin.methods)
        self._document = _json(document(routes))
        self._page = page(routes)
        self._own: dict[str, Handler] = {
            PUBLISH: self._publish,
            "health.live": self._live,
            "health.ready": self._ready,
            "metrics": self._collect,
            "openapi": self._openapi,
            "docs": self._docs,
        }
        guard = Guard(settings, broker.clock, requests)
        self.web = web.Application(middlewares=[guard.__call__])
        for route in ROUTES:
            self._add(route, self._handler(route) if route in routes else _without_cluster)

    async def close(self) -> None:
        """Nothing is taken any more; what is being published is given up."""
        await self._publisher.close()

    def _handler(self, route: Route) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            request[OPERATION] = route.call
            own = self._own.get(route.call)
            if route.open:
                assert own is not None
                return await own(request)
            # Before the body is read: whoever may not is told at once.
            access = access_of(request, self._authority)
            if own is not None:
                if "topic" in route.parameters:
                    access.check(of_topic(Action.PRODUCE, topic_of(request)))
                return await own(request)
            given = await arguments(route, request, self._settings.max_body_bytes)
            check_method(access, route.call, given)
            result = await self._admin.call(route.call, given)
            if route.status == 204:
                return web.Response(status=204)
            return _answer(result[route.pick] if route.pick else result, route.status)

        return handle

    def _add(self, route: Route, handle: Handler) -> None:
        # As the library reads the table's paths, names could not have braces.
        path = route.path.replace("}", ":[^/]+}")
        if route.verb == "GET":
            self.web.router.add_get(path, handle, allow_head=True)
        else:
            self.web.router.add_route(route.verb, path, handle)

    async def _publish(self, request: web.Request) -> web.StreamResponse:
        return _answer(await self._messages.publish(request))

    async def _live(self, request: web.Request) -> web.StreamResponse:
        return _answer(self._health.live())

    async def _ready(self, request: web.Request) -> web.StreamResponse:
        ready, how = await self._health.ready()
        return _answer(how, 200 if ready else 503)

    async def _collect(self, request: web.Request) -> web.StreamResponse:
        body = await self._metrics.collect()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _openapi(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self._document, content_type="application/json")

    async def _docs(self, request: web.Request) -> web.StreamResponse:
        headers = {"Content-Security-Policy": _PAGE_POLICY}
        return web.Response(text=self._page, content_type="text/html", headers=headers)


async def _without_cluster(request: web.Request) -> web.StreamResponse:
    raise Problem(NO_SUCH_PATH, f"{request.path} is about a cluster, and this broker is alone")


def _json(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _answer(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=_json(value), status=status, content_type="application/json")
