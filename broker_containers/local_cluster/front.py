"""One address for Danube's clients: spreads their connections over the brokers of a local cluster.

Stock clients know one address. Behind this one, a connection that is lost with its broker is
followed by one to another broker, which forwards calls to the owners of topics. While no broker is
there, new connections wait for one.

Connections and what they buffer are bounded: a side that does not read stops the other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Self, cast

from sulina.client.address import Address
from sulina.errors import Refused
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_MAX_CONNECTIONS: Final = 1024
"""Further ones are closed."""
_MAX_EARLY_BYTES: Final = 1 << 20
"""What a client may send before it has a broker."""
_CONNECT_SECONDS: Final = 2.0
_HOLD_SECONDS: Final = 15.0
"""How long a connection waits for a broker; gRPC's clients wait for 20 s."""
_PAUSE: Final = 0.1
_FRAME_HEAD: Final = 9
_GO_AWAY: Final = bytes((0, 0, 8, 7, 0)) + bytes(12)
"""HTTP/2: no stream was processed, none of them failed, and no more are taken."""


class DanubeFront:
    """Use as ``async with`` while the brokers run. ``brokers`` returns the ports of those that run.

    With ``plain``, connections are HTTP/2 without TLS: clients whose broker dies are told that they
    may repeat calls that had no reply, so that gRPC does so before the application notices. Such a
    call may have been executed: it is an acknowledgement or the like, for which that makes no
    difference, or a message, which these clients would send again by themselves.
    """

    def __init__(
        self,
        host: str,
        port: int,
        brokers: Callable[[], Sequence[int]],
        clock: Clock,
        *,
        plain: bool = True,
    ) -> None:
        self.host = host
        self.port = port
        """The port in use; the one that the system chose if 0 was given."""
        self.plain = plain
        self.open: Counter[int] = Counter()
        """Connections by broker."""
        self._brokers = brokers
        self._clock = clock
        self._server: asyncio.Server | None = None
        self._clients: set[_Client] = set()
        self._dialing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Raises ``Refused`` if the port is taken."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: _Client(self), self.host, self.port)
        except OSError as error:
            raise Refused(
                f"can't listen on {Address(self.host, self.port)} for Danube's clients "
                f"({error.strerror or error}): choose another port with --grpc-port"
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._dialing:
            task.cancel()
        await asyncio.gather(*self._dialing, return_exceptions=True)
        for client in list(self._clients):
            client.transport.abort()

    def arrived(self, client: _Client) -> None:
        """Connect a new client to a broker, unless there are too many."""
        if len(self._clients) >= _MAX_CONNECTIONS:
            client.transport.abort()
            return
        self._clients.add(client)
        task = asyncio.create_task(self._dial(client))
        self._dialing.add(task)
        task.add_done_callback(self._dialing.discard)

    def left(self, client: _Client) -> None:
        self._clients.discard(client)

    async def _dial(self, client: _Client) -> None:
        loop = asyncio.get_running_loop()
        end = self._clock.now() + _HOLD_SECONDS
        while not client.transport.is_closing():
            for port in sorted(self._brokers(), key=self.open.__getitem__):
                side = _Broker(self, client, port)
                dial = loop.create_connection(lambda side=side: side, self.host, port)  # type: ignore[misc]
                try:
                    await within(self._clock, _CONNECT_SECONDS, dial)
                except (OSError, TimeoutError):
                    continue  # the next one
                return
            if self._clock.now() > end:
                client.transport.abort()
            await self._clock.sleep(_PAUSE)


class _Side(asyncio.Protocol):
    """One of the two connections. What it receives is written to the other."""

    transport: asyncio.Transport
    other: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()


class _Client(_Side):
    def __init__(self, front: DanubeFront) -> None:
        self._front = front
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._front.arrived(self)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            # It has no broker yet: stop reading. uvloop may deliver once more nevertheless.
            self._early += data
            self.transport.pause_reading()
            if len(self._early) > _MAX_EARLY_BYTES:
                self.transport.abort()
        else:
            super().data_received(data)

    def connected(self, broker: _Broker) -> None:
        """Send what has arrived meanwhile to its broker, and everything from now on."""
        self.other = broker
        broker.transport.write(self._early)
        self._early = b""
        self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._front.left(self)


class _Broker(_Side):
    def __init__(self, front: DanubeFront, client: _Client, port: int) -> None:
        self._front = front
        self._client = client
        self._port = port
        self._frames = FrameEnds()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._front.open[self._port] += 1
        self.other = self._client
        if self._client.transport.is_closing():
            self.transport.abort()
        else:
            self._client.connected(self)

    def data_received(self, data: bytes) -> None:
        if self._front.plain:
            self._frames.follow(data)
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._front.open[self._port] -= 1
        if self._frames.at_end and not self._client.transport.is_closing():
            self._client.transport.write(_GO_AWAY)
        super().connection_lost(exc)


class FrameEnds:
    """Follows the frames of HTTP/2 in a stream of bytes, without reading what is in them."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._any = False

    @property
    def at_end(self) -> bool:
        """Whether the last frame is complete; False before the first one."""
        return self._any and not self._left and not self._head

    def follow(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._any = True
        at, size = 0, len(data)
        while at < size:
            if self._left:
                step = min(self._left, size - at)
                self._left -= step
                at += step
                continue
            part = data[at : at + _FRAME_HEAD - len(self._head)]
            at += len(part)
            self._head += part
            if len(self._head) == _FRAME_HEAD:
                self._left = int.from_bytes(self._head[:3], "big")
                self._head = b""
