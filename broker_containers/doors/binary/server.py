"""Listens on the binary door's port and runs one session per connection."""

from __future__ import annotations

import asyncio

from broker_containers.doors.binary.session import BinarySession
from broker_containers.doors.listen import Listen
from broker_containers.doors.services import Services
from broker_containers.doors.unidentified import UnidentifiedConnections, new_connection
from sulina.errors import Refused
from sulina.runtime.deadline import within
from sulina.runtime.machine_watch import descriptor_limit, reserve
from sulina.wire.stream import CommandStream

_FLUSH_SECONDS = 2.0
"""How long ``close`` waits for queued commands to be sent."""
_SILENT_SECONDS = 45.0
"""A client that has sent nothing for this long is disconnected: clients send pings."""
_CONNECT_SECONDS = 10.0
"""A client that has not sent its token for this long after connecting is disconnected."""
_SWEEP_SECONDS = 2.5
_MOST_REFUSED = 64
"""Refused connections that may wait for their CONNECT, to get the reason as the reply."""


class BinaryServer:
    """The binary door of a broker. Call ``open`` once the services are running, then ``close``."""

    def __init__(self, services: Services, listen: Listen) -> None:
        self._services = services
        self._listen = listen
        self._server: asyncio.Server | None = None
        self._sessions: set[BinarySession] = set()
        settings = services.broker.settings
        self._unidentified = UnidentifiedConnections(
            services.broker.clock,
            settings.max_unidentified,
            settings.max_unidentified_per_address,
        )
        self._refused: dict[BinarySession, None] = {}
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
        checked = clock.now()
        while True:
            await clock.sleep(_SWEEP_SECONDS)
            now = clock.now()
            self._unidentified.close_opened_before(now - _CONNECT_SECONDS)
            if now - checked < _SILENT_SECONDS / 4:
                continue
            checked = now
            for session in [s for s in self._sessions if s.silent_since(now - _SILENT_SECONDS)]:
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
        return BinarySession(self._services, self._opened, self._identified, self._closed).stream

    def _opened(self, session: BinarySession) -> str:
        self._sessions.add(session)
        reason = self._reason_to_refuse(session)
        if reason:
            self._refused[session] = None
            if len(self._refused) > _MOST_REFUSED:
                oldest = next(iter(self._refused))
                del self._refused[oldest]
                oldest.abort()
        return reason

    def _reason_to_refuse(self, session: BinarySession) -> str:
        if len(self._sessions) > self._services.broker.settings.max_connections:
            return "the broker has too many connections: try again later"
        limit = descriptor_limit()
        # The system assigns the lowest free number, so a high one says how many are in use.
        if session.stream.descriptor >= limit - reserve(limit):
            session.abort()  # it would keep its descriptor until it sends something
            return self.away
        if self._services.authority.on:
            now = self._services.broker.clock.now()
            connection = new_connection(session.stream.address, session.abort, now)
            if not self._unidentified.admit(connection):
                return "too many connections wait to show their tokens: try again later"
            session.unidentified = connection
        return self.away

    def _identified(self, session: BinarySession) -> None:
        if session.unidentified is not None:
            self._unidentified.remove(session.unidentified)

    def _closed(self, session: BinarySession) -> None:
        self._identified(session)
        self._refused.pop(session, None)
        self._sessions.discard(session)
        if not self._sessions:
            self._empty.set()
