"""Listens on the HTTP port: limits connections, closes silent ones, stops gracefully."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from broker_containers.doors.http.application import Application
from broker_containers.doors.http.connections import HttpConnections
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
        self._connections = HttpConnections(services)
        self._application = Application(services, health, metrics, self._connections)
        metrics.add_connections({"http": lambda: self.connections})
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
                lambda: _Entrance(self._accept),
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

    def stop_soon(self) -> None:
        """Report that the broker is not ready, so that load balancers send no new clients."""
        self._health.stopping = True

    async def close(self) -> None:
        """Stop accepting requests, finish those under way within a short time, close everything."""
        self.stop_soon()
        if self._server is not None:
            self._server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        await self._runner.cleanup()
        await self._metrics.__aexit__()

    @property
    def connections(self) -> int:
        return len(self._present())

    def _present(self) -> list[RequestHandler]:
        server = self._runner.server
        return [] if server is None else server.connections

    def _accept(self, transport: asyncio.Transport) -> RequestHandler | None:
        """The protocol of a new connection; None if the door is closed."""
        server = self._runner.server
        if server is None:
            return None
        handler = server()
        self._connections.sweep(server.connections)
        self._connections.add(handler, transport)
        return handler

    async def _sweep(self) -> None:
        """Close connections that are open without being used, or whose peer does not read."""
        seconds = self._settings.silent_seconds
        while True:
            await self._clock.sleep(seconds / 4)
            present = self._present()
            self._connections.sweep(present)
            self._look_for_unread(present)
            oldest = self._clock.now() - seconds
            for handler, (_, since) in self._unread.items():
                if since < oldest and handler.transport is not None:
                    handler.transport.abort()

    def _look_for_unread(self, present: list[RequestHandler]) -> None:
        now = self._clock.now()
        found: dict[RequestHandler, tuple[int, float]] = {}
        for handler in present:
            waiting = 0 if handler.transport is None else handler.transport.get_write_buffer_size()
            if waiting:
                before, since = self._unread.get(handler, (0, now))
                found[handler] = waiting, since if waiting == before else now
        self._unread = found


class _Entrance(asyncio.Protocol):
    """A connection until its peer's address is known; then it gets its real protocol."""

    def __init__(self, accept: Callable[[asyncio.Transport], RequestHandler | None]) -> None:
        self._accept = accept

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface but not the base class.
        connection = cast(asyncio.Transport, transport)
        handler = self._accept(connection)
        if handler is None:
            connection.close()
            return
        connection.set_protocol(handler)
        handler.connection_made(connection)
