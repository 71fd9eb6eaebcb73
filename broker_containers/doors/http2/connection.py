"""The server's side of one HTTP/2 connection (RFC 9113), without I/O.

:meth:`Http2Connection.receive` takes bytes as they arrive, in any division, and calls a handler.
Memory is bounded by the limits: nothing is allocated because a client announces it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_containers.doors.http2.control_frames import ControlFrames
from broker_containers.doors.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    HEADER,
    HEADER_BYTES,
    HEADERS,
    LAST_STREAM,
    PADDED,
    PREFACE,
    SETTINGS,
    WITH_PRIORITY,
    ConnectionFault,
    ErrorCode,
    Setting,
    StreamFault,
    settings_frame,
    window_frame,
)
from broker_containers.doors.http2.handler import Http2Handler
from broker_containers.doors.http2.head import Head
from broker_containers.doors.http2.hpack import HeaderDecoder
from broker_containers.doors.http2.limits import Http2Limits
from broker_containers.doors.http2.streams import Stream

_NUMBER: Final = LAST_STREAM
_SMALL_BYTES: Final = 64
"""Frames of data below this are counted, unless they end a request."""


class Http2Connection(ControlFrames):
    """One connection. ``wake`` is called when there is something to send after a while."""

    def __init__(
        self, handler: Http2Handler, wake: Callable[[], None], limits: Http2Limits
    ) -> None:
        super().__init__(handler, wake, limits)
        self.greeted = False
        """The client has shown that it speaks HTTP/2."""
        self._decoder = HeaderDecoder(Head, limits.header_bytes)
        self._rest = b""
        self._block: list[bytes] | None = None
        self._block_bytes = 0
        self._block_stream = 0
        self._block_flags = 0
        self._room_size = DEFAULT_WINDOW
        self._room = DEFAULT_WINDOW
        """Bytes of data that the client may send on all streams."""
        self._unreturned = 0
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

    def lost(self) -> None:
        super().lost()
        self._rest = b""

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
            number &= _NUMBER
            if not self.greeted:
                self.greeted = True
            try:
                if self._block is not None and kind != CONTINUATION:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted")
                if kind == HEADERS:
                    if flags == END_HEADERS and number & 1 and size - end >= HEADER_BYTES:
                        # Nearly always: a request of two frames, which arrive together.
                        high, low, kind, flags, same = unpack(data, end)
                        stop = end + HEADER_BYTES + (high << 16 | low)
                        if (
                            kind == DATA
                            and flags == END_STREAM
                            and same == number
                            and stop <= size
                            and stop - end <= most
                        ):
                            if self._whole(number, payload, data[end + HEADER_BYTES : stop]):
                                at = stop
                        else:
                            self._headers(END_HEADERS, number, payload)
                    else:
                        self._headers(flags, number, payload)
                elif kind == DATA:
                    self._data(flags, number, payload)
                elif kind == CONTINUATION:
                    self._continuation(flags, number, payload)
                else:
                    self._control(kind, flags, number, payload)
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

    def _whole(self, number: int, block: bytes, data: bytes) -> bool:
        """A request with all its data. False: only its headers are dealt with, not its data."""
        head = self._decoder.decode(block)
        size = len(data)
        if (
            number <= self._last
            or self._final
            or head.fault
            or head.content_length is not None
            or size > self._limits.stream_window
            or len(self.streams) >= self._limits.max_streams
        ):
            self._begun(number, END_HEADERS, head)
            return False
        self._take_room(size)
        self._last = number
        stream = Stream(number, self._stream_window)
        stream.ended = True
        self.streams[number] = stream
        self._handler.request(stream, head, data)
        return True

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
        """A header block is complete."""
        self._begun(number, flags, self._decoder.decode(block))

    def _begun(self, number: int, flags: int, head: Head) -> None:
        """A header block begins a request, or ends one."""
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
        self._handler.request(stream, head, b"")

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
        self._take_room(size)
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

    def _take_room(self, size: int) -> None:
        """Data has arrived; lets the client send as much again once it is enough."""
        self._room -= size
        if self._room < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more data than was allowed")
        self._unreturned += size
        if self._unreturned >= self._room_size >> 1:
            self._room += self._unreturned
            self._push(window_frame(0, self._unreturned))
            self._unreturned = 0

    def _stray_data(self, number: int, flags: int) -> None:
        if number > self._last or not number & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "data without a request")
        self._calm.spend(1, "frames for requests that ended")
        stopped = self._dropped.get(number)
        if stopped is None:
            self._drop(number, ErrorCode.STREAM_CLOSED)
        elif not stopped and not flags & END_STREAM:
            self._drop(number, ErrorCode.NO_ERROR)


def _unpadded(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the padding is longer than the frame")
    return payload[1 : len(payload) - payload[0]]
