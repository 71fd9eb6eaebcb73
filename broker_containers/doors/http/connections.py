"""Decides which connections the HTTP door accepts, and keeps room for health checks.

When the limit is reached, a new connection replaces the one that has been idle for longest. If all
are in use, it is accepted into a small reserve that answers health checks, and everything else with
503. The newest connections get the reserve, so that nobody can occupy it; but one that is being
answered, or has just been opened, stays as long as there are not many of those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiohttp.web_protocol import RequestHandler

from broker_containers.doors.services import Services
from broker_containers.doors.unidentified import (
    Connection,
    UnidentifiedConnections,
    gives_way,
    new_connection,
    oldest_idle,
)
from broker_containers.quotas.quotas import Held, Live
from sulina.errors import Overloaded


class HttpConnections:
    """The connections of one HTTP door. Never waits."""

    def __init__(self, services: Services) -> None:
        broker = services.broker
        self._clock = broker.clock
        self._settings = broker.settings.http
        self._needs_token = services.authority.on
        total = min(broker.settings.max_unidentified, self._settings.max_connections // 2)
        per_address = min(broker.settings.max_unidentified_per_address, total // 2)
        self._unidentified = UnidentifiedConnections(self._clock, total or 1, per_address or 1)
        self._open: dict[RequestHandler, Connection] = {}
        self._silent: dict[RequestHandler, float] = {}
        """Without a request so far, and when they were opened."""
        self._reserve: dict[RequestHandler, float] = {}
        """When they were opened, the oldest first."""
        self._answering: set[RequestHandler] = set()
        """Those of the reserve whose request is being answered."""
        self._quotas = broker.quotas
        self._held: dict[RequestHandler, tuple[str, Held]] = {}
        """Connections that count in the quota of a principal."""

    def add(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Accept a connection; it may take the place of an idle one."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        now = self._clock.now()
        connection = new_connection(address, lambda: self._close(handler), now)
        self._silent[handler] = now
        if self._has_room(connection, now):
            self._open[handler] = connection
            return
        self._unidentified.remove(connection)
        self._reserve[handler] = now
        while replaced := gives_way(self._reserve, self._answering.__contains__, now):
            self._forget(replaced)
            replaced.force_close()

    def _has_room(self, connection: Connection, now: float) -> bool:
        if self._needs_token and not self._unidentified.admit(connection):
            return False
        if len(self._open) < self._settings.max_connections:
            return True
        replaced = oldest_idle(self._open.values(), now)
        if replaced is None:
            return False
        replaced.close()
        return True

    def _close(self, handler: RequestHandler) -> None:
        self._forget(handler)
        if handler.transport is not None and handler.transport.get_write_buffer_size():
            handler.close()  # once the response is sent
        else:
            handler.force_close()

    def _forget(self, handler: RequestHandler) -> None:
        connection = self._open.pop(handler, None)
        if connection is not None:
            self._unidentified.remove(connection)
        self._silent.pop(handler, None)
        self._reserve.pop(handler, None)
        self._answering.discard(handler)
        _, held = self._held.pop(handler, ("", None))
        if held is not None:
            held.release()

    def begin(self, handler: RequestHandler) -> bool:
        """A request has arrived; returns whether its connection belongs to the reserve."""
        self._silent.pop(handler, None)
        connection = self._open.get(handler)
        if connection is not None:
            connection.busy = True
        reserve = handler in self._reserve
        if reserve:
            self._answering.add(handler)
        return reserve

    def end(self, handler: RequestHandler) -> None:
        """The response to a request is ready."""
        self._answering.discard(handler)
        connection = self._open.get(handler)
        if connection is not None:
            connection.busy = False
            connection.seen = self._clock.now()

    def identified(self, handler: RequestHandler, principal: str) -> None:
        """The client has shown a valid token, or needs none: its connection counts from now on.

        ``principal`` is empty for callers without limits of their own. Raises ``Overloaded`` if the
        quota of connections is used up; the connection is then closed after the response.
        """
        connection = self._open.get(handler)
        if connection is None:
            return
        self._unidentified.remove(connection)
        before, held = self._held.get(handler, ("", None))
        if held is not None and before == principal:
            return
        try:
            now = self._quotas.hold(Live.CONNECTIONS, "", principal, held)
        except Overloaded:
            handler.close()
            raise
        if held is not None:
            held.release()
        self._held[handler] = principal, now

    def sweep(self, present: Iterable[RequestHandler]) -> None:
        """Forget connections that are not ``present``, and close those without a request for long.

        Connections that are idle between two requests have the keep-alive timeout instead.
        """
        lost = (self._open.keys() | self._reserve.keys()).difference(present)
        for handler in lost:
            self._forget(handler)
        oldest = self._clock.now() - self._settings.silent_seconds
        for handler in [each for each, since in self._silent.items() if since < oldest]:
            self._forget(handler)
            handler.force_close()
