"""Frames that lie: valid to the checksum, wrong in what they say."""

from __future__ import annotations

import struct

from crc32c import crc32c

from sulina.wire.header import HEADER_SIZE

_CRC_AT = 68
FIELDS = {
    "magic": (0, "<4s"),
    "version": (4, "<B"),
    "flags": (5, "<B"),
    "name_length": (6, "<H"),
    "body_length": (8, "<I"),
    "raw_length": (12, "<I"),
    "count": (16, "<I"),
    "schema_version": (20, "<I"),
    "schema_id": (24, "<Q"),
    "producer_id": (32, "<Q"),
    "first_sequence": (40, "<q"),
    "first_time": (48, "<q"),
    "last_time": (56, "<q"),
    "columns_length": (64, "<I"),
}
"""The producer's part of the header: where each field is, and how it is written."""


def sealed(frame: bytes | bytearray) -> bytes:
    """The same bytes with a checksum that matches them."""
    result = bytearray(frame)
    if len(result) >= HEADER_SIZE:
        crc = crc32c(bytes(result[HEADER_SIZE:]), crc32c(bytes(result[:_CRC_AT])))
        struct.pack_into("<I", result, _CRC_AT, crc)
    return bytes(result)


def lie(frame: bytes, **fields: int | bytes) -> bytes:
    """``frame`` with these header fields instead, and a checksum that matches."""
    result = bytearray(frame)
    for name, value in fields.items():
        at, layout = FIELDS[name]
        struct.pack_into(layout, result, at, value)
    return sealed(result)


def with_columns(frame: bytes, columns: bytes, raw_length: int | None = None) -> bytes:
    """``frame`` with other columns, and all lengths to match."""
    (name_length,) = struct.unpack_from("<H", frame, 6)
    (flags,) = struct.unpack_from("<B", frame, 5)
    (count,) = struct.unpack_from("<I", frame, 16)
    before = _padded(name_length) + (_padded(count) if flags & 4 else 0) + (flags >> 3 & 8)
    body = frame[HEADER_SIZE : HEADER_SIZE + before] + columns + bytes(-len(columns) % 8)
    return lie(
        frame[:HEADER_SIZE] + body,
        body_length=len(body),
        columns_length=len(columns),
        raw_length=len(columns) if raw_length is None else raw_length,
    )


def columns_of(frame: bytes) -> bytes:
    """The columns as they are stored in ``frame``."""
    (length,) = struct.unpack_from("<I", frame, 64)
    (body,) = struct.unpack_from("<I", frame, 8)
    start = HEADER_SIZE + body - _padded(length)
    return frame[start : start + length]


def _padded(length: int) -> int:
    return (length + 7) & ~7
