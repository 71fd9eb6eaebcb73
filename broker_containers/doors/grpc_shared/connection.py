"""One connection of a gRPC client: HTTP/2 on an asyncio transport, and the calls on it.

Everything that arrives in one read is handled in one turn of the event loop, and everything that a
turn has to send is one write. While the client does not read, nothing is read from it.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, cast

import grpc

from broker_containers.doors.grpc_shared.call import Call
from broker_containers.doors.grpc_shared.call_head import CallHead
from broker_containers.doors.grpc_shared.methods import ConnectionUser
from broker_containers.doors.http2.connection import Http2Connection
from broker_containers.doors.http2.frames import ConnectionFault, ErrorCode
from broker_containers.doors.http2.head import Head
from broker_containers.doors.http2.hpack import Header
from broker_containers.doors.http2.limits import ANSWERED, Http2Limits
from broker_containers.doors.http2.streams import Stream
from broker_containers.doors.unidentified import Connection
from broker_containers.quotas.quotas import Held
from broker_containers.security.certificate import ClientCertificate, read_certificate
from sulina.runtime.seam import Clock

_WRITE_HIGH: Final = 1 << 20
_WRITE_LOW: Final = 256 << 10
_PONG_SECONDS: Final = 0.005
"""How long the answer to a ping waits at most for something else to be sent. Clients send pings
with what they send, to measure how much fits on the way: an answer of its own is a write here, and
wakes the client."""
_CONTENT: Final = ("content-type", "application/grpc")
_HEAD: Final = ((":status", "200"), _CONTENT)
_OK: Final = (("grpc-status", "0"),)
_REPEATED: Final = frozenset((_CONTENT, *_OK))
_UNCOMPRESSED: Final = ("grpc-accept-encoding", "identity")
_REFUSED_COST: Final = ANSWERED + 2.0
"""What a call that is refused costs its connection: more than its answer gives back."""


_LINGER_SECONDS: Final = 1.0
_IGNORED_BYTES: Final = 1 << 20
"""How long, and for how many bytes, a client that broke the protocol may read why."""


class ConnectionOwner(Protocol):
    """What connections need of their server; see ``server``."""

    clock: Clock
    tasks: set[asyncio.Task[None]]

    @property
    def http2_limits(self) -> Http2Limits: ...
    def opened(self, connection: GrpcConnection) -> None: ...
    def identified(self, connection: GrpcConnection, principal: str) -> ConnectionUser: ...
    def closed(self, connection: GrpcConnection) -> None: ...
    def broke(self, connection: GrpcConnection, fault: ConnectionFault) -> None: ...
    def begin(self, call: Call) -> None: ...
    def more(self, call: Call, missing: int) -> None: ...
    def give_back(self, call: Call) -> None: ...
    def ended(self, call: Call) -> None: ...


class GrpcConnection(asyncio.Protocol):
    """The protocol of one connection."""

    def __init__(self, server: ConnectionOwner) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._flushing = False
        self._late: asyncio.TimerHandle | None = None
        """Set while answers to pings may be waiting."""
        self._head: bytes | None = None
        self._tail: bytes | None = None
        self.http2 = Http2Connection(self, self._wake, server.http2_limits)
        self.tasks = server.tasks
        self.half_window = server.http2_limits.stream_window // 2
        self._ignored: int | None = None
        """Bytes that arrived after a fault; None while there was none."""
        self._lingering: asyncio.TimerHandle | None = None
        self.blocked = False
        """The client does not read what was sent."""
        self.blocked_since = 0.0
        self.writers: dict[Call, None] = {}
        """Calls that wait until the client accepts more."""
        self.peer = self.address = "unknown"
        self.certificate: ClientCertificate | None = None
        self.seen = self.opened = server.clock.now()
        """When something last arrived."""
        self.pinged = 0.0
        """When the client was last asked whether it is there."""
        self.calls = 0
        """Calls in progress."""
        self.idle_since = self.seen
        self.reserve = False
        """The server is full: only methods that are open to everybody are served."""
        self.held: Held | None = None
        """Set once it counts in the broker's quota: its client is known, or need not be."""
        self.users: dict[str, ConnectionUser] = {}
        """Principals that made calls: another broker forwards those of many. It counts in the
        quota of each."""
        self.unidentified: Connection | None = None
        """Set while the limits of connections without a token apply."""
        self.reserved = 0
        """Bytes reserved for large messages."""

    # ---- called by asyncio ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface but not the base class.
        self._transport = connection = cast(asyncio.Transport, transport)
        connection.set_write_buffer_limits(high=_WRITE_HIGH, low=_WRITE_LOW)
        place = connection.get_extra_info("peername")
        if isinstance(place, tuple):
            self.address = str(place[0])
            self.peer = f"[{place[0]}]:{place[1]}" if ":" in place[0] else f"{place[0]}:{place[1]}"
        self.certificate = read_certificate(connection.get_extra_info("peercert"))
        self._server.opened(self)
        self._wake()

    def data_received(self, data: bytes) -> None:
        if self._ignored is not None:
            self._ignored += len(data)
            if self._ignored > _IGNORED_BYTES:
                self.abort()
            return
        self.seen = now = self._server.clock.now()
        # What can be answered at once is written at once, not in the next turn.
        scheduled, self._flushing = self._flushing, True
        self.http2.receive(data, now)
        if scheduled:
            return
        if self.http2.patient:
            self._flushing = False
            if self._late is None:  # also for later answers, which then wait shorter
                self._late = self._loop.call_later(_PONG_SECONDS, self._flush_late)
        else:
            self._flush()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.blocked = True
        self.blocked_since = self._server.clock.now()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.blocked = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        for call in list(self.writers):
            call.drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._lingering is not None:
            self._lingering.cancel()
        if self._late is not None:
            self._late.cancel()
        self.http2.lost()
        self._server.closed(self)

    # ---- called by the server ----

    @property
    def descriptor(self) -> int:
        """The number of its file descriptor; -1 if it has none."""
        socket = self._transport.get_extra_info("socket") if self._transport else None
        return -1 if socket is None else int(socket.fileno())

    def close(self, code: ErrorCode = ErrorCode.NO_ERROR, why: str = "") -> None:
        """Close the connection after sending what is queued; its calls end."""
        self.http2.close(code, why)
        if self._ignored is not None:
            self.abort()
        self._flush()

    def abort(self) -> None:
        """Close the connection immediately."""
        self.http2.lost()
        if self._transport is not None:
            self._transport.abort()

    def show_identity(self, call: Call, principal: str) -> None:
        """A caller has shown a valid token, or needs none: the connection counts for it.

        ``principal`` is empty for callers without limits of their own. Raises ``Overloaded`` if a
        quota of connections is used up; the next call tries again.
        """
        user = self.users.get(principal)
        if user is None:
            known = self.held is not None
            user = self._server.identified(self, principal)
            if not known:
                self.http2.trust()
        user.seen = self.seen
        user.calls += 1
        call.user = user

    # ---- sending ----

    def _wake(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        transport = self._transport
        if transport is None or transport.is_closing() or self._ignored is not None:
            return
        data = self.http2.take()
        if data:
            transport.write(data)
        if self.http2.closed:
            if self.http2.fault is not None:
                self._server.broke(self, self.http2.fault)
            if self.blocked:
                transport.abort()
            elif self.http2.fault is not None:
                self._linger(transport)
            else:
                transport.close()

    def _flush_late(self) -> None:
        self._late = None
        self._flush()

    def _linger(self, transport: asyncio.Transport) -> None:
        """Close once the client has read why: closed at once, while more of it arrives, the system
        would discard what was sent."""
        self._ignored = 0
        if transport.can_write_eof():
            transport.write_eof()
        self._lingering = self._loop.call_later(_LINGER_SECONDS, transport.abort)

    def ok_head(self) -> bytes:
        """The headers of a response."""
        encoder = self.http2.encoder
        if encoder.entered == len(_REPEATED):
            if self._head is None:
                self._head = encoder.block(_HEAD, _REPEATED)
            return self._head
        return encoder.block(_HEAD, _REPEATED)

    def ok_tail(self) -> bytes:
        """The headers that end a response without an error."""
        encoder = self.http2.encoder
        if encoder.entered == len(_REPEATED):
            if self._tail is None:
                self._tail = encoder.block(_OK, _REPEATED)
            return self._tail
        return encoder.block(_OK, _REPEATED)

    def tail(self, headers: list[Header], *, only: bool) -> bytes:
        """The headers that end a response; ``only`` if there are no others."""
        first = (*_HEAD, _UNCOMPRESSED) if only else ()
        return self.http2.encoder.block((*first, *headers), _REPEATED)

    # ---- called by HTTP/2 ----

    def request(self, stream: Stream, head: Head, data: bytes) -> None:
        found = head.memo
        if found is None:
            found = head.memo = CallHead(head)
        assert isinstance(found, CallHead)
        if found.http_status:
            stream.user = found.http_status
            self._not_grpc(stream)
            return
        call = Call(self, stream, found)
        stream.user = call
        self.calls += 1
        if self.unidentified is not None:
            self.unidentified.busy = True
        self._server.begin(call)
        if stream.ended and not call.left:
            call.received(data, self.seen)

    def data(self, stream: Stream, data: bytes) -> None:
        call = stream.user
        if isinstance(call, Call):
            call.received(data, self.seen)
        elif call is not None:
            self._not_grpc(stream)

    def reset(self, stream: Stream) -> None:
        call = stream.user
        if isinstance(call, Call):
            call.reset()

    def drained(self, stream: Stream) -> None:
        call = stream.user
        if isinstance(call, Call):
            call.drained()

    def _not_grpc(self, stream: Stream) -> None:
        """Answer a request of another kind, once it has ended; its data is ignored."""
        if not stream.ended:
            return
        headers = (":status", str(stream.user)), ("content-type", "text/plain")
        self.http2.spend(_REFUSED_COST, "requests that are not gRPC calls")
        if not self.http2.closed:
            self.http2.send_headers(stream, self.http2.encoder.block(headers, _REPEATED))
            self.http2.send_data(stream, b"This port serves gRPC calls: use a gRPC client.\n")
            self.http2.send_tail(stream, b"")

    # ---- called by calls ----

    def refuse(self, call: Call, status: grpc.StatusCode, text: str) -> None:
        """End a call that is not allowed. A connection that has many of them is closed."""
        self.http2.spend(_REFUSED_COST, "calls that are refused")
        call.fail(status, text)

    def more(self, call: Call, missing: int) -> None:
        """A call's message is larger than its window."""
        self._server.more(call, missing)

    def arrived(self, call: Call) -> None:
        """A large message of a call is complete."""
        self._server.give_back(call)

    def ended(self, call: Call) -> None:
        """A call holds nothing any more."""
        self.calls -= 1
        if call.user is not None:
            call.user.calls -= 1
        if self.writers:
            self.writers.pop(call, None)
        if not self.calls:
            self.idle_since = self.seen
            if self.unidentified is not None:
                self.unidentified.busy = False
                self.unidentified.seen = self.seen
        self._server.ended(call)
