"""The way to one port of this machine, which a test may cut, block or slow down.

What gets through is never altered, lost from the middle or reordered: as TCP has it, bytes that
can't pass now wait, and pass later unless the connection ends before.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

_CHUNK = 64 << 10
_CHUNKS = 256
"""On their way in one direction of a connection; beyond, the sender has to wait."""

_Way = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Wire:
    """Forwards to ``to_port``. Use it in ``async with``; whoever is to be harmed dials ``port``."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._there, self._back = asyncio.Event(), asyncio.Event()
        self._delay = 0.0
        self._refusing = False
        self.port = 0
        self.accepted = 0
        """Connections made so far."""
        self.heal()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self._end_connections()
        await asyncio.gather(*self._connections, return_exceptions=True)

    # ---- harm ----

    def cut(self) -> None:
        """End all connections, and refuse new ones until ``heal``."""
        self._refusing = True
        self._end_connections()

    def block(self, *, there: bool = True, back: bool = True) -> None:
        """Let nothing through, ``there`` (to the port) or ``back``, and tell nobody."""
        if there:
            self._there.clear()
        if back:
            self._back.clear()

    def slow(self, seconds: float) -> None:
        """Everything takes so much longer, each way."""
        self._delay = seconds

    def heal(self) -> None:
        """As if nothing had been; what waited goes on."""
        self._refusing = False
        self._delay = 0.0
        self._there.set()
        self._back.set()

    # ---- forwarding ----

    def _end_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()  # at once: what waits is lost even if it may pass from now on
        for connection in self._connections:
            connection.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        writers = {writer}
        try:
            if not self._refusing:
                self.accepted += 1
                far_reader, far = await asyncio.open_connection(
                    "127.0.0.1", self._to_port, limit=_CHUNK
                )
                writers.add(far)
                self._writers |= writers
                await self._forward((reader, far), (far_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass  # nobody is there, or the wire was cut: the other side sees that it ended
        finally:
            self._connections.discard(task)
            self._writers -= writers
            for end in writers:
                end.transport.abort()

    async def _forward(self, there: _Way, back: _Way) -> None:
        """Until one direction has ended; the other one ends with it."""
        directions = [
            asyncio.create_task(self._carry(there, self._there)),
            asyncio.create_task(self._carry(back, self._back)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _carry(self, way: _Way, passable: asyncio.Event) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_CHUNKS)
        delivering = asyncio.create_task(self._deliver(under_way, way[1], passable))
        try:
            with suppress(OSError):
                while data := await way[0].read(_CHUNK):
                    due = asyncio.get_running_loop().time() + self._delay
                    await under_way.put((due, data))
                await under_way.join()  # the end does not overtake what was sent before it
        finally:
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)

    async def _deliver(
        self,
        under_way: asyncio.Queue[tuple[float, bytes]],
        writer: asyncio.StreamWriter,
        passable: asyncio.Event,
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await under_way.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            await passable.wait()
            with suppress(OSError):  # the receiver is gone, which the reading side will see
                writer.write(data)
                await writer.drain()
            under_way.task_done()
