"""A gRPC door over real connections: what clients get that go beyond a limit, or leave."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.http2 import frames as h2
from broker_containers.doors.http2.frames import ErrorCode, Setting, frame
from tests.auth.broker import ROOT, guarded_broker
from tests.danube.brokers import OneBroker, one_broker
from tests.danube.calls import Calls, status_of
from tests.http2.wire import HELLO, Responses, block, call_frames, head_of

Code = grpc.StatusCode
PATIENCE = 60.0
pytestmark = pytest.mark.asyncio(loop_scope="session")
LOOKUP = "/danube.Discovery/TopicPartitions"
REQUEST = pb.TopicLookupRequest(topic="/default/t").SerializeToString()


class RawClient:
    """A connection on which a test writes frames by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.got = Responses()
        self.closed = False

    async def until(self, *streams: int) -> Responses:
        """Read until these calls have ended, or the connection has."""
        async with asyncio.timeout(PATIENCE):
            while not self.closed and not set(streams) <= self.got.ended:
                data = await self._reader.read(1 << 16)
                self.closed = not data
                self.got.feed(data)
        return self.got

    async def until_pong(self) -> None:
        """Read until a ping is answered."""
        while not any(each.kind == h2.PING and each.flags & h2.ACK for each in self.got.frames):
            async with asyncio.timeout(PATIENCE):
                data = await self._reader.read(1 << 16)
            assert data, "the server closed the connection"
            self.got.feed(data)

    async def until_closed(self) -> ErrorCode:
        """The reason that the server gives for closing the connection."""
        await self.until(-1)
        [*_, last] = [each for each in self.got.frames if each.kind == h2.GOAWAY]
        return ErrorCode(int.from_bytes(last.payload[4:8], "big"))


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OneBroker]:
    async with one_broker(tmp_path_factory.mktemp("raw")) as running:
        yield running


async def dial(url: str) -> RawClient:
    host, _, port = url.partition("://")[2].rpartition(":")
    return RawClient(*await asyncio.open_connection(host, int(port)))


@pytest_asyncio.fixture(loop_scope="session")
async def client(broker: OneBroker) -> AsyncIterator[RawClient]:
    made = await dial(broker.url)
    made.writer.write(HELLO)
    yield made
    made.writer.close()


async def test_a_call_by_hand_is_answered(client: RawClient) -> None:
    client.writer.write(call_frames(1, LOOKUP, REQUEST) + call_frames(3, "/no/Such", b""))
    got = await client.until(1, 3)
    assert got.status(1) == Code.OK.value[0] and len(got.data[1]) >= 5
    assert got.status(3) == Code.UNIMPLEMENTED.value[0]


async def test_a_ping_is_answered_with_the_next_frames_or_alone(client: RawClient) -> None:
    ping = frame(h2.PING, 0, 0, bytes(8))
    client.writer.write(ping + call_frames(1, LOOKUP, REQUEST))
    await client.until_pong()
    assert client.got.status(1) == Code.OK.value[0]
    client.got.frames.clear()
    client.writer.write(ping)
    await client.until_pong()
    assert client.got.kinds() == [h2.PING]


async def test_compressed_messages_are_refused_with_what_is_accepted(client: RawClient) -> None:
    compressed = ("grpc-encoding", "gzip")
    flagged = frame(h2.HEADERS, h2.END_HEADERS, 3, block(*head_of(LOOKUP))) + frame(
        h2.DATA, h2.END_STREAM, 3, b"\x01\0\0\0\x01x"
    )
    client.writer.write(call_frames(1, LOOKUP, REQUEST, compressed) + flagged)
    got = await client.until(1, 3)
    for number in (1, 3):
        assert got.status(number) == Code.UNIMPLEMENTED.value[0]
        assert got.headers[number]["grpc-accept-encoding"] == "identity"


async def test_a_message_that_is_announced_too_large_is_refused_before_it_arrives(
    client: RawClient,
) -> None:
    begun = frame(h2.HEADERS, h2.END_HEADERS, 1, block(*head_of(LOOKUP)))
    client.writer.write(begun + frame(h2.DATA, 0, 1, b"\0\xff\xff\xff\xff"))
    got = await client.until(1)
    assert got.status(1) == Code.INVALID_ARGUMENT.value[0]
    assert "4294967295 bytes is over the limit" in got.headers[1]["grpc-message"]


@pytest.mark.parametrize("parts", [(b"",), (b"\0\0\0\0\x09half",), (b"\0\0\0\0\0" * 2,)])
async def test_not_exactly_one_message_is_refused(
    client: RawClient, parts: tuple[bytes, ...]
) -> None:
    client.writer.write(frame(h2.HEADERS, h2.END_HEADERS, 1, block(*head_of(LOOKUP))))
    for part in parts:
        client.writer.write(frame(h2.DATA, h2.END_STREAM, 1, part))
    got = await client.until(1)
    assert got.status(1) in (Code.INVALID_ARGUMENT.value[0], Code.UNIMPLEMENTED.value[0])


async def test_texts_of_any_language_reach_the_client(broker: OneBroker) -> None:
    async with Calls(broker.url) as calls:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await calls("TopicLookup", topic="/default/größe 100% 題")
    assert "größe 100% 題" in str(refused.value.details())


async def test_large_messages_share_a_limit_and_all_arrive(broker: OneBroker) -> None:
    """More than a connection may have on the way at once: some wait for others."""
    topic = "/default/large"
    async with Calls(broker.url) as calls:
        await calls.producer(topic)
        number = await calls.subscribe(topic)
        sends = [calls.send(topic, bytes([each]) * (3 << 20)) for each in range(16)]
        await asyncio.gather(*sends)
        stream = calls.stream(number)
        got = {(await stream.read()).payload[0] for _ in range(16)}
        assert got == set(range(16))
        stream.cancel()


async def test_a_deadline_ends_a_call_on_the_broker(broker: OneBroker) -> None:
    async with Calls(broker.url) as calls:
        await calls.producer("/default/late")
        number = await calls.subscribe("/default/late")
        receive: Any = calls.channel.unary_stream("/danube.ConsumerService/ReceiveMessages")
        request = pb.ReceiveRequest(consumer_id=number).SerializeToString()
        raw = await dial(broker.url)
        path = "/danube.ConsumerService/ReceiveMessages"
        raw.writer.write(HELLO + call_frames(1, path, request, ("grpc-timeout", "50m")))
        got = await raw.until(1)
        assert got.status(1) == Code.DEADLINE_EXCEEDED.value[0]
        raw.writer.close()
        stream = receive(request, timeout=0.05)
        assert await stream.code() is Code.DEADLINE_EXCEEDED


async def test_a_consumer_that_does_not_read_gets_no_more(broker: OneBroker) -> None:
    """Its window is never opened: its messages stay with the subscription, and others get them."""
    topic = "/default/unread"
    async with Calls(broker.url) as calls:
        await calls.producer(topic)
        number = await calls.subscribe(topic, kind="Shared")
        raw = await dial(broker.url)
        request = pb.ReceiveRequest(consumer_id=number).SerializeToString()
        closed = h2.settings_frame({Setting.INITIAL_WINDOW_SIZE: 0})
        path = "/danube.ConsumerService/ReceiveMessages"
        raw.writer.write(HELLO + closed + call_frames(1, path, request))
        while 1 not in raw.got.headers:
            raw.got.feed(await raw._reader.read(1 << 16))
        for _ in range(40):
            await calls.send(topic, bytes(1 << 20))
        door = broker.server.danube
        assert door is not None
        queued = [each.http2.queued for each in door.grpc._connections]
        assert 0 < max(queued) < 2 << 20  # of 40 MiB
        raw.writer.write(h2.rst_frame(1, ErrorCode.CANCEL))
        stream = calls.stream(await calls.subscribe(topic, "other", kind="Shared"))
        for _ in range(40):
            message = await asyncio.wait_for(stream.read(), PATIENCE)
            await calls("Ack", msg_id=message.msg_id, subscription_name="s")
        raw.writer.close()
        stream.cancel()


async def test_a_flood_is_one_line_in_the_log_and_a_metric(
    broker: OneBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "broker_containers.doors.grpc_shared"):
        for _ in range(3):
            attacker = await dial(broker.url)
            attacker.writer.write(HELLO + frame(h2.PING, 0, 0, bytes(8)) * 5000)
            assert await attacker.until_closed() is ErrorCode.ENHANCE_YOUR_CALM
            attacker.writer.close()
    lines = [record for record in caplog.records if "closed the connection of" in record.message]
    assert len(lines) <= 1
    counted = broker.server.services.requests._closed["danube", "enhance_your_calm"]
    assert counted >= 3


async def test_strangers_connections_make_room_for_a_client(tmp_path: Path) -> None:
    settings = BrokerSettings(max_unidentified=4, max_unidentified_per_address=4)
    async with guarded_broker(tmp_path, settings=settings) as guarded:
        silent = [await dial(guarded.grpc_url) for _ in range(4)]
        async with Calls(guarded.grpc_url, ROOT) as calls:  # also while none of them is idle
            assert await status_of(calls("TopicPartitions", topic="/default/x")) is Code.OK
        async with Calls(guarded.grpc_url) as calls:
            code = await status_of(calls("TopicPartitions", topic="/default/x"))
            assert code in (Code.UNAVAILABLE, Code.UNAUTHENTICATED)
        await asyncio.sleep(1.2)  # now they are idle
        async with Calls(guarded.grpc_url, ROOT) as calls:
            assert await status_of(calls("TopicPartitions", topic="/default/x")) is Code.OK
            await silent[0].until(-1)
            assert silent[0].closed  # the oldest made room
            # A client that has shown its token is not replaced.
            more = [await dial(guarded.grpc_url) for _ in range(6)]
            assert await status_of(calls("TopicPartitions", topic="/default/x")) is Code.OK
        for each in (*silent, *more):
            each.writer.close()


async def test_a_connection_is_answered_although_many_others_follow_it(
    broker: OneBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert broker.server.danube is not None
    server = broker.server.danube.grpc
    monkeypatch.setattr(server, "limits", replace(server.limits, max_connections=0))
    host, _, port = broker.url.partition("://")[2].rpartition(":")
    check = socket.create_connection((host, int(port)))
    check.sendall(HELLO + call_frames(1, LOOKUP, REQUEST))
    # The broker has not run since then: it accepts all of them before it reads anything.
    more = [socket.create_connection((host, int(port))) for _ in range(40)]
    client = RawClient(*await asyncio.open_connection(sock=check))
    assert (await client.until(1)).status(1) == Code.UNAVAILABLE.value[0]  # it is told why
    client.writer.close()
    for each in more:
        each.close()


async def test_a_stranger_who_keeps_calling_is_disconnected(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as guarded:
        stranger = await dial(guarded.grpc_url)
        stranger.writer.write(HELLO)
        for number in range(1, 8000, 2):
            stranger.writer.write(call_frames(number, LOOKUP, REQUEST))
        # It learns why, although most of what it sent was never read.
        assert await stranger.until_closed() is ErrorCode.ENHANCE_YOUR_CALM
        counted = guarded.server.services.requests._closed
        assert counted["danube", "enhance_your_calm"] == 1
        stranger.writer.close()


async def test_a_flood_that_does_not_end_is_cut_off(broker: OneBroker) -> None:
    attacker = await dial(broker.url)
    attacker.writer.write(HELLO)

    async def flood() -> None:
        while True:
            attacker.writer.write(frame(h2.PING, 0, 0, bytes(8)) * 5000)
            await attacker.writer.drain()

    with pytest.raises(ConnectionError):
        await asyncio.wait_for(flood(), PATIENCE)
    attacker.writer.close()


async def test_h2spec_finds_nothing(broker: OneBroker) -> None:
    program = shutil.which("h2spec")
    if program is None:
        pytest.skip("h2spec is not installed: go install github.com/summerwind/h2spec/cmd/h2spec")
    host, _, port = broker.url.partition("://")[2].rpartition(":")
    running = await asyncio.create_subprocess_exec(
        *(program, "-h", host, "-p", port, "-o", "10"),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await running.communicate()
    assert running.returncode == 0, said.decode()[-3000:]
