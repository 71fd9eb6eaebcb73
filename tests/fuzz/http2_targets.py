"""HTTP/2 without a broker behind it: frames, header blocks, Huffman codes."""

from __future__ import annotations

import itertools

from broker_containers.doors.grpc_shared.call_head import CallHead
from broker_containers.doors.http2 import frames as h2
from broker_containers.doors.http2.connection import Http2Connection
from broker_containers.doors.http2.frames import ConnectionFault
from broker_containers.doors.http2.head import Head
from broker_containers.doors.http2.hpack import HeaderDecoder, HeaderEncoder
from broker_containers.doors.http2.limits import Http2Limits
from broker_containers.doors.http2.streams import Stream
from tests.fuzz.target import Stateless, Target
from tests.http2.wire import HELLO, block, call_frames, frames, head_of

_MOST_HEADER_BYTES = 16 << 10
_LIMITS = Http2Limits()


class _Answering:
    """Answers each request as soon as it has ended, in one of several ways."""

    def __init__(self) -> None:
        self.http2 = Http2Connection(self, lambda: None, _LIMITS)
        self._open: set[int] = set()

    def request(self, stream: Stream, head: Head, data: bytes) -> None:
        assert stream.ended or not data
        assert stream.id not in self._open
        CallHead(head)
        self._open.add(stream.id)
        self._answer(stream)

    def data(self, stream: Stream, data: bytes) -> None:
        assert stream.id in self._open
        self._answer(stream)

    def _answer(self, stream: Stream) -> None:
        if not stream.ended:
            self.http2.extend(stream)
            return
        self._open.discard(stream.id)
        head, tail = block((":status", "200")), block(("grpc-status", "0"))
        match stream.id % 3:
            case 0:
                self.http2.send_whole(stream, head, b"x" * (stream.id & 0xFFFF), tail)
            case 1:
                self.http2.send_headers(stream, head)
                self.http2.send_data(stream, b"x" * 70_000)
                self.http2.send_tail(stream, tail)
            case _:
                self.http2.spend(5.0, "calls")

    def reset(self, stream: Stream) -> None:
        self._open.discard(stream.id)

    def drained(self, stream: Stream) -> None: ...


def fuzz_frames(data: bytes) -> None:
    """What the server sends is whole frames, whatever it gets, in whatever division."""
    server = _Answering()
    http2, at, now = server.http2, 0, 1.0
    http2.receive(HELLO, now)
    for size in itertools.cycle((1, 9, 64, 1000)):
        if at >= len(data) or http2.closed:
            break
        http2.receive(data[at : at + size], now)
        at, now = at + size, now + 0.01
        list(frames(http2.take()))
    assert http2.queued < 8 << 20
    http2.close()
    list(frames(http2.take()))
    assert not http2.streams


def fuzz_header_blocks(data: bytes) -> None:
    """Blocks of one client, each after a length byte: refused, or headers that can be written."""
    decoder = HeaderDecoder(lambda headers: headers, _MOST_HEADER_BYTES)
    again = HeaderDecoder(lambda headers: headers, 2 * _MOST_HEADER_BYTES)
    encoder = HeaderEncoder()
    at = 0
    while at < len(data):
        size = data[at]
        part = data[at + 1 : at + 1 + size]
        at += 1 + size
        try:
            headers = decoder.decode(part)
        except ConnectionFault:
            return
        assert sum(len(name) + len(value) for name, value in headers) <= _MOST_HEADER_BYTES
        try:
            written = encoder.block(headers, frozenset(headers[:2]))
        except UnicodeEncodeError:
            continue
        assert again.decode(written) == headers
        CallHead(Head(headers))


def _frame_seeds() -> list[bytes]:
    call = call_frames(1, "/a/b", b"message")
    more = call_frames(3, "/a/b", b"x" * 300, ("grpc-timeout", "1S"), ("authorization", "Bearer t"))
    begun = h2.frame(h2.HEADERS, 0, 5, block(*head_of("/a/b"))[:20])
    rest = h2.frame(h2.CONTINUATION, h2.END_HEADERS, 5, block(*head_of("/a/b"))[20:])
    settings = {h2.Setting.INITIAL_WINDOW_SIZE: 1, h2.Setting.HEADER_TABLE_SIZE: 100}
    return [
        call + more,
        begun + rest + h2.rst_frame(5, h2.ErrorCode.CANCEL),
        h2.settings_frame(settings) + call + h2.window_frame(1, 100) + h2.window_frame(0, 5),
        h2.frame(h2.PING, 0, 0, bytes(8)) + h2.goaway_frame(1, h2.ErrorCode.NO_ERROR) + call,
        h2.frame(h2.HEADERS, h2.END_HEADERS | h2.PADDED, 1, b"\x01\x82\x86\x84\x00") + call[9:],
        h2.frame(h2.PRIORITY, 0, 5, bytes(5)) + h2.frame(0x42, 0, 0, b"unknown") + more,
        call_frames(7, "/a/b", b"", ("x-sulina-principal", "a%20b"), ("x-sulina-until-us", "9")),
    ]


def _block_seeds() -> list[bytes]:
    def sized(*blocks: bytes) -> bytes:
        return b"".join(bytes([len(each)]) + each for each in blocks)

    headers = head_of("/a/b", ("authorization", "Bearer t"))
    encoder = HeaderEncoder()
    repeated = frozenset(headers)
    return [
        sized(block(*headers)),
        sized(encoder.block(headers, repeated), encoder.block(headers, repeated)),
        sized(b"\x3f\xe1\x1f", b"\x20", block(*headers)),
        sized(bytes.fromhex("828684418cf1e3c2e5f23a6ba0ab90f4ff")),  # RFC 7541, C.4.1
        sized(bytes.fromhex("400a637573746f6d2d6b65790d637573746f6d2d686561646572"), b"\xbe\xbe"),
    ]


TARGETS = [
    Target(
        name="http2-frames",
        summary="what a client sends on an HTTP/2 connection, without a door behind it",
        seeds=_frame_seeds,
        open=lambda: Stateless(fuzz_frames),
    ),
    Target(
        name="hpack",
        summary="header blocks of HTTP/2",
        seeds=_block_seeds,
        open=lambda: Stateless(fuzz_header_blocks),
    ),
]
