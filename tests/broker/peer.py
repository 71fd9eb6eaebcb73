"""Sends single commands of the binary protocol, for what correct clients do not do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import TypeVar

from google.protobuf.message import Message

from sulina.runtime.seam import Buffer
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import LENGTH_FIELD, PROTOCOL_VERSION, Command, Incoming, pack, unpack
from sulina.wire.encode import Origin, encode_frame
from tests.broker.actions import PATIENCE

_B = TypeVar("_B", bound=Message)


class Peer:
    """One connection, greeted. Use as ``async with Peer(port)``."""

    def __init__(self, port: int, *, small_buffers: bool = False) -> None:
        self._port = port
        self._buffer = 64 << 10 if small_buffers else 0
        """Bytes received ahead of ``receive``, by asyncio and by the system each."""
        self._requests = 0
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Peer:
        connection = socket.create_connection(("127.0.0.1", self._port))
        if self._buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer)
        self._reader, self._writer = await asyncio.open_connection(
            sock=connection, limit=self._buffer or 1 << 20
        )
        hello = pb.Connect(protocol=PROTOCOL_VERSION, client="test")
        await self.ask(Command.CONNECT, hello, pb.Connected)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._writer.transport.abort()

    def send(self, command: Command, body: Message, *data: Buffer, request: int = 0) -> None:
        self._writer.write(pack(command, request, body, data))
        self._writer.writelines(data)

    async def receive(self) -> Incoming:
        """The next command. Raises ``IncompleteReadError`` when the broker closed."""
        async with asyncio.timeout(PATIENCE):
            length = await self._reader.readexactly(LENGTH_FIELD)
            rest = await self._reader.readexactly(int.from_bytes(length, "little"))
        return unpack(memoryview(bytearray(length + rest)))

    async def next(self, expected: type[_B]) -> _B:
        """The body of the next command, which must be of this kind."""
        body = (await self.receive()).body
        assert isinstance(body, expected), body
        return body

    async def ask(self, command: Command, body: Message, expected: type[_B]) -> _B:
        """Send a request and read its answer, which must come next."""
        self._requests += 1
        self.send(command, body, request=self._requests)
        return await self.next(expected)

    # ---- what producers and consumers do ----

    async def producer(self, topic: str, name: str) -> pb.ProducerCreated:
        body = pb.CreateProducer(topic=topic, name=name)
        return await self.ask(Command.CREATE_PRODUCER, body, pb.ProducerCreated)

    def publish(self, producer: int, number: int, frame: Buffer) -> None:
        self.send(Command.PUBLISH, pb.Publish(producer=producer, number=number), frame)

    async def subscribe(
        self, topic: str, subscription: str, *, records: int, bytes_: int = 1 << 30
    ) -> int:
        """Subscribe from the earliest record, with credit; the consumer's handle."""
        body = pb.Subscribe(
            topic=topic,
            subscription=subscription,
            consumer="peer",
            start=pb.Start(earliest=True),
        )
        handle = (await self.ask(Command.SUBSCRIBE, body, pb.Subscribed)).consumer
        self.grant(handle, records, bytes_)
        return handle

    def grant(self, consumer: int, records: int, bytes_: int = 1 << 30) -> None:
        self.send(Command.FLOW, pb.Flow(consumer=consumer, records=records, bytes=bytes_))


def frame_of(producer: str, first_sequence: int, payloads: Sequence[bytes]) -> bytes:
    """A frame as a client of that name packs it."""
    return encode_frame(Origin(producer), first_sequence, payloads, 1_700_000_000_000_000)
