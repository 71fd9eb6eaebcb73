"""Stands before a Redis and spoils some of the commands that pass.

Setting up a connection is neither counted nor harmed: how often it happens is the client's affair.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Final, Self

from tests.support.faulty_proxy import Fault, FaultyProxy, Seen

_LARGEST: Final = 64 << 20
_SET_UP: Final = ("AUTH", "CLIENT", "HELLO", "SELECT")
_BUSY: Final = b"-LOADING Redis is loading the dataset in memory\r\n"


@dataclass(slots=True)
class FaultyRedis(FaultyProxy):
    """Busy is what a Redis answers that has just been started."""

    _server: asyncio.Server | None = None
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LARGEST)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        async with AsyncExitStack() as stack:
            stack.callback(self._connections.discard, task)
            stack.callback(writer.transport.abort)
            far_reader, far = await asyncio.open_connection(
                "127.0.0.1", self.to_port, limit=_LARGEST
            )
            stack.callback(far.transport.abort)
            # The client closed the connection, or the server was killed.
            stack.enter_context(suppress(OSError, asyncio.IncompleteReadError))
            while await self._pass(reader, writer, far_reader, far):
                await writer.drain()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far: asyncio.StreamWriter,
    ) -> bool:
        """One command and its answer. Returns whether the connection goes on."""
        command = await _value(reader)
        words = command.split(b"\r\n", 8)[2:8:2]
        seen = Seen(words[0].decode().upper(), b" ".join(words[1:]).decode(errors="replace"))
        fault = None if seen.method in _SET_UP else await self.fault_of(seen)
        match fault:
            case Fault.BUSY:
                writer.write(_BUSY)
                return True
            case Fault.CUT:
                return False
            case Fault.SILENT:
                await reader.read()
                return False
        far.write(command)
        answer = await _value(far_reader)
        self.done.append(seen)
        if fault is not Fault.LOST:
            writer.write(answer[: len(answer) // 2] if fault is Fault.TORN else answer)
        return fault is None


async def _value(reader: asyncio.StreamReader) -> bytes:
    """The bytes of the next command or answer, in version 2 or 3 of the protocol.

    Raises ``IncompleteReadError`` at the end.
    """
    line = await reader.readuntil(b"\r\n")
    kind, count = line[:1], b"" if line[1:2] == b"-" else line[1:-2]  # -1: no value
    if kind in b"$=!" and count:
        return line + await reader.readexactly(int(count) + 2)
    if kind not in b"*~>%" or not count:
        return line
    values = int(count) * (2 if kind == b"%" else 1)
    return line + b"".join([await _value(reader) for _ in range(values)])
