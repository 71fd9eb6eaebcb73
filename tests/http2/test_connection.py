"""The protocol without I/O: requests, responses, windows, clients that break a rule or a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.doors.http2 import frames as h2
from broker_containers.doors.http2.connection import Http2Connection
from broker_containers.doors.http2.frames import ErrorCode, Setting, frame
from broker_containers.doors.http2.head import Head
from broker_containers.doors.http2.limits import Http2Limits
from broker_containers.doors.http2.streams import Stream
from tests.http2.wire import HELLO, Frame, block, call_frames, frames, head_of

CALL = call_frames(1, "/a/b", b"message")
DATA = b"\0\0\0\0\x07message"


class Events:
    """A handler that notes what it is told; ``answer`` is called for each request that ended."""

    def __init__(self, answer: Callable[[Stream], None] | None = None) -> None:
        self.events: list[tuple[object, ...]] = []
        self._answer = answer

    def request(self, stream: Stream, head: Head, data: bytes) -> None:
        ended = stream.ended and not data  # whether data arrives at once makes no difference
        self.events.append(("request", stream.id, head.path, head.headers, ended))
        if data:
            self.data(stream, data)
        else:
            self._ended(stream)

    def data(self, stream: Stream, data: bytes) -> None:
        self.events.append(("data", stream.id, data, stream.ended))
        self._ended(stream)

    def _ended(self, stream: Stream) -> None:
        if stream.ended and self._answer is not None:
            self._answer(stream)

    def reset(self, stream: Stream) -> None:
        self.events.append(("reset", stream.id))

    def drained(self, stream: Stream) -> None:
        self.events.append(("drained", stream.id))


class Peer:
    """The server's side and what it sends."""

    def __init__(self, limits: Http2Limits | None = None, answer: bytes | None = None) -> None:
        self.handler = Events(self._answer if answer is not None else None)
        self._answered = answer or b""
        self.http2 = Http2Connection(self.handler, lambda: None, limits or Http2Limits())
        self.now = 1.0

    def _answer(self, stream: Stream) -> None:
        head, tail = block((":status", "200")), block(("grpc-status", "0"))
        self.http2.send_whole(stream, head, self._answered, tail)

    def __call__(self, data: bytes) -> list[Frame]:
        """Receive bytes; returns what is sent."""
        self.http2.receive(data, self.now)
        return list(frames(self.http2.take()))

    def greeted(self) -> Peer:
        self(HELLO)
        return self

    @property
    def closed_with(self) -> ErrorCode | None:
        return None if self.http2.fault is None else self.http2.fault.code


def of(kind: int, sent: Sequence[Frame], stream: int | None = None) -> list[Frame]:
    return [each for each in sent if each.kind == kind and stream in (None, each.stream)]


def test_a_call_is_told_and_answered() -> None:
    peer = Peer(answer=b"reply").greeted()
    sent = peer(CALL)
    headers = (("content-type", "application/grpc"), ("te", "trailers"))
    assert peer.handler.events == [
        ("request", 1, "/a/b", headers, False),
        ("data", 1, DATA, True),
    ]
    assert [(each.kind, each.stream) for each in sent] == [
        (h2.HEADERS, 1),
        (h2.DATA, 1),
        (h2.HEADERS, 1),
    ]
    assert sent[1].payload == b"reply" and sent[2].flags & h2.END_STREAM
    assert not peer.http2.streams


SESSION = (
    HELLO
    + CALL
    + frame(h2.PING, 0, 0, b"12345678")
    + call_frames(3, "/a/c", b"x" * 3000)
    + frame(h2.HEADERS, 0, 5, block(*head_of("/a/d"))[:10])
    + frame(h2.CONTINUATION, h2.END_HEADERS, 5, block(*head_of("/a/d"))[10:])
    + h2.rst_frame(5, ErrorCode.CANCEL)
    + frame(h2.HEADERS, h2.END_HEADERS | h2.PADDED | h2.END_STREAM, 7, b"\x02\x82\x86\x84zz")
    + h2.settings_frame({Setting.INITIAL_WINDOW_SIZE: 3})
    + call_frames(9, "/a/e", b"")
    + h2.window_frame(9, 100)
    + call_frames(9, "/a/again", b"breaks the protocol")
)


@given(st.lists(st.integers(1, len(SESSION) - 1), unique=True, max_size=30))
def test_any_division_of_the_bytes_gives_the_same(cuts: list[int]) -> None:
    whole = Peer(answer=b"a reply")
    sent = whole(SESSION)
    assert whole.closed_with is ErrorCode.STREAM_CLOSED
    parted, parts = Peer(answer=b"a reply"), b""
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(SESSION)], strict=True):
        parted.http2.receive(SESSION[start:end], 1.0)
        parts += parted.http2.take()
    assert parted.handler.events == whole.handler.events
    # What answers pings follows the rest of a write, and is left out where the connection ends.
    answers = [each for each in frames(parts) if each.kind != h2.PING]
    assert answers == [each for each in sent if each.kind != h2.PING]


def test_answers_to_pings_follow_the_rest_and_few_of_them_can_wait() -> None:
    peer = Peer(answer=b"reply").greeted()
    ping = frame(h2.PING, 0, 0, b"measures")
    patient = [peer.http2.patient]
    for data in (ping, CALL):
        peer.http2.receive(data, peer.now)
        patient.append(peer.http2.patient)
    assert patient == [False, True, False]
    *answer, pong = frames(peer.http2.take())
    assert [each.kind for each in answer] == [h2.HEADERS, h2.DATA, h2.HEADERS]
    assert (pong.kind, pong.flags, pong.payload) == (h2.PING, h2.ACK, b"measures")
    peer.http2.receive(ping * 5, peer.now)
    assert not peer.http2.patient and len(list(frames(peer.http2.take()))) == 5


@pytest.mark.parametrize(
    "sent",
    {
        "more at once than allowed": b"".join(call_frames(n, "/a/b", b"x") for n in (1, 3, 5, 7)),
        "shorter than announced": call_frames(1, "/a/b", b"x", ("content-length", "7")),
        "as long as announced": call_frames(1, "/a/b", b"x", ("content-length", "6")),
        "with a forbidden header": call_frames(1, "/a/b", b"x", ("connection", "close")),
        "with an even number": call_frames(2, "/a/b", b"x"),
        "again": call_frames(3, "/a/b", b"x") + call_frames(1, "/a/b", b"x"),
        "larger than the window": call_frames(1, "/a/b", bytes(200)),
    }.values(),
)
def test_an_unusual_call_that_arrives_whole_is_like_one_in_parts(sent: bytes) -> None:
    limits = Http2Limits(max_streams=2, stream_window=100)
    whole, parted = Peer(limits).greeted(), Peer(limits).greeted()
    answered = whole(sent)
    for part in frames(sent):
        answered_parted = parted(frame(*part))
        assert answered[: len(answered_parted)] == answered_parted
        del answered[: len(answered_parted)]
    assert not answered
    assert parted.handler.events == whole.handler.events
    assert parted.closed_with == whole.closed_with


@given(st.binary(max_size=400))
def test_any_bytes_after_the_greeting_are_taken_or_refused(data: bytes) -> None:
    peer = Peer(answer=b"reply").greeted()
    peer(data)
    assert peer.http2.closed == (peer.http2.fault is not None)


# ---- windows ----


def test_a_response_waits_for_the_clients_permission_and_keeps_its_order() -> None:
    peer = Peer(answer=b"0123456789").greeted()
    peer(h2.settings_frame({Setting.INITIAL_WINDOW_SIZE: 4}))
    sent = peer(CALL)
    assert [each.payload for each in of(h2.DATA, sent)] == [b"0123"]
    assert len(of(h2.HEADERS, sent)) == 1
    assert [each.payload for each in peer(h2.window_frame(1, 5))] == [b"45678"]
    data, tail = peer(h2.window_frame(1, 5))
    assert data.payload == b"9" and tail.flags & h2.END_STREAM
    assert not peer.http2.streams and not peer.http2.queued


def test_a_smaller_window_may_be_negative_and_is_made_up_for_first() -> None:
    peer = Peer(answer=b"0123456789").greeted()
    peer(h2.settings_frame({Setting.INITIAL_WINDOW_SIZE: 4}))
    peer(CALL)
    assert not of(h2.DATA, peer(h2.settings_frame({Setting.INITIAL_WINDOW_SIZE: 0})))
    assert not peer(h2.window_frame(1, 4))
    assert [each.payload for each in of(h2.DATA, peer(h2.window_frame(1, 1)))] == [b"4"]


def test_the_window_of_the_connection_is_shared() -> None:
    peer = Peer(answer=b"x" * 40_000).greeted()
    sent = peer(CALL + call_frames(3, "/a/b", b""))
    assert sum(len(each.payload) for each in of(h2.DATA, sent)) == h2.DEFAULT_WINDOW
    rest = peer(h2.window_frame(0, 100_000))
    assert sum(len(each.payload) for each in of(h2.DATA, rest)) == 80_000 - h2.DEFAULT_WINDOW


def test_a_request_over_its_window_must_be_asked_for() -> None:
    peer = Peer().greeted()
    peer.http2.trust()
    peer(frame(h2.HEADERS, h2.END_HEADERS, 1, block(*head_of("/a/b"))))
    for _ in range(4):
        peer(frame(h2.DATA, 0, 1, bytes(16 << 10)))
    stream = peer.http2.streams[1]
    assert stream.room == 0
    peer.http2.extend(stream)
    [update] = of(h2.WINDOW_UPDATE, list(frames(peer.http2.take())), 1)
    assert int.from_bytes(update.payload, "big") == 64 << 10
    for _ in range(4):
        peer(frame(h2.DATA, 0, 1, bytes(16 << 10)))
    [reset] = of(h2.RST_STREAM, peer(frame(h2.DATA, 0, 1, bytes(1))))
    assert reset.payload[3] == ErrorCode.FLOW_CONTROL_ERROR
    assert ("reset", 1) in peer.handler.events


def test_who_requests_much_and_reads_nothing_is_disconnected() -> None:
    peer = Peer(Http2Limits(queued_bytes=100_000), answer=bytes(30_000)).greeted()
    peer(h2.settings_frame({Setting.INITIAL_WINDOW_SIZE: 0}))
    for number in range(1, 9, 2):
        peer(call_frames(number, "/a/b", b""))
    assert peer.closed_with is ErrorCode.ENHANCE_YOUR_CALM
    assert not peer.http2.streams


# ---- the end ----


def test_a_request_that_is_answered_early_is_stopped_and_its_rest_ignored() -> None:
    peer = Peer().greeted()
    peer(frame(h2.HEADERS, h2.END_HEADERS, 1, block(*head_of("/a/b"))))
    peer.http2.send_tail(peer.http2.streams[1], block((":status", "200"), ("grpc-status", "16")))
    assert [each.kind for each in frames(peer.http2.take())] == [h2.HEADERS]
    [stop] = peer(frame(h2.DATA, 0, 1, b"more"))
    assert stop.kind == h2.RST_STREAM and stop.payload == bytes(4)  # no error
    assert peer(frame(h2.DATA, 0, 1, b"more") + frame(h2.DATA, h2.END_STREAM, 1, b"last")) == []
    assert not peer.http2.closed


def test_leaving_lets_requests_finish_and_refuses_later_ones() -> None:
    peer = Peer().greeted()
    peer(CALL)
    peer.http2.leave()
    goaway, ping = frames(peer.http2.take())
    assert goaway.kind == h2.GOAWAY and ping.kind == h2.PING
    peer(call_frames(3, "/a/b", b"was on its way"))
    assert set(peer.http2.streams) == {1, 3}
    [final] = peer(frame(h2.PING, h2.ACK, 0, ping.payload))
    assert final.kind == h2.GOAWAY and int.from_bytes(final.payload[:4], "big") == 3
    [refused] = peer(frame(h2.HEADERS, h2.END_HEADERS, 5, block(*head_of("/a/b"))))
    assert refused.payload[3] == ErrorCode.REFUSED_STREAM


def test_a_lost_connection_resets_what_is_in_progress() -> None:
    peer = Peer().greeted()
    peer(CALL)
    peer.http2.lost()
    assert peer.handler.events[-1] == ("reset", 1) and not peer.http2.streams


# ---- floods ----

HEADERS_1 = frame(h2.HEADERS, h2.END_HEADERS, 1, block(*head_of("/a/b")))


def _rapid_resets(number: int) -> bytes:
    return frame(
        h2.HEADERS, h2.END_HEADERS, 2 * number + 1, block(*head_of("/a/b"))
    ) + h2.rst_frame(2 * number + 1, ErrorCode.CANCEL)


@pytest.mark.parametrize(
    ("what", "first", "attack"),
    [
        ("rapid reset", b"", _rapid_resets),
        ("pings", b"", lambda _: frame(h2.PING, 0, 0, bytes(8))),
        ("settings", b"", lambda _: h2.settings_frame({Setting.INITIAL_WINDOW_SIZE: 1})),
        ("acknowledged settings", b"", lambda _: frame(h2.SETTINGS, h2.ACK, 0)),
        ("table sizes", b"", lambda n: h2.settings_frame({Setting.HEADER_TABLE_SIZE: n % 2})),
        ("priorities", b"", lambda _: frame(h2.PRIORITY, 0, 3, bytes(5))),
        ("unknown frames", b"", lambda _: frame(0x55, 0, 0)),
        ("empty data", HEADERS_1, lambda _: frame(h2.DATA, 0, 1)),
        ("padding alone", HEADERS_1, lambda _: frame(h2.DATA, h2.PADDED, 1, b"\x01\0")),
        ("single bytes", HEADERS_1, lambda _: frame(h2.DATA, 0, 1, b"x")),
        ("tiny windows", HEADERS_1, lambda _: h2.window_frame(1, 1)),
        ("tiny windows of the connection", b"", lambda _: h2.window_frame(0, 1)),
        (
            "malformed requests",
            b"",
            lambda n: frame(h2.HEADERS, h2.END_HEADERS, 2 * n + 1, block(("X", "y"))),
        ),
        (
            "more requests than allowed",
            b"".join(
                frame(h2.HEADERS, h2.END_HEADERS, 2 * n + 1, block(*head_of("/a/b")))
                for n in range(16)
            ),
            lambda n: frame(h2.HEADERS, h2.END_HEADERS, 2 * n + 33, block(*head_of("/a/b"))),
        ),
    ],
)
def test_a_flood_ends_the_connection(
    what: str, first: bytes, attack: Callable[[int], bytes]
) -> None:
    peer = Peer(Http2Limits(max_streams=16)).greeted()
    peer(first)
    for number in range(10_000):
        peer(attack(number))
        if peer.http2.closed:
            break
    assert peer.closed_with is ErrorCode.ENHANCE_YOUR_CALM, what
    assert not peer.http2.streams


def test_the_same_at_the_pace_of_an_honest_client_is_served() -> None:
    peer = Peer(answer=b"reply").greeted()
    for number in range(5000):
        peer.now += 0.02
        peer(_rapid_resets(2 * number) + frame(h2.PING, 0, 0, bytes(8)))
        peer(call_frames(4 * number + 3, "/a/b", b"message") + h2.window_frame(0, 1))
    assert not peer.http2.closed


def test_a_header_block_in_many_parts_ends_the_connection() -> None:
    peer = Peer().greeted()
    peer(frame(h2.HEADERS, 0, 1, b""))
    for _ in range(100):
        peer(frame(h2.CONTINUATION, 0, 1, b""))
    assert peer.closed_with is ErrorCode.ENHANCE_YOUR_CALM


def test_a_header_block_that_never_ends_is_not_kept() -> None:
    peer = Peer().greeted()
    peer(frame(h2.HEADERS, 0, 1, bytes(16_000)))
    for _ in range(5):
        peer(frame(h2.CONTINUATION, 0, 1, bytes(16_000)))
    assert peer.closed_with is ErrorCode.ENHANCE_YOUR_CALM


def test_many_settings_in_one_frame_end_the_connection() -> None:
    peer = Peer().greeted()
    peer(frame(h2.SETTINGS, 0, 0, b"\0\x04\0\0\0\x01" * 2000))
    assert peer.closed_with is ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (h2.window_frame(0, 0), ErrorCode.PROTOCOL_ERROR),
        (h2.window_frame(0, h2.LARGEST_WINDOW), ErrorCode.FLOW_CONTROL_ERROR),
        (h2.settings_frame({Setting.INITIAL_WINDOW_SIZE: 1 << 31}), ErrorCode.FLOW_CONTROL_ERROR),
        (
            HEADERS_1
            + h2.window_frame(1, h2.LARGEST_WINDOW - h2.DEFAULT_WINDOW)
            + h2.settings_frame({Setting.INITIAL_WINDOW_SIZE: h2.LARGEST_WINDOW}),
            ErrorCode.FLOW_CONTROL_ERROR,
        ),
        (frame(h2.DATA, 0, 1, b"x"), ErrorCode.PROTOCOL_ERROR),
        (h2.HEADER.pack(0xFF, 0xFFFF, h2.DATA, 0, 1), ErrorCode.FRAME_SIZE_ERROR),
        (frame(h2.HEADERS, h2.END_HEADERS, 2, b""), ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_a_broken_rule_ends_the_connection_with_its_code(data: bytes, code: ErrorCode) -> None:
    peer = Peer().greeted()
    sent = peer(data)
    assert peer.closed_with is code
    assert sent[-1].kind == h2.GOAWAY and sent[-1].payload[7] == code


def test_what_is_not_http2_is_refused_at_its_first_bytes() -> None:
    peer = Peer()
    peer(b"GET / HTTP/1.1\r\n")
    assert peer.closed_with is ErrorCode.PROTOCOL_ERROR
