"""Streams for tests: over a real loopback connection, or fed by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from sulina.errors import ProtocolError
from sulina.wire.commands import Command, Incoming, error_body
from sulina.wire.stream import CommandStream


class NoTransport(asyncio.Transport):
    """A transport to nowhere, for streams that are fed by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def opened(stream: CommandStream) -> CommandStream:
    """``stream``, connected to nowhere."""
    stream.connection_made(NoTransport())
    return stream


class Recorder:
    """Keeps what a stream receives, and answers a broken protocol as a broker does."""

    def __init__(self) -> None:
        self.stream: CommandStream | None = None
        self.there = asyncio.Event()
        self.received_commands: asyncio.Queue[Incoming] = asyncio.Queue()
        self.writable = asyncio.Event()
        self.gone = asyncio.Event()
        self.error: ProtocolError | None = None
        self.refuse: ProtocolError | None = None

    def connected(self, stream: CommandStream) -> None:
        self.stream = stream
        self.there.set()

    def received(self, incoming: Incoming) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.received_commands.put_nowait(incoming)

    def writable_again(self) -> None:
        self.writable.set()

    def lost(self, reason: Exception | None) -> None:
        assert not self.gone.is_set(), "lost is called once"
        self.gone.set()

    def broke_protocol(self, error: ProtocolError) -> None:
        assert self.stream is not None
        self.error = error
        self.stream.send(Command.ERROR, 0, error_body(error))


class WatchedStream(CommandStream):
    """A stream that tells how many bytes it received so far, and shows its transport."""

    transport: asyncio.Transport

    def __init__(self, handler: Recorder, limit: int, trusting: bool) -> None:
        super().__init__(handler, limit, control_limit=4096, trusting=trusting)
        self.received_bytes = 0
        self._came = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        super().connection_made(transport)

    def buffer_updated(self, nbytes: int) -> None:
        self.received_bytes += nbytes
        super().buffer_updated(nbytes)
        self._came.set()

    async def has_received(self, count: int) -> None:
        """Wait until so many bytes came in."""
        while self.received_bytes < count:
            self._came.clear()
            await self._came.wait()


class Server:
    """One accepted connection of a stream, and a raw client at its other end."""

    def __init__(
        self,
        handler: Recorder,
        stream: WatchedStream,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.handler = handler
        self.stream = stream
        self.reader = reader
        self.writer = writer

    async def next(self) -> Incoming:
        return await self.handler.received_commands.get()


@asynccontextmanager
async def served(limit: int = 1 << 20, trusting: bool = False) -> AsyncIterator[Server]:
    """A stream that serves a real TCP connection on the loopback interface."""
    handler = Recorder()
    stream = WatchedStream(handler, limit, trusting)
    server = await asyncio.get_running_loop().create_server(lambda: stream, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
        try:
            await asyncio.wait_for(handler.there.wait(), 10)
            yield Server(handler, stream, reader, writer)
        finally:
            writer.close()
            stream.abort()
            await asyncio.wait_for(handler.gone.wait(), 10)
    finally:
        server.close()
        await server.wait_closed()
