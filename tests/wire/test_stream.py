"""Commands over a real connection: whole, whatever the pieces they come in, and bounded."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sulina.errors import ProtocolError
from sulina.runtime.seam import Buffer
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import PREFIX, Command, Incoming, error_from, pack, unpack
from sulina.wire.stream import CommandStream
from tests.wire.loopback import Recorder, Server, opened, served

Run = Callable[[Coroutine[Any, Any, None]], None]
CHUNK = 64 << 10


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine, once on each event loop that Sulina is used with."""
    factory = None
    if request.param == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop

    def runner(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as loop:
            loop.run(asyncio.wait_for(work, 30))

    return runner


def publish(number: int, data: bytes) -> bytes:
    return pack(Command.PUBLISH, 0, pb.Publish(producer=1, number=number), [data]) + data


def numbered(incoming: Incoming) -> tuple[int, bytes]:
    assert isinstance(incoming.body, pb.Publish)
    return incoming.body.number, bytes(incoming.data)


async def read_command(reader: asyncio.StreamReader) -> Incoming:
    length = await reader.readexactly(4)
    rest = await reader.readexactly(int.from_bytes(length, "little"))
    return unpack(memoryview(length + rest))


def test_commands_arrive_whole_wherever_their_bytes_are_split(run: Run) -> None:
    async def scenario() -> None:
        async with served() as server:
            commands = publish(1, b"first") + pack(Command.PING, 9, pb.Ping()) + publish(2, b"")
            sent = 0
            for cut in range(1, len(commands)):
                server.writer.write(commands[:cut])
                await server.stream.has_received(sent + cut)
                server.writer.write(commands[cut:])
                assert numbered(await server.next()) == (1, b"first")
                ping = await server.next()
                assert (ping.command, ping.request) == (Command.PING, 9)
                assert numbered(await server.next()) == (2, b"")
                sent += len(commands)

    run(scenario())


def test_many_commands_in_one_segment_arrive_in_order(run: Run) -> None:
    async def scenario() -> None:
        async with served() as server:
            payload = b"x" * 37
            server.writer.write(b"".join(publish(number, payload) for number in range(5_000)))
            for number in range(5_000):
                assert numbered(await server.next()) == (number, payload)

    run(scenario())


# Around the sizes at which a command no longer fits, or is no longer waited for in, the chunk.
SIZES = [CHUNK // 4, CHUNK // 2 - 40, CHUNK // 2, CHUNK // 2 + 1, CHUNK - 30, CHUNK, CHUNK + 1]


def test_large_and_small_commands_mix(run: Run) -> None:
    async def scenario() -> None:
        async with served(limit=2 << 20) as server:
            sizes = [size for each in SIZES for size in (each, 3, each, 1 << 20, 0)]
            for number, size in enumerate(sizes):
                server.writer.write(publish(number, bytes([number % 251]) * size))
            for number, size in enumerate(sizes):
                assert numbered(await server.next()) == (number, bytes([number % 251]) * size)

    run(scenario())


@pytest.mark.parametrize("piece", [1, 2, 15, 16, 17, 1000, 40_000, CHUNK])
def test_commands_of_all_sizes_survive_pieces_of_any_size(piece: int) -> None:
    handler = Recorder()
    stream = opened(CommandStream(handler, 1 << 20))
    sizes = [0, 1, 100, *SIZES, 5] if piece > 100 else [0, 1, 100, CHUNK // 2 + 1, 5]
    data = b"".join(publish(number, bytes([number]) * size) for number, size in enumerate(sizes))
    feed(stream, data, piece)
    for number, size in enumerate(sizes):
        received = handler.received_commands.get_nowait()
        assert numbered(received) == (number, bytes([number]) * size)
    assert handler.received_commands.empty()


def feed(stream: CommandStream, data: bytes, piece: int) -> None:
    """What a transport does with bytes that arrive."""
    while data and stream.open:
        buffer = stream.get_buffer(-1)
        taken = min(len(buffer), piece, len(data))
        assert taken, "a stream always has room to receive into"
        buffer[:taken] = data[:taken]
        stream.buffer_updated(taken)
        data = data[taken:]


def test_received_data_is_the_receivers_own(run: Run) -> None:
    async def scenario() -> None:
        async with served(limit=1 << 20) as server:
            for size in (10, 1 << 19):
                server.writer.write(publish(1, b"a" * size))
                first = await server.next()
                first.data[:] = b"b" * size
                server.writer.write(publish(2, b"c" * size))
                await server.next()
                assert bytes(first.data) == b"b" * size

    run(scenario())


# ---- what can't be understood ----


async def refused(server: Server) -> str:
    """The connection ends with an error, after which nothing else comes; its text."""
    error = await read_command(server.reader)
    assert error.command is Command.ERROR
    assert isinstance(error.body, pb.Error)
    assert await server.reader.read() == b""
    await server.handler.gone.wait()
    assert not server.stream.open
    received = error_from(error.body)
    assert isinstance(received, ProtocolError)
    assert str(received) == str(server.handler.error)
    return str(received)


BROKEN = {
    "over the limit": (PREFIX.pack(1 << 20, Command.PUBLISH, 0, 0, 0, 0), "allowed are"),
    "far over the limit": (b"\xff" * 64, "allowed are"),
    "shorter than a prefix": (PREFIX.pack(11, Command.PING, 0, 0, 0, 0), "allowed are"),
    "of no length": (bytes(16), "allowed are"),
    "of another protocol": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "really a Sulina client"),
    "of an unknown kind": (PREFIX.pack(12, 99, 0, 0, 0, 0), "unknown command"),
    "with a body beyond its end": (PREFIX.pack(12, Command.PING, 0, 0, 0, 1), "longer"),
    "with a body of too many bytes": (
        pack(Command.ADMIN, 1, pb.Admin(arguments=bytes(5_000))),
        "maximum of 4096",
    ),
    "with a body of noise": (
        PREFIX.pack(20, Command.LOOKUP, 0, 0, 0, 8) + b"\xff" * 8,
        "cannot be decoded",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_command_that_can_not_be_understood_ends_the_connection(run: Run, what: str) -> None:
    command, told = BROKEN[what]

    async def scenario() -> None:
        async with served(limit=1 << 20) as server:
            server.writer.write(publish(1, b"good") + command + publish(2, b"never seen"))
            assert numbered(await server.next()) == (1, b"good")
            assert told in await refused(server)
            assert server.handler.received_commands.empty()

    run(scenario())


def test_a_command_of_exactly_the_limit_is_taken(run: Run) -> None:
    async def scenario() -> None:
        data = bytes((1 << 20) - len(publish(1, b"")))
        async with served(limit=1 << 20) as server:
            server.writer.write(publish(1, data))
            assert numbered(await server.next()) == (1, data)
            # Its first bytes are enough: the rest, unread, could reset the connection.
            server.writer.write(publish(1, data + b"\0")[:100])
            await refused(server)

    run(scenario())


@pytest.mark.parametrize("size", [3, CHUNK])
def test_a_handler_that_raises_a_protocol_error_ends_the_connection(run: Run, size: int) -> None:
    async def scenario() -> None:
        async with served() as server:
            server.handler.refuse = ProtocolError("not like this")
            server.writer.write(publish(1, bytes(size)))
            assert await refused(server) == "not like this"

    run(scenario())


def test_a_connection_that_ends_within_a_command_is_just_lost(run: Run) -> None:
    async def scenario() -> None:
        for size in (10, CHUNK):
            async with served() as server:
                server.writer.write(publish(1, bytes(size))[:-1])
                server.writer.close()
                await server.handler.gone.wait()
                assert server.handler.error is None
                assert server.handler.received_commands.empty()

    run(scenario())


def test_half_a_command_weighs_nothing_once_its_connection_is_gone() -> None:
    stream = opened(CommandStream(Recorder(), 16 << 20))
    feed(stream, publish(1, bytes(15 << 20))[: 2 * CHUNK], CHUNK)
    half_a_command = stream.get_buffer(-1).obj
    stream.connection_lost(None)
    held_by_this_test = bytearray()  # versions of Python count a name differently
    assert sys.getrefcount(half_a_command) == sys.getrefcount(held_by_this_test)


def test_what_still_comes_after_a_close_is_not_received() -> None:
    for size in (10, CHUNK):
        handler = Recorder()
        stream = opened(CommandStream(handler, 1 << 20))
        command = publish(1, bytes(size))
        feed(stream, command[:-1], CHUNK)
        stream.close()
        stream.get_buffer(-1)[:1] = command[-1:]
        stream.buffer_updated(1)
        for _ in range(5):
            buffer = stream.get_buffer(-1)
            buffer[:] = bytes(len(buffer))
            stream.buffer_updated(len(buffer))
        assert handler.received_commands.empty() and handler.error is None


def test_nothing_is_sent_after_a_close(run: Run) -> None:
    async def scenario() -> None:
        async with served() as server:
            server.stream.send(Command.PONG, 1, pb.Pong())
            server.stream.close()
            server.stream.send(Command.PONG, 2, pb.Pong())
            assert (await read_command(server.reader)).request == 1
            assert await server.reader.read() == b""

    run(scenario())


# ---- peers that do not read ----

BLOCK: Buffer = bytes(256 << 10)


async def fill(server: Server) -> int:
    """Send until the peer, which does not read, holds us up; how many commands that took."""
    sent = 0
    while server.stream.writable:
        server.stream.send(Command.DELIVER, 0, pb.Deliver(consumer=1), BLOCK)
        sent += 1
        await asyncio.sleep(0)
        assert sent < 10_000
    return sent


def test_a_peer_that_does_not_read_is_not_read_from_until_it_does(run: Run) -> None:
    async def scenario() -> None:
        async with served() as server:
            small_buffers(server)
            sent = await fill(server)
            assert not server.stream.transport.is_reading()
            server.writer.write(pack(Command.PING, 5, pb.Ping()))
            for _ in range(sent):
                delivered = await read_command(server.reader)
                assert bytes(delivered.data) == BLOCK
            await server.handler.writable.wait()
            assert server.stream.writable
            assert (await server.next()).request == 5

    run(scenario())


def test_a_trusting_side_reads_on_while_its_own_writes_wait(run: Run) -> None:
    async def scenario() -> None:
        async with served(trusting=True) as server:
            small_buffers(server)
            await fill(server)
            server.writer.write(pack(Command.PING, 5, pb.Ping()))
            assert (await server.next()).request == 5
            assert not server.stream.writable

    run(scenario())


def small_buffers(server: Server) -> None:
    peer = server.writer.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)


def test_closing_does_not_wait_for_a_peer_that_does_not_read(run: Run) -> None:
    async def scenario() -> None:
        async with served() as server:
            small_buffers(server)
            await fill(server)
            server.stream.close()
            await server.handler.gone.wait()

    run(scenario())


def test_reading_is_held_until_every_reason_is_gone(run: Run) -> None:
    async def scenario() -> None:
        async with served() as server:
            stream = server.stream
            stream.hold("storage")
            stream.hold("storage")
            stream.hold("other")
            assert not stream.transport.is_reading()
            server.writer.write(pack(Command.PING, 5, pb.Ping()))
            stream.release("storage")
            stream.release("never held")
            assert not stream.transport.is_reading()
            stream.release("other")
            assert stream.transport.is_reading()
            assert (await server.next()).request == 5

    run(scenario())


def test_holding_and_releasing_a_closed_stream_does_nothing(run: Run) -> None:
    async def scenario() -> None:
        async with served() as server:
            server.stream.hold("storage")
            server.stream.abort()
            server.stream.release("storage")
            server.stream.hold("storage")
            await server.handler.gone.wait()
            server.stream.release("storage")
            server.stream.close()

    run(scenario())


def test_a_stream_knows_its_peers_address(run: Run) -> None:
    async def scenario() -> None:
        async with served() as server:
            host, port = server.writer.get_extra_info("sockname")
            assert server.stream.peer == f"{host}:{port}"
        assert CommandStream(Recorder(), 100).peer == "unknown"

    run(scenario())


def test_memory_for_a_command_grows_with_what_has_arrived(run: Run) -> None:
    async def scenario() -> None:
        handler = Recorder()
        stream = opened(CommandStream(handler, 16 << 20))
        command = publish(1, bytes(range(256)) * (40 << 10))  # 10 MiB
        sent = 0
        while sent < len(command):
            room = stream.get_buffer(-1)
            assert len(room) <= max(256 << 10, 3 * sent)
            part = command[sent : sent + len(room)]
            room[: len(part)] = part
            stream.buffer_updated(len(part))
            sent += len(part)
        assert numbered(handler.received_commands.get_nowait()) == (
            1,
            bytes(range(256)) * (40 << 10),
        )

    run(scenario())
