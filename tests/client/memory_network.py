"""A network in memory: both ends of a connection run on one event loop, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sulina.errors import Unavailable


class MemoryTransport(asyncio.Transport):
    """One end. What is written arrives at the other end in the next turn of the loop."""

    def __init__(self, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.other: MemoryTransport
        self.stuck = False
        """The other end does not read: what is written here stays."""
        self._buffer = bytearray()
        self._paused = False
        self._closing = False
        self._high = 1 << 30

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self._buffer += data
            asyncio.get_running_loop().call_soon(self._move)
            if len(self._buffer) > self._high and not self._paused:
                self._paused = True
                self.protocol.pause_writing()

    def _move(self) -> None:
        if self.stuck or self.other._closing:
            return
        data, self._buffer = self._buffer, bytearray()
        while data:
            space = memoryview(self.other.protocol.get_buffer(-1))
            count = min(len(space), len(data))
            space[:count] = data[:count]
            del data[:count]
            self.other.protocol.buffer_updated(count)
        if self._paused:
            self._paused = False
            self.protocol.resume_writing()

    def unstick(self) -> None:
        """The other end reads again."""
        self.stuck = False
        self._move()

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._lose(None)

    def abort(self) -> None:
        self._lose(ConnectionAbortedError("aborted"))

    def _lose(self, error: Exception | None) -> None:
        if not self._closing:
            self._move()
            self._closing = True
            loop = asyncio.get_running_loop()
            loop.call_soon(self.protocol.connection_lost, error)
            loop.call_soon(self.other._lose, None)


class MemoryNetwork:
    """``Network`` to peers in this process. ``accept`` makes the protocol of the other end."""

    def __init__(self, accept: Callable[[], asyncio.BufferedProtocol]) -> None:
        self._accept = accept
        self.reachable = True
        self.dials: list[tuple[str, int, bool]] = []
        self.links: list[MemoryTransport] = []

    async def dial(
        self,
        protocol: asyncio.BufferedProtocol,
        host: str,
        port: int,
        *,
        secure: bool,
        name: str = "",
    ) -> None:
        self.dials.append((host, port, secure))
        if not self.reachable:
            raise Unavailable(f"no broker at {host}:{port}")
        near, far = MemoryTransport(protocol), MemoryTransport(self._accept())
        near.other, far.other = far, near
        self.links.append(near)
        far.protocol.connection_made(far)
        protocol.connection_made(near)

    def cut(self) -> None:
        """Every connection breaks, with what is on its way."""
        for link in self.links:
            link.stuck = link.other.stuck = True
            link.abort()
        self.links.clear()
