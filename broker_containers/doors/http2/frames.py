"""The layout of HTTP/2 frames (RFC 9113), and what is wrong with a client that breaks it."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER: Final = Struct(">BHBBI")
"""Length (high byte, low bytes), type, flags, stream."""
HEADER_BYTES: Final = 9
DEFAULT_WINDOW: Final = 65_535
DEFAULT_FRAME_BYTES: Final = 16_384
LARGEST_FRAME_BYTES: Final = (1 << 24) - 1
LARGEST_WINDOW: Final = (1 << 31) - 1
LAST_STREAM: Final = (1 << 31) - 1

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
WITH_PRIORITY: Final = 0x20

_U32: Final = Struct(">I")
_SETTING: Final = Struct(">HI")


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Setting(IntEnum):
    """What each side declares about itself."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ConnectionFault(Exception):
    """The client broke the protocol, or a limit: the connection ends."""

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.code = code


class StreamFault(Exception):
    """One stream broke the protocol, and ends; others continue."""

    def __init__(self, stream: int, code: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.stream = stream
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    size = len(payload)
    return HEADER.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def settings_frame(values: dict[Setting, int]) -> bytes:
    payload = b"".join(_SETTING.pack(name, value) for name, value in values.items())
    return frame(SETTINGS, 0, 0, payload)


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Numbers and values; unknown numbers are included."""
    return list(_SETTING.iter_unpack(payload))


def rst_frame(stream: int, code: ErrorCode) -> bytes:
    return frame(RST_STREAM, 0, stream, _U32.pack(code))


def window_frame(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _U32.pack(increment))


def goaway_frame(last_stream: int, code: ErrorCode, why: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, _U32.pack(last_stream) + _U32.pack(code) + why.encode()[:500])
