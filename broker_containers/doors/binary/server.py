"""Listens on the binary door's port and runs one session per connection."""

from __future__ import annotations

import asyncio

from broker_containers.doors.binary.session import BinarySession
from broker_containers.doors.listen import Listen
from broker_containers.doors.services import Services
from sulina.errors import Refused
from sulina.runtime.deadline import within
from sulina.runtime.machine_watch import descriptor_limit, reserve
from sulina.wire.stream import CommandStream

_FLUSH_SECONDS = 2.0
"""How long ``close`` waits for queued commands to be sent."""
_SILENT_SECONDS = 45.0
"""A client that has sent nothing for this long is disconnected: clients send pings."""


class BinaryServer:
    """The binary door of a broker. Call ``open`` once the services are running, then ``close``."""

    def __init__(self, services: Services, listen: Listen) -> None:
        self._services = services
        self._listen = listen
        self._server: asyncio.Server | None = None
        self._sessions: set[BinarySession] = set()
        self._empty = asyncio.Event()
        self._sweeper: asyncio.Task[None] | None = None
        self.port = listen.port
        """The port in use; the one that the system chose if ``listen`` has 0."""
        self.away = ""
        """Why clients have to use other brokers; empty if they do not have to."""
        services.authority.follow(self._recheck_rights)

    async def open(self) -> None:
        """Start listening. Raises ``Refused`` if the port is taken."""
        listen = self._listen
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._accept, listen.host, listen.port, ssl=listen.tls, backlog=1024
            )
        except OSError as error:
            raise Refused(
                f"can't listen on {listen.host}:{listen.port} ({error.strerror or error}): is "
                "another broker running? Choose another port with --port"
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        self._sweeper = asyncio.create_task(self._sweep())

    def stop_listening(self) -> None:
        """Accept no new connections; open ones stay open."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Close all connections after sending what is queued for them, within two seconds."""
        self.stop_listening()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        for session in list(self._sessions):
            session.close()
        if self._sessions:
            self._empty.clear()
            try:
                await within(self._services.broker.clock, _FLUSH_SECONDS, self._empty.wait())
            except TimeoutError:
                for session in list(self._sessions):
                    session.abort()

    def send_away(self, reason: str) -> None:
        """Close all connections, and refuse new ones until ``away`` is empty again."""
        self.away = reason
        for session in list(self._sessions):
            session.close()

    async def _sweep(self) -> None:
        """Disconnect silent clients, and those whose tokens have expired."""
        clock = self._services.broker.clock
        while True:
            await clock.sleep(_SILENT_SECONDS / 4)
            moment = clock.now() - _SILENT_SECONDS
            for session in [s for s in self._sessions if s.silent_since(moment)]:
                session.abort()
            self._recheck_rights()  # the authority does not report that a token has expired

    def _recheck_rights(self) -> None:
        if self._services.authority.on:
            for session in list(self._sessions):
                session.recheck()

    @property
    def connections(self) -> int:
        return len(self._sessions)

    def _accept(self) -> CommandStream:
        return BinarySession(self._services, self._opened, self._closed).stream

    def _opened(self, session: BinarySession) -> str:
        self._sessions.add(session)
        if len(self._sessions) > self._services.broker.settings.max_connections:
            return "the broker has too many connections: try again later"
        limit = descriptor_limit()
        # The system assigns the lowest free number, so a high one says how many are in use.
        if session.stream.descriptor >= limit - reserve(limit):
            session.abort()  # it would keep its descriptor until it sends something
        return self.away

    def _closed(self, session: BinarySession) -> None:
        self._sessions.discard(session)
        if not self._sessions:
            self._empty.set()
