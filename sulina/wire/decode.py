"""Opens a frame: from bytes to columns of Python values, with every bound checked.

Only the edges do this: the client, and the door for stock Danube clients. Whatever the input,
the outcome is the columns or one ``CorruptFrame``.
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

_BIG_ENDIAN_HOST = sys.byteorder == "big"


@lru_cache(maxsize=8)
def _cutter(size: int, count: int) -> struct.Struct:
    return struct.Struct(f"{size}s" * count)


class _Columns:
    """A cursor over the column section; every take is bounded by what is there."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def take(self, length: int) -> memoryview:
        start, end = self.at, self.at + length
        if end > len(self.data):
            raise CorruptFrame("a column of the frame reaches beyond its end")
        self.at = h.padded(end)
        return self.data[start:end]

    def int32(self, count: int) -> list[int]:
        numbers = array("i")
        numbers.frombytes(self.take(4 * count))
        if _BIG_ENDIAN_HOST:
            numbers.byteswap()
        return numbers.tolist()

    def offsets(self, count: int) -> list[int]:
        """``count`` + 1 offsets: from zero, never falling."""
        offsets = self.int32(count + 1)
        # Sorting what is sorted already is one pass of native comparisons.
        if offsets[0] != 0 or sorted(offsets) != offsets:
            raise CorruptFrame("the offsets of a column of the frame are out of order")
        return offsets

    def binary(self, count: int) -> list[bytes]:
        size = int.from_bytes(self.data[self.at + 4 : self.at + 8], "little")
        # No more than a frame has records, since what is used here is kept for the next frame.
        if 0 < count <= h.MAX_RECORDS and 0 < size * count <= len(self.data):
            expected = even_offsets(size, count)
            if bytes(self.data[self.at : self.at + len(expected)]) == expected:
                # Values of one size are cut natively: several times faster than slicing each.
                self.at += len(expected)
                return list(_cutter(size, count).unpack(self.take(size * count)))
        offsets = self.offsets(count)
        data = bytes(self.take(offsets[-1]))
        return [data[start:end] for start, end in pairwise(offsets)]

    def strings(self, count: int) -> list[str]:
        try:
            return [value.decode() for value in self.binary(count)]
        except UnicodeDecodeError:
            raise CorruptFrame("an attribute of the frame is not UTF-8 text") from None

    def bits(self, count: int) -> str:
        """``count`` characters, '1' where the bit is set."""
        word = int.from_bytes(self.take((count + 7) // 8), "little")
        return bin(word | 1 << count)[:2:-1][:count]


class Frame:
    """A whole frame, opened. Columns are decoded when first used and then kept.

    Constructing it checks the CRC and the columns' bounds; it raises ``CorruptFrame`` whatever
    the bytes are, and ``Refused`` only if the frame's compression is not installed here. The
    input buffer is not kept.
    """

    def __init__(self, data: Buffer) -> None:
        self.header = header = h.check_frame(data)
        self.due_us = h.read_due(data, header)
        view = memoryview(data)
        name = bytes(view[header.name_at : header.name_at + header.name_length])
        try:
            self.producer_name = name.decode()
        except UnicodeDecodeError:
            raise CorruptFrame("the producer's name in the frame is not UTF-8 text") from None
        stored = view[header.columns_at : header.columns_at + header.columns_length]
        method = Compression(header.flags & h.COMPRESSION_MASK)
        if method is not Compression.NONE:
            stored = memoryview(decompress(method, stored, header.raw_length))
        columns = _Columns(stored)
        count = max(header.count, 1)  # a control frame has one payload and no record
        self.payloads: list[bytes] = columns.binary(count)
        self.keys: list[bytes | None] | None = None
        if header.flags & h.HAS_KEYS:
            present = columns.bits(count)
            values = columns.binary(count)
            self.keys = [
                value if bit == "1" else None for bit, value in zip(present, values, strict=True)
            ]
        self._attributes: tuple[list[int], list[str], list[str]] | None = None
        if header.flags & h.HAS_ATTRIBUTES:
            lists = columns.offsets(count)
            total = lists[-1]
            if total > h.MAX_ATTRIBUTES:
                raise CorruptFrame(f"the frame claims {total} attributes: too many")
            self._attributes = (lists, columns.strings(total), columns.strings(total))
        self._deltas: list[int] | None = None
        if header.flags & h.HAS_TIMES:
            self._deltas = columns.int32(count)
            if (min(self._deltas), max(self._deltas)) != (0, header.last_time - header.first_time):
                raise CorruptFrame("the frame's publish times are not those of its header")
        if columns.at != h.padded(len(columns.data)):
            raise CorruptFrame("the frame has bytes behind its last column")

    @property
    def count(self) -> int:
        """Records in the frame."""
        return self.header.count

    @cached_property
    def times(self) -> list[int]:
        """Publish time of each record, in microseconds since 1970."""
        first = self.header.first_time
        if self._deltas is None:
            return [first] * self.count
        return list(map(add, self._deltas, repeat(first)))

    @cached_property
    def attributes(self) -> list[dict[str, str]] | None:
        """Attributes of each record, or None if no record has any."""
        if self._attributes is None:
            return None
        lists, names, values = self._attributes
        return [
            dict(zip(names[start:end], values[start:end], strict=True))
            for start, end in pairwise(lists)
        ]


def read_slots(frame: Buffer, header: h.FrameHeader) -> bytes | None:
    """The key slot of each record, or None if the frame has no keys. Opens no column."""
    if not header.flags & h.HAS_KEYS:
        return None
    start = header.slots_at
    return bytes(memoryview(frame)[start : start + header.count])


def read_producer_name(frame: Buffer, header: h.FrameHeader) -> str:
    """The producer's name, without opening the columns."""
    name = memoryview(frame)[header.name_at : header.name_at + header.name_length]
    return bytes(name).decode(errors="replace")
