"""What is sent on an HTTP/2 connection: frames, data within the client's windows, the end.

What is to be sent is collected until :meth:`SendingSide.take`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from broker_containers.doors.http2.frames import (
    DATA,
    DEFAULT_FRAME_BYTES,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    HEADER,
    HEADERS,
    LAST_STREAM,
    PING,
    ConnectionFault,
    ErrorCode,
    frame,
    goaway_frame,
    rst_frame,
)
from broker_containers.doors.http2.handler import Http2Handler
from broker_containers.doors.http2.hpack import HeaderEncoder
from broker_containers.doors.http2.limits import ANSWERED, SENT, Calm, Http2Limits
from broker_containers.doors.http2.streams import Stream

_LARGE_BYTES: Final = 256
_MOST_DROPPED: Final = 1024
_MOST_PONGS: Final = 4
"""Answers to pings that may wait."""
GOODBYE: Final = b"goodbye!"
"""The ping after which a client that was asked to leave opens no more requests."""


class SendingSide:
    """The responses of one connection, and the streams that it has."""

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
        self.leaving = False
        """The client was asked to open no more requests."""
        self.encoder = HeaderEncoder()
        self._calm = Calm()
        self._out: list[bytes] = []
        self._pongs: list[bytes] = []
        """Answers to pings. gRPC's clients send a ping for data that arrives while none is
        unanswered, so answers follow all data of a write: one before it would cause another ping.
        """
        self._last = 0
        """The highest stream that the client has begun."""
        self._dropped: dict[int, bool] = {}
        """Requests that this side ended first, what their clients still send is ignored; and
        whether the client was told to stop."""
        self._window = DEFAULT_WINDOW
        """Bytes of data that the client accepts on all streams."""
        self._frame_bytes = DEFAULT_FRAME_BYTES
        self._waiting: dict[Stream, None] = {}
        """Streams with queued data."""
        self.queued = 0
        """Bytes of data that wait for the client's permission."""

    @property
    def patient(self) -> bool:
        """Nothing but answers to pings is to be sent: they can wait briefly for other frames."""
        return not self._out and 0 < len(self._pongs) <= _MOST_PONGS and not self.closed

    def take(self) -> bytes:
        """What is to be sent now."""
        out = self._out
        if self._pongs:
            if not self.closed:  # then nothing may follow the last frame
                out.extend(self._pongs)
            self._pongs.clear()
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
            if stream.ended:
                self._calm.give_back(ANSWERED)
                self.streams.pop(number, None)
            else:
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
            self._push(frame(PING, 0, 0, GOODBYE))

    def close(self, code: ErrorCode = ErrorCode.NO_ERROR, why: str = "") -> None:
        """End the connection, with a reason for the client; its requests are reset."""
        if not self.closed:
            self.closed = True
            self._push(goaway_frame(self._last, code, why))
            self.lost()

    def lost(self) -> None:
        """The connection is gone: reset all requests."""
        self.closed = True
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
