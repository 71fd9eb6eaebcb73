"""Listens on the binary door's port and runs a session a connection."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from broker_containers.admin import Admin
from broker_containers.broker.broker import Broker
from broker_containers.doors.binary import BinarySession
from broker_containers.doors.tunnel import Neighbours
from broker_containers.metrics.requests import RequestCounts
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.security.authority import Authority
from broker_containers.security.methods import security_methods
from broker_containers.security.records import SecurityRecords
from broker_containers.security.role_methods import role_methods
from storage_grpc.journal.recover import RecoveryReport
from sulina.client.address import Address
from sulina.errors import Refused
from sulina.runtime.deadline import within
from sulina.runtime.secret_text import secret_text
from sulina.wire.stream import CommandStream

_GOODBYE_SECONDS = 2.0
_SILENT_SECONDS = 45.0


@dataclass(frozen=True, slots=True)
class Listen:
    """Where a door listens."""

    host: str = "127.0.0.1"
    port: int = 6655
    tls: ssl.SSLContext | None = None


class BinaryServer:
    """The binary door of a broker. Use as ``async with``."""

    def __init__(
        self,
        broker: Broker,
        listen: Listen,
        admin: Admin | None = None,
        others: Neighbours | None = None,
        authority: Authority | None = None,
    ) -> None:
        """``others`` are the other brokers, for clients that want one of those. ``authority`` says
        who may do what, at every door; without it everybody may do everything.
        """
        self._others = others
        self.authority = authority or Authority(broker.store, broker.clock, None)
        """Who may do what, for every door."""
        self.authority.follow(self._rights_changed)
        self.requests = RequestCounts()
        """Requests of every door, counted."""
        self.schemas: SchemaChecks | None = None
        """What decides about the schemas of messages, for every door, if there is a registry."""
        self._broker = broker
        self._listen = listen
        self.admin = admin or Admin(broker)
        """The administrative methods that every door offers."""
        records = SecurityRecords(broker.store, broker.clock, secret_text)
        self.admin.offer(security_methods(records, self.authority))
        self.admin.offer(role_methods(broker.store, self.authority))
        self._server: asyncio.Server | None = None
        self._sessions: set[BinarySession] = set()
        self._empty = asyncio.Event()
        self._sweeper: asyncio.Task[None] | None = None
        self.port = listen.port
        """The port in use; the one chosen by the system if 0 was asked for."""
        self.recovery: RecoveryReport | None = None
        """What the journal found when it was opened, if it is in this process."""
        self.away = ""
        """Why clients should use other brokers, if they should."""
        self.http_port: int | None = None
        """The port of the HTTP door, if there is one."""
        self.danube_admin_port: int | None = None
        """The port of the Danube admin door, if there is one."""
        self.grpc_port: int | None = None
        """The port of the door for Danube's clients, if there is one."""

    @property
    def url(self) -> str:
        """Where clients find it, as far as it knows."""
        scheme = "sulina" if self._listen.tls is None else "sulina+tls"
        return f"{scheme}://{Address(self._listen.host, self.port)}"

    @property
    def http_url(self) -> str:
        """Where its HTTP door is, if there is one."""
        scheme = "http" if self._listen.tls is None else "https"
        if not self.http_port:
            return ""
        return f"{scheme}://{Address(self._listen.host, self.http_port)}"

    @property
    def danube_admin_url(self) -> str:
        """Where its Danube admin door is, if there is one."""
        scheme = "http" if self._listen.tls is None else "https"
        if not self.danube_admin_port:
            return ""
        return f"{scheme}://{Address(self._listen.host, self.danube_admin_port)}"

    async def __aenter__(self) -> BinaryServer:
        loop = asyncio.get_running_loop()
        listen = self._listen
        await self.authority.__aenter__()
        try:
            self._server = await loop.create_server(
                self._accept, listen.host, listen.port, ssl=listen.tls, backlog=1024
            )
        except OSError as error:
            await self.authority.__aexit__()
            raise Refused(
                f"can't listen on {listen.host}:{listen.port} ({error.strerror or error}): is "
                "another broker running? Choose another port with --port"
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        self._sweeper = asyncio.create_task(self._drop_silent())
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
        await self.authority.__aexit__()

    def stop_listening(self) -> None:
        """Take no new connections; the present ones go on."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Close all connections, after what is queued for them was sent (for a short while)."""
        self.stop_listening()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        for session in list(self._sessions):
            session.close()
        if self._sessions:
            self._empty.clear()
            try:
                await within(self._broker.clock, _GOODBYE_SECONDS, self._empty.wait())
            except TimeoutError:
                for session in list(self._sessions):
                    session.abort()

    def send_away(self, reason: str) -> None:
        """Close all connections, and take none until ``away`` is empty again."""
        self.away = reason
        for session in list(self._sessions):
            session.close()

    async def _drop_silent(self) -> None:
        """Clients send pings: one that is silent for long is gone, whatever TCP thinks."""
        clock = self._broker.clock
        while True:
            await clock.sleep(_SILENT_SECONDS / 4)
            moment = clock.now() - _SILENT_SECONDS
            for session in [s for s in self._sessions if s.silent_since(moment)]:
                session.abort()
            self._rights_changed()  # tokens that expired are told by nobody

    def _rights_changed(self) -> None:
        if self.authority.on:
            for session in list(self._sessions):
                session.recheck()

    @property
    def connections(self) -> int:
        return len(self._sessions)

    def _accept(self) -> CommandStream:
        return BinarySession(
            self._broker,
            self.admin,
            self._came,
            self._gone,
            self._others,
            self.authority,
            self.schemas,
            self.requests,
        ).stream

    def _came(self, session: BinarySession) -> str:
        """A connection stands, TLS included; returns why it is not wanted, or nothing."""
        self._sessions.add(session)
        if len(self._sessions) > self._broker.settings.max_connections:
            return "the broker has too many connections: try again later"
        return self.away

    def _gone(self, session: BinarySession) -> None:
        self._sessions.discard(session)
        if not self._sessions:
            self._empty.set()
