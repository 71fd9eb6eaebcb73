"""Frames that carry neither headers nor data: settings, windows, pings, resets, priorities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_containers.doors.http2.frames import (
    ACK,
    DEFAULT_FRAME_BYTES,
    DEFAULT_WINDOW,
    GOAWAY,
    LARGEST_FRAME_BYTES,
    LARGEST_WINDOW,
    LAST_STREAM,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ConnectionFault,
    ErrorCode,
    Setting,
    StreamFault,
    frame,
    goaway_frame,
    read_settings,
)
from broker_containers.doors.http2.handler import Http2Handler
from broker_containers.doors.http2.limits import Http2Limits
from broker_containers.doors.http2.sending import GOODBYE, SendingSide
from broker_containers.doors.http2.streams import Stream

_MOST_SETTINGS: Final = 32
"""In one frame: each of them may change the windows of all streams."""
_FIXED_LENGTHS: Final = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}


class ControlFrames(SendingSide):
    """Obeys what a client sends besides its requests."""

    def __init__(
        self, handler: Http2Handler, wake: Callable[[], None], limits: Http2Limits
    ) -> None:
        super().__init__(handler, wake, limits)
        self._final = False
        """The client has been told which request is the last one."""
        self._stream_window = DEFAULT_WINDOW
        """Bytes of data that the client accepts on a new stream."""

    def _control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if _FIXED_LENGTHS.get(kind, len(payload)) != len(payload):
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame has the wrong length")
        if kind == WINDOW_UPDATE:
            self._window_update(number, int.from_bytes(payload, "big") & LARGEST_WINDOW)
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
        if int.from_bytes(payload[:4], "big") & LAST_STREAM == number:
            raise StreamFault(number, ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")

    def _ping(self, flags: int, payload: bytes) -> None:
        if not flags & ACK:
            self._calm.spend(4, "pings")
            self._pongs.append(frame(PING, ACK, 0, payload))
        elif payload == GOODBYE and self.leaving and not self._final:
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
