"""The one address of a local cluster for Danube's clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio

from broker_containers.local_cluster import front as fronts
from broker_containers.local_cluster.front import DanubeFront, FrameEnds
from sulina.errors import Refused
from sulina.runtime.real_clock import RealClock

HOST = "127.0.0.1"
SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
GO_AWAY = bytes((0, 0, 8, 7, 0)) + bytes(12)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Broker:
    """Takes connections; a test plays its part."""

    def __init__(self) -> None:
        self.arrived: asyncio.Queue[Streams] = asyncio.Queue()
        self.server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> Broker:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self.arrived.put((reader, writer))

        self.server = await asyncio.start_server(accept, HOST, self.port)
        self.port = self.server.sockets[0].getsockname()[1]
        return self


@pytest_asyncio.fixture
async def brokers() -> AsyncIterator[list[Broker]]:
    found = [await Broker().start() for _ in range(2)]
    yield found
    for each in found:
        if each.server is not None:
            each.server.close()


@pytest_asyncio.fixture
async def front(brokers: list[Broker]) -> AsyncIterator[DanubeFront]:
    ports = lambda: [each.port for each in brokers]  # noqa: E731
    async with DanubeFront(HOST, 0, ports, RealClock()) as found:
        yield found


async def connect(front: DanubeFront) -> Streams:
    return await asyncio.open_connection(HOST, front.port)


async def test_connections_are_spread_over_the_brokers(
    front: DanubeFront, brokers: list[Broker]
) -> None:
    clients = []
    for _ in range(4):
        clients.append(await connect(front))
        while sum(front.open.values()) < len(clients):
            await asyncio.sleep(0.01)
    assert [each.arrived.qsize() for each in brokers] == [2, 2]


async def test_bytes_pass_both_ways_and_so_does_the_end(
    front: DanubeFront, brokers: list[Broker]
) -> None:
    reader, writer = await connect(front)
    writer.write(b"early")
    there_reader, there_writer = await brokers[0].arrived.get()
    assert await there_reader.readexactly(5) == b"early"
    there_writer.write(b"reply")
    assert await reader.readexactly(5) == b"reply"
    writer.close()
    assert await there_reader.read() == b""


async def test_clients_of_a_dead_broker_are_told_to_repeat_their_calls_elsewhere(
    front: DanubeFront, brokers: list[Broker]
) -> None:
    reader, writer = await connect(front)
    _, there = await brokers[0].arrived.get()
    there.write(SETTINGS)
    await reader.readexactly(len(SETTINGS))
    there.transport.abort()
    assert await reader.read() == GO_AWAY
    writer.close()


async def test_nothing_is_written_into_a_frame_that_is_not_complete(
    front: DanubeFront, brokers: list[Broker]
) -> None:
    reader, writer = await connect(front)
    _, there = await brokers[0].arrived.get()
    there.write(SETTINGS[:-1])
    there.close()
    assert await reader.read() == SETTINGS[:-1]
    writer.close()


async def test_a_broker_that_refuses_is_passed_over(
    front: DanubeFront, brokers: list[Broker]
) -> None:
    server = brokers[0].server
    assert server is not None
    server.close()
    _, writer = await connect(front)
    await brokers[1].arrived.get()
    writer.close()


async def test_a_connection_waits_for_a_broker(front: DanubeFront, brokers: list[Broker]) -> None:
    gone = [brokers.pop(), brokers.pop()]
    _, writer = await connect(front)
    writer.write(b"early")
    await asyncio.sleep(0.3)
    brokers.append(gone[0])
    reader, _ = await gone[0].arrived.get()
    assert await reader.readexactly(5) == b"early"


async def test_a_side_that_does_not_read_stops_the_other(
    front: DanubeFront, brokers: list[Broker]
) -> None:
    _, writer = await connect(front)
    there = await brokers[0].arrived.get()  # which buffers 128 KiB
    block = bytes(1 << 20)
    written = 0
    while written < 256 << 20:
        writer.write(block)
        written += len(block)
        try:
            await asyncio.wait_for(writer.drain(), 1)
        except TimeoutError:
            break
    assert written < 256 << 20
    writer.transport.abort()
    there[1].close()


async def test_too_many_connections_are_closed(
    front: DanubeFront, brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fronts, "_MAX_CONNECTIONS", 1)
    _, kept = await connect(front)
    await brokers[0].arrived.get()
    reader, refused = await connect(front)
    with suppress(ConnectionResetError):
        assert await reader.read() == b""
    kept.close()
    refused.close()


async def test_a_port_in_use_is_refused_with_the_remedy(front: DanubeFront) -> None:
    with pytest.raises(Refused, match="--grpc-port"):
        async with DanubeFront(HOST, front.port, list, RealClock()):
            pass


def test_frames_are_followed_however_they_are_cut() -> None:
    stream = SETTINGS + bytes((0, 0, 3, 0, 0, 0, 0, 0, 1)) + b"abc" + GO_AWAY
    ends = {9, 21, 38}
    for step in (1, 2, 5, 40):
        frames = FrameEnds()
        assert not frames.at_end
        for start in range(0, len(stream), step):
            frames.follow(stream[start : start + step])
            assert frames.at_end == (min(start + step, len(stream)) in ends)
