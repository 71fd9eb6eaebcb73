"""Listens on the HTTP port: limits connections, closes silent ones, stops gracefully."""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from broker_containers.doors.http import problems
from broker_containers.doors.http.application import Application
from broker_containers.doors.http.health import Health
from broker_containers.doors.listen import Listen
from broker_containers.doors.services import Services
from broker_containers.metrics.collectors.broker import BrokerMetrics
from sulina.errors import Refused

_BACKLOG = 128
_HANDSHAKE_SECONDS = 10.0
_LINGERING_SECONDS = 2.0
"""How long to read the rest of a refused body, so that its sender sees the answer."""

_peers = logging.getLogger(f"{__name__}.peers")
_peers.setLevel(logging.CRITICAL)
"""The library logs requests that are not HTTP; their sender gets the error, so drop it here."""


class HttpServer:
    """The HTTP door of a broker. Use as ``async with``, inside of the broker's own."""

    def __init__(
        self, services: Services, listen: Listen, health: Health, metrics: BrokerMetrics
    ) -> None:
        self._listen = listen
        self._clock = services.broker.clock
        self._settings = services.broker.settings.http
        self._health = health
        self._metrics = metrics
        self._application = Application(services, health, metrics)
        metrics.add_connections({"http": lambda: self.connections})
        self._application.web.on_response_prepare.append(self._spoke)
        self._runner = web.AppRunner(
            self._application.web,
            access_log=None,
            logger=_peers,
            keepalive_timeout=self._settings.keepalive_seconds,
            lingering_time=_LINGERING_SECONDS,
            shutdown_timeout=self._settings.goodbye_seconds,
        )
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._silent: dict[RequestHandler, float] = {}
        """Connections without a request so far, and when they were opened."""
        self._unread: dict[RequestHandler, tuple[int, float]] = {}
        """Connections whose peer does not read: the bytes that wait for it, and since when."""
        self.port = listen.port
        """The port in use; the one chosen by the system if 0 was asked for."""

    async def __aenter__(self) -> HttpServer:
        await self._runner.setup()
        await self._metrics.__aenter__()
        listen = self._listen
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._accept,
                listen.host,
                listen.port,
                ssl=listen.tls,
                backlog=_BACKLOG,
                ssl_handshake_timeout=None if listen.tls is None else _HANDSHAKE_SECONDS,
            )
        except OSError as error:
            await self.close()
            raise Refused(
                f"can't listen on {listen.host}:{listen.port} for HTTP "
                f"({error.strerror or error}): is another broker running? Choose another port "
                "with --http-port; 0 takes one that is free"
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        self._sweeper = asyncio.create_task(self._sweep(), name="http-sweeper")
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop accepting requests, finish those under way within a short time, close everything."""
        self._health.stopping = True
        if self._server is not None:
            self._server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        await self._runner.cleanup()
        await self._metrics.__aexit__()

    @property
    def connections(self) -> int:
        server = self._runner.server
        return 0 if server is None else len(server.connections)

    def _accept(self) -> asyncio.Protocol:
        server = self._runner.server
        if server is None or self.connections >= self._settings.max_connections:
            return _Refuser(self._settings.max_connections)
        handler = server()
        self._silent[handler] = self._clock.now()
        return handler

    async def _spoke(self, request: web.Request, response: web.StreamResponse) -> None:
        self._silent.pop(request.protocol, None)

    async def _sweep(self) -> None:
        """Close connections that are open without being used.

        Connections that are idle between two requests have the keep-alive timeout instead.
        """
        seconds = self._settings.silent_seconds
        while True:
            await self._clock.sleep(seconds / 4)
            server = self._runner.server
            present = set() if server is None else set(server.connections)
            oldest = self._clock.now() - seconds
            self._look_for_unread(present)
            for handler, since in list(self._silent.items()):
                if since < oldest:
                    del self._silent[handler]
                    if handler in present:
                        handler.force_close()
            for handler, (_, since) in self._unread.items():
                if since < oldest and handler.transport is not None:
                    handler.transport.abort()

    def _look_for_unread(self, present: set[RequestHandler]) -> None:
        now = self._clock.now()
        found: dict[RequestHandler, tuple[int, float]] = {}
        for handler in present:
            waiting = 0 if handler.transport is None else handler.transport.get_write_buffer_size()
            if waiting:
                before, since = self._unread.get(handler, (0, now))
                found[handler] = waiting, since if waiting == before else now
        self._unread = found


class _Refuser(asyncio.Protocol):
    """A connection beyond the limit: it gets an error and is closed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        detail = f"all {self._limit} connections are in use: close some, or try again later"
        transport.write(problems.raw_answer(problems.TOO_MANY, detail))
        transport.close()
