"""Listens for gRPC clients: accepts connections within limits, finds methods, closes what is dead.

Connections that have not shown a valid token are limited for each address and in total, and give
way to others. When all connections are in use, a few more are accepted for health checks.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

import grpc

from broker_containers.doors.grpc_shared.call import Call
from broker_containers.doors.grpc_shared.connection import GrpcConnection
from broker_containers.doors.grpc_shared.gate import CallGate
from broker_containers.doors.grpc_shared.methods import ConnectionUser, Method
from broker_containers.doors.http2.frames import ConnectionFault, ErrorCode
from broker_containers.doors.http2.limits import Http2Limits
from broker_containers.doors.services import Services
from broker_containers.doors.unidentified import (
    UnidentifiedConnections,
    gives_way,
    new_connection,
)
from broker_containers.quotas.quotas import Live
from sulina.client.address import Address
from sulina.errors import Overloaded, Refused
from sulina.runtime.deadline import within
from sulina.runtime.machine_watch import descriptor_limit, reserve

_log = logging.getLogger(__name__)
_HELLO_SECONDS: Final = 5.0
"""The TLS handshake and the client's first HTTP/2 frame."""
_IDLE_SECONDS: Final = 60.0
"""Without calls; clients reconnect when they make the next one."""
_MESSAGE_SECONDS: Final = 30.0
"""How long a message may pause while it arrives."""
_UNREAD_SECONDS: Final = 30.0
"""How long a client may read nothing of what was sent."""
_SWEEP_SECONDS: Final = 1.0
_MOST_USERS: Final = 4096
"""Principals for whom one connection counts at a time."""
_LARGE_PER_CONNECTION: Final = 32 << 20
_LARGE: Final = 256 << 20
"""Reserved for messages that are larger than a stream's window and have not arrived completely."""
_LOG_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """Limits of one gRPC door."""

    max_connections: int = 1024
    """Further ones are closed, or serve health checks only."""
    max_calls: int = 16_384
    """Calls in progress, of all clients; further ones get RESOURCE_EXHAUSTED."""
    max_message_bytes: int = 4 << 20
    """Of a request; larger ones get INVALID_ARGUMENT, without being read."""
    keepalive_seconds: float = 10.0
    """A client that has been silent for this long, and again for as long after a ping, is gone."""
    http2: Http2Limits = field(default_factory=Http2Limits)


class GrpcServer:
    """One gRPC door. Add methods, then ``open`` it; ``close`` ends it."""

    def __init__(self, services: Services, door: str, gate: CallGate, limits: GrpcLimits) -> None:
        broker = services.broker
        self.clock = broker.clock
        self.limits = limits
        self.methods: dict[str, Method] = {}
        """By path."""
        self._door = door
        self._gate = gate
        self._needs_token = services.authority.on
        self._requests = services.requests
        self._quotas = broker.quotas
        self._server: asyncio.Server | None = None
        self._connections: dict[GrpcConnection, None] = {}
        self._reserve: dict[GrpcConnection, float] = {}
        """Connections beyond the limit, for health checks, and when they were opened."""
        total = min(broker.settings.max_unidentified, limits.max_connections // 2)
        per_address = min(broker.settings.max_unidentified_per_address, total)
        self._unidentified = UnidentifiedConnections(self.clock, total or 1, per_address or 1)
        self._calls = 0
        self.tasks: set[asyncio.Task[None]] = set()
        """Of calls in progress that have one."""
        self._reserved = 0
        self._waiting: deque[tuple[Call, int]] = deque()
        """Calls whose large message waits until others have arrived."""
        self._sweeper: asyncio.Task[None] | None = None
        self._empty = asyncio.Event()
        self._logged = 0.0
        self._unlogged = 0

    def add(self, methods: Iterable[Method]) -> None:
        """Serve these methods."""
        self.methods.update((method.path, method) for method in methods)

    async def open(
        self, host: str, port: int, tls: ssl.SSLContext | None, what: str, flag: str
    ) -> int:
        """Take the port, and return it. Raises ``Refused`` if it is taken; see :meth:`start`.

        The error names the port's users, ``what``, and the option that changes the port, ``flag``.
        """
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: GrpcConnection(self),
                host or None,
                port,
                ssl=tls,
                backlog=1024,
                start_serving=False,
                ssl_handshake_timeout=None if tls is None else _HELLO_SECONDS,
            )
        except OSError as error:
            raise Refused(
                f"can't listen on {Address(host or '::', port)} for {what} "
                f"({error.strerror or error}): is another broker running? Choose another port with "
                f"{flag}; 0 takes one that is free"
            ) from None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Accept connections."""
        assert self._server is not None
        await self._server.start_serving()
        self._sweeper = asyncio.create_task(self._sweep(), name=f"{self._door}-sweeper")

    async def close(self, seconds: float) -> None:
        """Accept nothing more, wait up to ``seconds`` for calls in progress, close everything."""
        if self._server is not None:
            self._server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait((self._sweeper,))
        for connection in list(self._all()):
            connection.http2.leave()
            if not connection.calls:
                connection.close()
        try:
            if self._calls and seconds:
                self._empty.clear()
                await within(self.clock, seconds, self._empty.wait())
        except TimeoutError:
            pass
        await self._gate.close()
        for connection in list(self._all()):
            connection.close()
        if self.tasks:
            await asyncio.wait(self.tasks)

    @property
    def http2_limits(self) -> Http2Limits:
        """Those of one connection."""
        return self.limits.http2

    @property
    def connections(self) -> int:
        return len(self._connections) + len(self._reserve)

    def _all(self) -> Iterable[GrpcConnection]:
        return (*self._connections, *self._reserve)

    # ---- connections ----

    def opened(self, connection: GrpcConnection) -> None:
        """A connection is established, TLS included."""
        limit = descriptor_limit()
        # The system assigns the lowest free number, so a high one says how many are in use.
        if connection.descriptor >= limit - reserve(limit):
            connection.abort()
            return
        if not self._needs_token:
            connection.http2.trust()
        if self._has_room(connection):
            self._connections[connection] = None
            return
        connection.reserve = True
        self._reserve[connection] = connection.opened
        busy = attrgetter("calls")
        while replaced := gives_way(self._reserve, busy, self.clock.now()):
            del self._reserve[replaced]
            replaced.abort()

    def _has_room(self, connection: GrpcConnection) -> bool:
        if len(self._connections) >= self.limits.max_connections:
            return False
        if self._needs_token:
            found = new_connection(connection.address, connection.abort, self.clock.now())
            if not self._unidentified.admit(found):
                return False
            connection.unidentified = found
        return True

    def identified(self, connection: GrpcConnection, principal: str) -> ConnectionUser:
        """Count a connection in the quotas for one more principal, or raise ``Overloaded``.

        Over a quota it stays open, for the client's next attempt, among those without a token: it
        gives way to others.
        """
        held = connection.held or self._quotas.hold(Live.CONNECTIONS, "", "")
        try:
            own = self._quotas.hold(Live.CONNECTIONS, "", principal, within=held)
        except Overloaded:
            if connection.held is None:
                held.release()
            raise
        connection.held = held
        user = connection.users[principal] = ConnectionUser(own)
        if len(connection.users) > _MOST_USERS:
            self._forget(connection, next(iter(connection.users)))
        self._known(connection)
        return user

    def _forget(self, connection: GrpcConnection, principal: str) -> None:
        connection.users.pop(principal).held.release()

    def _known(self, connection: GrpcConnection) -> None:
        if connection.unidentified is not None:
            self._unidentified.remove(connection.unidentified)
            connection.unidentified = None

    def closed(self, connection: GrpcConnection) -> None:
        self._known(connection)
        for principal in list(connection.users):
            self._forget(connection, principal)
        if connection.held is not None:
            connection.held.release()
        self._connections.pop(connection, None)
        self._reserve.pop(connection, None)

    def broke(self, connection: GrpcConnection, fault: ConnectionFault) -> None:
        """A connection was closed because its client broke the protocol or a limit."""
        self._requests.closed(self._door, fault.code.name.lower())
        now = self.clock.now()
        if now - self._logged < _LOG_SECONDS and self._logged:
            self._unlogged += 1
            return
        more = f" ({self._unlogged} more since the last message)" if self._unlogged else ""
        self._logged, self._unlogged = now, 0
        _log.warning(
            "%s: closed the connection of %s: %s%s", self._door, connection.peer, fault, more
        )

    async def _sweep(self) -> None:
        while True:
            await self.clock.sleep(_SWEEP_SECONDS)
            now = self.clock.now()
            for connection in list(self._all()):
                self._look_at(connection, now)

    def _look_at(self, connection: GrpcConnection, now: float) -> None:
        """Close a connection that is dead or unused; find out whether it is dead."""
        silent = now - connection.seen
        keepalive = self.limits.keepalive_seconds
        if not connection.http2.greeted:
            if now - connection.opened > _HELLO_SECONDS:
                connection.abort()
        elif connection.blocked:
            if now - connection.blocked_since > _UNREAD_SECONDS:
                connection.abort()
        elif not connection.calls and now - connection.idle_since > _IDLE_SECONDS:
            connection.close()
        elif connection.pinged > connection.seen:
            if now - connection.pinged > keepalive:
                connection.abort()
        elif silent > keepalive:
            connection.pinged = now
            connection.http2.ping()
        self._end_slow_calls(connection, now)
        if len(connection.users) > 1:
            self._forget_left(connection, now)

    def _forget_left(self, connection: GrpcConnection, now: float) -> None:
        """Stop counting a connection for principals whose calls another broker forwarded once."""
        for principal, user in list(connection.users.items()):
            if not user.calls and now - user.seen > _IDLE_SECONDS and len(connection.users) > 1:
                self._forget(connection, principal)

    def _end_slow_calls(self, connection: GrpcConnection, now: float) -> None:
        for stream in list(connection.http2.streams.values()):
            call = stream.user
            if (
                isinstance(call, Call)
                and call.waits_for_message
                and now - call.progress > _MESSAGE_SECONDS
                and all(call is not waiting for waiting, _ in self._waiting)
            ):
                why = "the message did not arrive in time: try again"
                call.fail(grpc.StatusCode.DEADLINE_EXCEEDED, why)
            elif stream.tail is not None and now - connection.seen > _UNREAD_SECONDS:
                connection.http2.reset(stream, ErrorCode.CANCEL)

    # ---- calls ----

    def begin(self, call: Call) -> None:
        """The headers of a call have arrived: allow it, or answer it."""
        connection, head = call.connection, call.head
        call.most = self.limits.max_message_bytes
        call.progress = connection.seen
        if connection.reserve and not self._gate.is_open(head.path) and not self._admit(call):
            why = "the broker has too many connections: try again later"
            connection.refuse(call, grpc.StatusCode.UNAVAILABLE, why)
            return
        if not self._gate.allows(call):
            return
        method = self.methods.get(head.path)
        if head.problem is not None:
            call.fail(*head.problem)
        elif method is None:
            connection.refuse(
                call, grpc.StatusCode.UNIMPLEMENTED, f"there is no method {head.path[:200]}"
            )
        elif call.limits is None and self._calls >= self.limits.max_calls:
            why = "too many calls are in progress: try again later"
            connection.refuse(call, grpc.StatusCode.RESOURCE_EXHAUSTED, why)
        else:
            if call.limits is None:
                call.counted = True
                self._calls += 1
            call.method = method
            if method.client_streams:
                call.begin_stream()

    def _admit(self, call: Call) -> bool:
        """Whether a connection leaves the reserve: it has a token, and only others lack theirs."""
        connection = call.connection
        if (
            not self._needs_token
            or len(self._connections) >= self.limits.max_connections
            or not self._gate.knows(call)
        ):
            return False
        assert isinstance(connection, GrpcConnection)
        connection.reserve = False
        self._reserve.pop(connection, None)
        self._connections[connection] = None
        return True

    def ended(self, call: Call) -> None:
        """A call holds nothing any more."""
        if call.limits is not None:
            call.limits.end(call)
            call.limits = None
        if call.counted:
            call.counted = False
            self._calls -= 1
            if not self._calls:
                self._empty.set()
        if call.reserved or self._waiting:
            self.give_back(call)

    # ---- memory for large messages ----

    def more(self, call: Call, missing: int) -> None:
        """Let a client send more of a large message, at once or when others have arrived."""
        if call.reserved:
            call.connection.http2.extend(call.stream)
        elif all(call is not waiting for waiting, _ in self._waiting):
            self._waiting.append((call, missing))
            self._reserve_some()

    def give_back(self, call: Call) -> None:
        """A large message has arrived, or never will."""
        if call.reserved:
            self._reserved -= call.reserved
            call.connection.reserved -= call.reserved
            call.reserved = 0
            self._reserve_some()
        elif self._waiting:
            self._waiting = deque(each for each in self._waiting if each[0] is not call)

    def _reserve_some(self) -> None:
        still: deque[tuple[Call, int]] = deque()
        for call, size in self._waiting:
            connection = call.connection
            if self._reserved + size > _LARGE or connection.reserved + size > _LARGE_PER_CONNECTION:
                still.append((call, size))
                continue
            call.reserved = size
            connection.reserved += size
            self._reserved += size
            connection.http2.extend(call.stream)
        self._waiting = still
