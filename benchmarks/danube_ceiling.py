"""The most that a synced server in Python can reach with Danube's clients, one message at a time.

``python -m benchmarks.danube_ceiling PORT FILE`` serves one topic with one subscription, on the
HTTP/2 server of Sulina's door. A message costs what no server can do without: its call, one write
with its sync, the reply, the delivery, and the call that acknowledges it. Nothing else is done:
messages are passed on as they came, in no format, without rights, cursors or metrics, and the sync
blocks everybody, which saves the hand-over to a thread and back.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Final, cast

from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.http2.connection import Http2Connection
from broker_containers.doors.http2.head import Head
from broker_containers.doors.http2.limits import Http2Limits
from broker_containers.doors.http2.streams import Stream
from sulina.cli.running import loop_factory
from sulina.runtime.machine import tune_for_frames

_LENGTH: Final = 64 << 20
_BLOCK: Final = 4096
_HEAD: Final = ((":status", "200"), ("content-type", "application/grpc"))
_TAIL: Final = (("grpc-status", "0"),)
_REPEATED: Final = frozenset((*_HEAD[1:], *_TAIL))
_SEND: Final = "/danube.ProducerService/SendMessage"
_PARTITIONS: Final = "/danube.Discovery/TopicPartitions"
_RECEIVE: Final = "/danube.ConsumerService/ReceiveMessages"


class SyncedFile:
    """A preallocated file that is written from its beginning again when it is full."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        os.posix_fallocate(self._file, 0, _LENGTH)
        os.fsync(self._file)
        self._position = 0

    def store(self, data: bytes) -> None:
        """Blocks until it is durable."""
        size = len(data) + -len(data) % _BLOCK
        if self._position + size > _LENGTH:
            self._position = 0
        os.pwritev(self._file, [data, bytes(size - len(data))], self._position)
        os.fdatasync(self._file)
        self._position += size


class BareTopic:
    """What the connections share: the file, and where messages are delivered."""

    def __init__(self, file: SyncedFile, answers: dict[str, bytes]) -> None:
        self.file = file
        self.answers = answers
        """By path, with their prefix."""
        self.deliver: Callable[[bytes], None] = lambda _: None


class BareConnection(asyncio.Protocol):
    """A connection of a producer or a consumer."""

    def __init__(self, topic: BareTopic) -> None:
        self._topic = topic
        self._transport: asyncio.Transport | None = None
        self._http2 = Http2Connection(self, self._wake, Http2Limits())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._http2.trust()
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._http2.receive(data, 0.0)
        self._flush()

    def _wake(self) -> None:
        if self._transport is not None:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        if self._transport is not None and (out := self._http2.take()):
            self._transport.write(out)

    def request(self, stream: Stream, head: Head, data: bytes) -> None:
        stream.user = head.path, data
        if stream.ended:
            self._answer(stream)

    def data(self, stream: Stream, data: bytes) -> None:
        path, before = cast(tuple[str, bytes], stream.user)
        stream.user = path, before + data
        if stream.ended:
            self._answer(stream)

    def reset(self, stream: Stream) -> None:
        """Nothing is kept for it."""

    def drained(self, stream: Stream) -> None:
        """Nothing waits for it."""

    def _answer(self, stream: Stream) -> None:
        path, data = cast(tuple[str, bytes], stream.user)
        head = self._http2.encoder.block(_HEAD, _REPEATED)
        if path == _RECEIVE:
            self._http2.send_headers(stream, head)
            self._topic.deliver = lambda message: self._http2.send_data(stream, message)
            return
        if path == _SEND:
            self._topic.file.store(data)
        if path == _PARTITIONS:
            named = pb.TopicLookupRequest.FromString(data[5:]).topic
            answer = _prefixed(pb.TopicPartitionsResponse(partitions=[named]).SerializeToString())
        else:
            answer = self._topic.answers[path]
        tail = self._http2.encoder.block(_TAIL, _REPEATED)
        self._http2.send_whole(stream, head, answer, tail)
        if path == _SEND:
            self._topic.deliver(data)


def answers(port: int) -> dict[str, bytes]:
    """What each call is answered with, the same each time."""
    url = f"http://127.0.0.1:{port}"
    found = {
        "/danube.Discovery/TopicLookup": pb.TopicLookupResponse(
            response_type=pb.TopicLookupResponse.Connect, connect_url=url, broker_url=url
        ),
        "/danube.ProducerService/CreateProducer": pb.ProducerResponse(producer_id=1),
        "/danube.ConsumerService/Subscribe": pb.ConsumerResponse(consumer_id=1),
        "/danube.HealthCheck/HealthCheck": pb.HealthCheckResponse(),
        "/danube.ConsumerService/Ack": pb.AckResponse(request_id=1),
        _SEND: pb.MessageResponse(request_id=1),
    }
    return {path: _prefixed(answer.SerializeToString()) for path, answer in found.items()}


def _prefixed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


async def serve(port: int, path: str) -> None:
    """Serve until killed."""
    topic = BareTopic(SyncedFile(path), answers(port))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: BareConnection(topic), "127.0.0.1", port)
    tune_for_frames()
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(int(sys.argv[1]), sys.argv[2]))
