"""A peer that means harm: it sends what it likes, and then looks whether it is still served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from google.protobuf.message import Message

from sulina.runtime.seam import Buffer
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import (
    LENGTH_FIELD,
    PROTOCOL_VERSION,
    Command,
    Incoming,
    pack,
    unpack,
)
from tests.broker.actions import PATIENCE

_LAST_REQUEST = 0xFFFF_FFFF


class Attacker:
    """One connection. What the broker answers is kept only as long as it takes to look at it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._requests = 0

    def write(self, data: Buffer) -> None:
        """Send any bytes."""
        self._writer.write(data)

    def send(
        self, command: Command, body: Message | bytes, *data: Buffer, request: int = 0
    ) -> None:
        """Send a command; a body of bytes goes as it is."""
        if isinstance(body, bytes):
            known = pack(command, request, pb.Ping(), (body, *data))
            # The control body is what would be data otherwise.
            self.write(known[:12] + len(body).to_bytes(4, "little"))
            self.write(body)
        else:
            self.write(pack(command, request, body, data))
        for part in data:
            self.write(part)

    async def sent(self) -> None:
        """Wait until the broker has taken what was sent, or has had enough of it."""
        with suppress(OSError):
            await self._writer.drain()

    def greet(self) -> None:
        self.send(Command.CONNECT, pb.Connect(protocol=PROTOCOL_VERSION, client="x"), request=1)

    async def answer(self, request: int) -> Incoming:
        """The answer to a request; everything before it is dropped. ``OSError`` or ``EOFError`` if
        the broker closed the connection."""
        async with asyncio.timeout(PATIENCE):
            while True:
                length = await self._reader.readexactly(LENGTH_FIELD)
                rest = await self._reader.readexactly(int.from_bytes(length, "little"))
                incoming = unpack(memoryview(bytearray(length + rest)))
                if incoming.request == request:
                    return incoming

    async def ask(self, command: Command, body: Message | bytes) -> Incoming:
        """Send a request and wait for its answer."""
        self._requests += 1
        self.send(command, body, request=self._requests)
        return await self.answer(self._requests)

    async def served_or_closed(self) -> bool:
        """Whether a ping is still answered. If not, the broker has closed the connection: the
        test fails if it did neither in good time."""
        try:
            self.send(Command.PING, pb.Ping(), request=_LAST_REQUEST)
            await self.answer(_LAST_REQUEST)
        except (OSError, EOFError):
            return False
        return True

    async def thrown_out(self) -> None:
        """Wait until the broker has said what is wrong, and closed the connection."""
        while (await self.answer(0)).command is not Command.ERROR:
            pass
        await self.closed()

    async def closed(self) -> None:
        """Wait until the broker has closed the connection."""
        async with asyncio.timeout(PATIENCE):
            with suppress(OSError):
                while await self._reader.read(1 << 16):
                    pass


@asynccontextmanager
async def attacker(port: int, *, greeted: bool = True) -> AsyncIterator[Attacker]:
    """A connection to a broker; gone without a goodbye when left."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        peer = Attacker(reader, writer)
        if greeted:
            peer.greet()
            await peer.answer(1)
            peer._requests = 1
        yield peer
    finally:
        writer.transport.abort()
