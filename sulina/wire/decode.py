"""Decodes a frame into columns of Python values, with every bound checked.

Used only by the client and by the server for stock Danube clients. Invalid input of any kind raises
``CorruptFrame``.
"""

from __future__ import annotations

import struct
import sys
from array import array
from functools import cached_property, lru_cache
from itertools import pairwise, repeat
from operator import add

from sulina.errors import CorruptFrame
from sulina.runtime.seam import Buffer
from sulina.wire import header as h
from sulina.wire.compression import Compression, decompress
from sulina.wire.encode import even_offsets

_OFFSETS = struct.Struct("<ii")
_BIG_ENDIAN_HOST = sys.byteorder == "big"


@lru_cache(maxsize=8)
def _cutter(size: int, count: int) -> struct.Struct:
    return struct.Struct(f"{size}s" * count)


class _Columns:
    """A bounds-checked cursor over the column section."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def take(self, length: int) -> memoryview:
        start, end = self.at, self.at + length
        if end > len(self.data):
            raise CorruptFrame("a column of the frame extends beyond the frame's end")
        self.at = h.padded(end)
        return self.data[start:end]

    def int32(self, count: int) -> list[int]:
        numbers = array("i")
        numbers.frombytes(self.take(4 * count))
        if _BIG_ENDIAN_HOST:
            numbers.byteswap()
        return numbers.tolist()

    def offsets(self, count: int) -> list[int]:
        """``count`` + 1 offsets, starting at zero, never decreasing."""
        offsets = self.int32(count + 1)
        # Sorting a sorted list takes one pass of native comparisons.
        if offsets[0] != 0 or sorted(offsets) != offsets:
            raise CorruptFrame("the offsets of a column in the frame are out of order")
        return offsets

    def binary(self, count: int) -> list[bytes]:
        size = int.from_bytes(self.data[self.at + 4 : self.at + 8], "little")
        # The offsets and the struct are cached, so only for counts that a frame may have.
        if 0 < count <= h.MAX_RECORDS and 0 < size * count <= len(self.data):
            expected = even_offsets(size, count)
            if bytes(self.data[self.at : self.at + len(expected)]) == expected:
                # A struct splits values of equal size several times faster than slicing each.
                self.at += len(expected)
                return list(_cutter(size, count).unpack(self.take(size * count)))
        offsets = self.offsets(count)
        data = bytes(self.take(offsets[-1]))
        return [data[start:end] for start, end in pairwise(offsets)]

    def strings(self, count: int) -> list[str]:
        try:
            return [value.decode() for value in self.binary(count)]
        except UnicodeDecodeError:
            raise CorruptFrame("a text in the frame is not valid UTF-8") from None

    def bits(self, count: int) -> str:
        """``count`` characters, '1' where the bit is set."""
        word = int.from_bytes(self.take((count + 7) // 8), "little")
        return bin(word | 1 << count)[:2:-1][:count]


def _only_payload(stored: memoryview) -> bytes | None:
    """The payload in the columns of a single record that has nothing else, as most messages of
    stock clients are. None if the columns are not what they should be."""
    if len(stored) < _OFFSETS.size:
        return None
    first, size = _OFFSETS.unpack_from(stored)
    end = _OFFSETS.size + size
    if first != 0 or size < 0 or h.padded(end) != len(stored):
        return None
    return bytes(stored[_OFFSETS.size : end])


class Frame:
    """A decoded frame. Times and attributes are built on first use and cached.

    The constructor checks the CRC and the bounds of all columns. It raises ``CorruptFrame`` for
    invalid bytes and ``Refused`` if the package for the frame's compression is not installed. The
    input buffer is not kept. A ``header`` that was parsed before need not be parsed again.
    """

    def __init__(self, data: Buffer, header: h.FrameHeader | None = None) -> None:
        if header is None:
            header = h.parse_header(data)
        h.check_body(data, header)
        self.header = header
        self.due_us = h.read_due(data, header)
        self.expires_us = h.read_expiry(data, header)
        view = memoryview(data)
        at = header.name_at
        name = bytes(view[at : at + header.name_length])
        try:
            self.producer_name = name.decode()
            """The producer of all records; empty if they have several."""
        except UnicodeDecodeError:
            raise CorruptFrame("the producer name in the frame is not valid UTF-8") from None
        at = header.columns_at
        stored = view[at : at + header.columns_length]
        if header.flags & h.COMPRESSION_MASK:
            method = Compression(header.flags & h.COMPRESSION_MASK)
            stored = memoryview(decompress(method, stored, header.raw_length))
        self.keys: list[bytes | None] | None = None
        self._attributes: tuple[list[int], list[str], list[str]] | None = None
        self._deltas: list[int] | None = None
        self._producers: list[str] | None = None
        only = _only_payload(stored) if header.count == 1 and not header.flags else None
        if only is not None:
            self.payloads: list[bytes] = [only]
            return
        columns = _Columns(stored)
        count = max(header.count, 1)  # a control frame has one payload and no records
        self.payloads = columns.binary(count)
        if header.flags & h.HAS_KEYS:
            present = columns.bits(count)
            values = columns.binary(count)
            self.keys = [
                value if bit == "1" else None for bit, value in zip(present, values, strict=True)
            ]
        if header.flags & h.HAS_ATTRIBUTES:
            lists = columns.offsets(count)
            total = lists[-1]
            if total > h.MAX_ATTRIBUTES:
                raise CorruptFrame(f"the frame has {total} attributes, over {h.MAX_ATTRIBUTES}")
            self._attributes = (lists, columns.strings(total), columns.strings(total))
        if header.flags & h.HAS_TIMES:
            self._deltas = columns.int32(count)
            if (min(self._deltas), max(self._deltas)) != (0, header.last_time - header.first_time):
                raise CorruptFrame("the frame's publish times contradict its header")
        if header.flags & h.HAS_PRODUCERS:
            self._producers = columns.strings(count)
        if columns.at != h.padded(len(columns.data)):
            raise CorruptFrame("the frame has bytes after its last column")

    @property
    def count(self) -> int:
        return self.header.count

    @cached_property
    def producers(self) -> list[str]:
        """The name of each record's producer."""
        return self._producers or [self.producer_name] * self.count

    @cached_property
    def times(self) -> list[int]:
        """The publish time of each record, in microseconds since 1970."""
        first = self.header.first_time
        if self._deltas is None:
            return [first] * self.count
        return list(map(add, self._deltas, repeat(first)))

    @cached_property
    def attributes(self) -> list[dict[str, str]] | None:
        """The attributes of each record, or None if no record has any."""
        if self._attributes is None:
            return None
        lists, names, values = self._attributes
        return [
            dict(zip(names[start:end], values[start:end], strict=True))
            for start, end in pairwise(lists)
        ]


def read_slots(frame: Buffer, header: h.FrameHeader) -> bytes | None:
    """The key slot of each record, or None if the frame has no keys. Decodes no column."""
    if not header.flags & h.HAS_KEYS:
        return None
    start = header.slots_at
    return bytes(memoryview(frame)[start : start + header.count])


def read_producer_name(frame: Buffer, header: h.FrameHeader) -> str:
    """The producer's name. Decodes no column; replaces invalid UTF-8."""
    name = memoryview(frame)[header.name_at : header.name_at + header.name_length]
    return bytes(name).decode(errors="replace")
