"""The server's side of one HTTP/2 connection (RFC 9113), without I/O.

:meth:`Http2Connection.receive` takes bytes as they arrive, in any division, and calls a handler.
What is to be sent is collected until :meth:`Http2Connection.take`. Memory is bounded by the limits:
nothing is allocated because a client announces it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from broker_containers.doors.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    DEFAULT_FRAME_BYTES,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADER,
    HEADER_BYTES,
    HEADERS,
    LARGEST_FRAME_BYTES,
    LARGEST_WINDOW,
    LAST_STREAM,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    ConnectionFault,
    ErrorCode,
    Setting,
    StreamFault,
    frame,
    goaway_frame,
    read_settings,
    rst_frame,
    settings_frame,
    window_frame,
)
from broker_containers.doors.http2.head import Head
from broker_containers.doors.http2.hpack import HeaderDecoder, HeaderEncoder
from broker_containers.doors.http2.limits import ANSWERED, SENT, Calm, Http2Limits
from broker_containers.doors.http2.streams import Stream

_NUMBER: Final = LAST_STREAM
_SMALL_BYTES: Final = 64
"""Frames of data below this are counted, unless they end a request."""
_LARGE_BYTES: Final = 256
_MOST_DROPPED: Final = 1024
_MOST_SETTINGS: Final = 32
"""In one frame: each of them may change the windows of all streams."""
_GOODBYE: Final = b"goodbye!"
_FIXED_LENGTHS: Final = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}


class Http2Handler(Protocol):
    """What answers requests. Called while bytes are received; must not block or raise."""

    def request(self, stream: Stream, head: Head) -> None:
        """A request begins; ``stream.ended`` says whether it has no data."""
        ...

    def data(self, stream: Stream, data: bytes) -> None:
        """Data of a request; ``stream.ended`` says whether it was the last."""
        ...

    def reset(self, stream: Stream) -> None:
        """The client has given the request up, or broke the protocol: it can't be answered."""
        ...

    def drained(self, stream: Stream) -> None:
        """Nothing is queued for the client any more."""
        ...


class Http2Connection:
    """One connection. ``wake`` is called when there is something to send after a while."""

    def __init__(
        self, handler: Http2Handler, wake: Callable[[], None], limits: Http2Limits
    ) -> None:
        self._handler = handler
        self._wake = wake
        self._limits = limits
        self.streams: dict[int, Stream] = {}
        """Requests in progress."""
        self.closed = False
        """No more is received or sent, except what :meth:`take` still returns."""
        self.fault: ConnectionFault | None = None
        """Why this side closed the connection."""
        self.greeted = False
        """The client has shown that it speaks HTTP/2."""
        self.leaving = False
        """The client was asked to open no more requests."""
        self.encoder = HeaderEncoder()
        self._decoder = HeaderDecoder(Head, limits.header_bytes)
        self._calm = Calm()
        self._rest = b""
        self._out: list[bytes] = []
        self._last = 0
        self._final = False
        self._dropped: dict[int, bool] = {}
        """Requests that this side ended first, what their clients still send is ignored; and
        whether the client was told to stop."""
        self._block: list[bytes] | None = None
        self._block_bytes = 0
        self._block_stream = 0
        self._block_flags = 0
        self._window = DEFAULT_WINDOW
        """Bytes of data that the client accepts on all streams."""
        self._stream_window = DEFAULT_WINDOW
        self._frame_bytes = DEFAULT_FRAME_BYTES
        self._room_size = DEFAULT_WINDOW
        self._room = DEFAULT_WINDOW
        self._unreturned = 0
        self._waiting: dict[Stream, None] = {}
        """Streams with queued data."""
        self.queued = 0
        """Bytes of data that wait for the client's permission."""
        self._push(
            settings_frame(
                {
                    Setting.MAX_CONCURRENT_STREAMS: limits.max_streams,
                    Setting.INITIAL_WINDOW_SIZE: limits.stream_window,
                    Setting.MAX_FRAME_SIZE: limits.max_frame_bytes,
                    Setting.MAX_HEADER_LIST_SIZE: limits.header_bytes,
                }
            )
        )

    # ---- sending ----

    def take(self) -> bytes:
        """What is to be sent now."""
        out = self._out
        if len(out) == 1:
            data = out[0]
        else:
            data = b"".join(out)
        out.clear()
        return data

    def _push(self, data: bytes) -> None:
        if not self._out:
            self._wake()
        self._out.append(data)

    def send_whole(self, stream: Stream, head: bytes, data: bytes, tail: bytes) -> None:
        """A whole response: headers, data, and the headers that end it."""
        size = len(data)
        if (
            size <= self._window
            and size <= stream.window
            and size <= self._frame_bytes
            and stream.queue is None
        ):
            number = stream.id
            self._window -= size
            pack = HEADER.pack
            self._push(
                b"".join(
                    (
                        pack(0, len(head), HEADERS, END_HEADERS, number),
                        head,
                        pack(size >> 16, size & 0xFFFF, DATA, 0, number),
                        data,
                        pack(0, len(tail), HEADERS, END_HEADERS | END_STREAM, number),
                        tail,
                    )
                )
            )
            self._finish(stream)
        else:
            self.send_headers(stream, head)
            self.send_data(stream, data)
            self.send_tail(stream, tail)

    def send_headers(self, stream: Stream, block: bytes) -> None:
        """The headers of a response, before its data."""
        self._push(frame(HEADERS, END_HEADERS, stream.id, block))

    def send_data(self, stream: Stream, data: bytes) -> None:
        """Data of a response. What the client does not accept yet is queued."""
        if stream.queue is not None:
            self._queue(stream, data)
            return
        sent = self._send_some(stream, data)
        if sent < len(data):
            stream.queue = deque()
            self._waiting[stream] = None
            self._queue(stream, data[sent:] if sent else data)

    def send_tail(self, stream: Stream, block: bytes) -> None:
        """The headers that end a response, after all of its data; without any if empty."""
        if stream.queue is not None:
            stream.tail = block
            return
        if block:
            self._push(frame(HEADERS, END_HEADERS | END_STREAM, stream.id, block))
        else:
            self._push(frame(DATA, END_STREAM, stream.id))
        self._finish(stream)

    def reset(self, stream: Stream, code: ErrorCode) -> None:
        """End a request without a response, or in the middle of it."""
        if self.streams.get(stream.id) is stream:
            self._drop(stream.id, code)

    def extend(self, stream: Stream) -> None:
        """Let the client send more data of a request, as much as has arrived."""
        missing = self._limits.stream_window - stream.room
        if missing > 0 and not stream.ended and stream.id in self.streams:
            stream.room += missing
            self._push(window_frame(stream.id, missing))

    def trust(self) -> None:
        """The client is known: it may send more at once."""
        increment = self._limits.connection_window - self._room_size
        if increment > 0:
            self._room_size += increment
            self._room += increment
            self._push(window_frame(0, increment))

    def spend(self, cost: float, what: str) -> None:
        """Count something that led nowhere; closes the connection if there was too much of it."""
        try:
            self._calm.spend(cost, what)
        except ConnectionFault as fault:
            self._fail(fault)

    def ping(self) -> None:
        """Make the client show that it is there."""
        self._push(frame(PING, 0, 0, bytes(8)))

    def leave(self) -> None:
        """Ask the client to open no more requests here; those in progress continue."""
        if not self.leaving and not self.closed:
            self.leaving = True
            self._push(goaway_frame(LAST_STREAM, ErrorCode.NO_ERROR))
            self._push(frame(PING, 0, 0, _GOODBYE))

    def close(self, code: ErrorCode = ErrorCode.NO_ERROR, why: str = "") -> None:
        """End the connection, with a reason for the client; its requests are reset."""
        if not self.closed:
            self.closed = True
            self._push(goaway_frame(self._last, code, why))
            self.lost()

    def lost(self) -> None:
        """The connection is gone: reset all requests."""
        self.closed = True
        self._rest = b""
        streams, self.streams = self.streams, {}
        self._waiting.clear()
        for stream in streams.values():
            self._handler.reset(stream)

    def _fail(self, fault: ConnectionFault) -> None:
        if not self.closed:
            self.fault = fault
            self.close(fault.code, str(fault))

    def _send_some(self, stream: Stream, data: bytes) -> int:
        """Send as much as the client accepts; returns how much."""
        allowed = min(len(data), self._window, stream.window)
        if allowed <= 0:
            return 0
        self._window -= allowed
        stream.window -= allowed
        number, at = stream.id, 0
        while at < allowed:
            size = min(allowed - at, self._frame_bytes)
            head = HEADER.pack(size >> 16, size & 0xFFFF, DATA, 0, number)
            self._push(head + (data if size == len(data) else data[at : at + size]))
            at += size
        if allowed >= _LARGE_BYTES or allowed == len(data):
            self._calm.give_back(SENT)
        return allowed

    def _queue(self, stream: Stream, data: bytes) -> None:
        assert stream.queue is not None
        stream.queue.append(data)
        stream.queued += len(data)
        self.queued += len(data)
        if self.queued > self._limits.queued_bytes:
            self._fail(
                ConnectionFault(
                    ErrorCode.ENHANCE_YOUR_CALM, "the client requests much and reads nothing"
                )
            )

    def _flush(self, stream: Stream) -> None:
        """Send what is queued for a stream, as far as the client accepts it."""
        queue = stream.queue
        if queue is None:
            return
        while queue:
            data = queue[0]
            sent = self._send_some(stream, data)
            stream.queued -= sent
            self.queued -= sent
            if sent < len(data):
                if sent:
                    queue[0] = data[sent:]
                return
            queue.popleft()
        stream.queue = None
        self._waiting.pop(stream, None)
        if stream.tail is not None:
            self.send_tail(stream, stream.tail)
        else:
            self._handler.drained(stream)

    def _flush_all(self) -> None:
        for stream in list(self._waiting):
            if self._window <= 0:
                return
            self._flush(stream)
            if stream in self._waiting:  # others first, the next time
                del self._waiting[stream]
                self._waiting[stream] = None

    def _finish(self, stream: Stream) -> None:
        """The response is complete."""
        self._calm.give_back(ANSWERED)
        if stream.ended:
            self.streams.pop(stream.id, None)
        else:
            # Told to stop only if it goes on: some clients would take that for the answer.
            self._forget(stream.id)
            self._ignore(stream.id, stopped=False)

    def _drop(self, number: int, code: ErrorCode) -> None:
        """Reset a stream, and ignore what its client still sends."""
        self._push(rst_frame(number, code))
        self._forget(number)
        self._ignore(number, stopped=True)

    def _ignore(self, number: int, *, stopped: bool) -> None:
        self._dropped[number] = stopped
        if len(self._dropped) > _MOST_DROPPED:
            del self._dropped[next(iter(self._dropped))]

    def _forget(self, number: int) -> Stream | None:
        stream = self.streams.pop(number, None)
        if stream is not None and stream.queue is not None:
            self.queued -= stream.queued
            self._waiting.pop(stream, None)
            stream.queue = None
        return stream

    # ---- receiving ----

    def receive(self, data: bytes, now: float) -> None:
        """Take what has arrived. ``now`` is in seconds, of any clock that does not go back."""
        if self.closed:
            return
        self._calm.tick(now)
        try:
            self._receive(self._rest + data if self._rest else data)
        except ConnectionFault as fault:
            self._fail(fault)

    def _receive(self, data: bytes) -> None:
        at, size = 0, len(data)
        if not self.greeted:
            if data[: len(PREFACE)] != PREFACE[:size]:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the client does not speak HTTP/2")
            if size < len(PREFACE) + HEADER_BYTES:
                self._rest = data
                return
            at = len(PREFACE)
            if data[at + 3] != SETTINGS or data[at + 4] & ACK:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        unpack, most = HEADER.unpack_from, self._limits.max_frame_bytes
        while size - at >= HEADER_BYTES:
            high, low, kind, flags, number = unpack(data, at)
            length = high << 16 | low
            if length > most:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            end = at + HEADER_BYTES + length
            if end > size:
                break
            payload = data[at + HEADER_BYTES : end]
            at = end
            if not self.greeted:
                self.greeted = True
            try:
                if self._block is not None and kind != CONTINUATION:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted")
                if kind == DATA:
                    self._data(flags, number & _NUMBER, payload)
                elif kind == HEADERS:
                    self._headers(flags, number & _NUMBER, payload)
                else:
                    self._other(kind, flags, number & _NUMBER, payload)
            except StreamFault as fault:
                self._stream_failed(fault)
            if self.closed:
                return
        if not self.greeted and at:
            at = 0  # the preface is checked again, with its first frame
        self._rest = data[at:]

    def _stream_failed(self, fault: StreamFault) -> None:
        self._calm.spend(4, "requests that break the protocol")
        stream = self.streams.get(fault.stream)
        self._drop(fault.stream, fault.code)
        if stream is not None:
            self._handler.reset(stream)

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        if not number & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a request has an even number")
        if flags & (PADDED | WITH_PRIORITY):
            if flags & PADDED:
                payload = _unpadded(payload)
            if flags & WITH_PRIORITY:
                if len(payload) < 5:
                    raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a priority is cut off")
                depends = int.from_bytes(payload[:4], "big") & _NUMBER
                payload = payload[5:]
                if depends == number:
                    flags |= 0x100  # after the block is decoded, so that the table stays right
        if flags & END_HEADERS:
            self._begin(number, flags, payload)
        else:
            self._block = [payload]
            self._block_bytes = len(payload)
            self._block_stream = number
            self._block_flags = flags

    def _continuation(self, flags: int, number: int, payload: bytes) -> None:
        block = self._block
        if block is None or number != self._block_stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a continuation of no header block")
        block.append(payload)
        self._block_bytes += len(payload)
        limits = self._limits
        if self._block_bytes > limits.header_bytes or len(block) > limits.max_continuations:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM, "a header block is too large, or in too many parts"
            )
        if flags & END_HEADERS:
            self._block = None
            self._begin(number, self._block_flags, b"".join(block))

    def _begin(self, number: int, flags: int, block: bytes) -> None:
        """A header block is complete: it begins a request, or ends one."""
        head = self._decoder.decode(block)
        stream = self.streams.get(number)
        if stream is not None:
            self._trailers(stream, flags, head)
            return
        if number <= self._last:
            if number not in self._dropped:
                raise ConnectionFault(ErrorCode.STREAM_CLOSED, "headers for a request that ended")
            self._calm.spend(1, "headers for requests that ended")
            return
        self._last = number
        if self._final:
            self._drop(number, ErrorCode.REFUSED_STREAM)
            return
        if head.fault or flags & 0x100:
            raise StreamFault(number, ErrorCode.PROTOCOL_ERROR, head.fault or "depends on itself")
        if len(self.streams) >= self._limits.max_streams:
            self._calm.spend(8, "requests at once")
            self._drop(number, ErrorCode.REFUSED_STREAM)
            return
        stream = Stream(number, self._stream_window, self._limits.stream_window)
        if flags & END_STREAM:
            stream.ended = True
        if head.content_length is not None:
            stream.expected = head.content_length
            if stream.ended and head.content_length:
                raise StreamFault(number, ErrorCode.PROTOCOL_ERROR, "the announced data is missing")
        self.streams[number] = stream
        self._handler.request(stream, head)

    def _trailers(self, stream: Stream, flags: int, head: Head) -> None:
        if stream.ended:
            raise StreamFault(stream.id, ErrorCode.STREAM_CLOSED, "headers after the end")
        if not flags & END_STREAM or head.trailer_fault or stream.expected:
            why = head.trailer_fault or "headers within a request, or data is missing"
            raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR, why)
        stream.ended = True
        self._handler.data(stream, b"")

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._room -= size
        if self._room < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more data than was allowed")
        self._unreturned += size
        if self._unreturned >= self._room_size >> 1:
            self._room += self._unreturned
            self._push(window_frame(0, self._unreturned))
            self._unreturned = 0
        stream = self.streams.get(number)
        if stream is None:
            self._stray_data(number, flags)
            return
        if stream.ended:
            raise StreamFault(number, ErrorCode.STREAM_CLOSED, "data after the end")
        stream.room -= size
        if stream.room < 0:
            raise StreamFault(number, ErrorCode.FLOW_CONTROL_ERROR, "more data than was allowed")
        if flags & PADDED:
            payload = _unpadded(payload)
        if flags & END_STREAM:
            stream.ended = True
        elif size < _SMALL_BYTES:
            self._calm.spend(1 if payload else 4, "small frames of data")
        if stream.expected is not None:
            stream.expected -= len(payload)
            if stream.expected < 0 or (stream.ended and stream.expected):
                raise StreamFault(number, ErrorCode.PROTOCOL_ERROR, "data is not as announced")
        self._handler.data(stream, payload)

    def _stray_data(self, number: int, flags: int) -> None:
        if number > self._last or not number & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "data without a request")
        self._calm.spend(1, "frames for requests that ended")
        stopped = self._dropped.get(number)
        if stopped is None:
            self._drop(number, ErrorCode.STREAM_CLOSED)
        elif not stopped and not flags & END_STREAM:
            self._drop(number, ErrorCode.NO_ERROR)

    def _other(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if _FIXED_LENGTHS.get(kind, len(payload)) != len(payload):
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame has the wrong length")
        if kind == WINDOW_UPDATE:
            self._window_update(number, int.from_bytes(payload, "big") & LARGEST_WINDOW)
        elif kind == CONTINUATION:
            self._continuation(flags, number, payload)
        elif kind == RST_STREAM:
            self._rst(number)
        elif kind == PRIORITY:
            self._priority(number, payload)
        elif kind in (SETTINGS, PING, GOAWAY):
            if number:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the frame belongs to a stream")
            if kind == SETTINGS:
                self._settings(flags, payload)
            elif kind == PING:
                self._ping(flags, payload)
            elif len(payload) < 8:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY is cut off")
        elif kind == PUSH_PROMISE:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client can't push")
        else:
            self._calm.spend(4, "unknown frames")

    def _known(self, number: int) -> Stream | None:
        """The stream; None if it ended. Raises ``ConnectionFault`` if it never began."""
        stream = self.streams.get(number)
        if stream is None and (number > self._last or not number & 1):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame for a request that never was")
        return stream

    def _window_update(self, number: int, increment: int) -> None:
        self._calm.spend(1, "changes of windows")
        if not number:
            self._window += increment
            if not increment or self._window > LARGEST_WINDOW:
                raise _wrong_window(increment)
            self._flush_all()
            return
        stream = self._known(number)
        if stream is not None:
            stream.window += increment
            if not increment or stream.window > LARGEST_WINDOW:
                fault = _wrong_window(increment)
                raise StreamFault(number, fault.code, str(fault))
            self._flush(stream)

    def _rst(self, number: int) -> None:
        self._calm.spend(4, "requests that were given up")
        stream = self._known(number)
        if stream is not None:
            self._forget(number)
            self._handler.reset(stream)

    def _priority(self, number: int, payload: bytes) -> None:
        self._calm.spend(2, "priorities")
        if not number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a priority without a stream")
        if int.from_bytes(payload[:4], "big") & _NUMBER == number:
            raise StreamFault(number, ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")

    def _ping(self, flags: int, payload: bytes) -> None:
        if not flags & ACK:
            self._calm.spend(4, "pings")
            self._push(frame(PING, ACK, 0, payload))
        elif payload == _GOODBYE and self.leaving and not self._final:
            self._final = True
            self._push(goaway_frame(self._last, ErrorCode.NO_ERROR))

    def _settings(self, flags: int, payload: bytes) -> None:
        self._calm.spend(20, "settings")
        if len(payload) % 6 or (flags & ACK and payload):
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "the settings have a wrong length")
        if flags & ACK:
            return
        if len(payload) > _MOST_SETTINGS * 6:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many settings at once")
        for name, value in read_settings(payload):
            self._set(name, value)
        self._push(frame(SETTINGS, ACK, 0))
        self._flush_all()

    def _set(self, name: int, value: int) -> None:
        if name == Setting.HEADER_TABLE_SIZE:
            self.encoder.limit_table(value)
        elif name == Setting.ENABLE_PUSH:
            if value > 1:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1")
        elif name == Setting.INITIAL_WINDOW_SIZE:
            if value > LARGEST_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the window is too large")
            change, self._stream_window = value - self._stream_window, value
            for stream in self.streams.values():
                stream.window += change
                if stream.window > LARGEST_WINDOW:
                    raise _wrong_window(change)
        elif name == Setting.MAX_FRAME_SIZE:
            if not DEFAULT_FRAME_BYTES <= value <= LARGEST_FRAME_BYTES:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of range")
            self._frame_bytes = min(value, self._limits.sent_frame_bytes)


def _wrong_window(increment: int) -> ConnectionFault:
    if increment:
        return ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window is too large")
    return ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a window grows by nothing")


def _unpadded(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the padding is longer than the frame")
    return payload[1 : len(payload) - payload[0]]
