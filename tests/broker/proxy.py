"""A network between a client and a broker that can fail: connections are cut, or answers held."""

from __future__ import annotations

import asyncio
from contextlib import suppress

_CHUNK = 64 << 10


class Proxy:
    """Forwards to a port of this machine. Use as ``async with``; clients dial ``url``."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._server: asyncio.Server | None = None
        self._cut: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers = asyncio.Event()
        self._answers.set()
        self._refusing = False
        self.accepted = 0
        """Connections made so far."""
        self.held_bytes = 0
        """Bytes of answers that wait since ``hold_answers``."""

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"sulina://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset all connections; data in transit is lost."""
        for writer in self._cut:
            writer.transport.abort()
        self._cut.clear()
        self._answers.set()

    def cut_and_refuse(self) -> None:
        """As ``cut``, and no new connection is made before ``allow``."""
        self._refusing = True
        self.cut()

    def allow(self) -> None:
        self._refusing = False

    def hold_answers(self) -> None:
        """Let requests through, and nothing back."""
        self.held_bytes = 0
        self._answers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._refusing:
            writer.transport.abort()
            return
        self.accepted += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
        self._cut |= {writer, far_writer}
        with suppress(OSError):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(reader, far_writer))
                group.create_task(self._forward_answers(far_reader, writer))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                writer.write(data)
                await writer.drain()
            writer.close()

    async def _forward_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if not self._answers.is_set():
                    self.held_bytes += len(data)
                    await self._answers.wait()
                writer.write(data)
                await writer.drain()
            writer.close()
