"""The frame's fixed header: its layout, and the checks that cost the same for any frame.

A frame is a batch of records of one producer. It is packed once, by the producer; network,
broker, journal and consumers move it as bytes. All integers are little-endian and every section
starts on an 8-byte boundary::

    0   4s  magic "SLF1"            40  q   sequence of the first record
    4   B   version                 48  q   earliest publish time, microseconds
    5   B   flags                   56  q   latest publish time, microseconds
    6   H   producer name length    64  I   stored columns length
    8   I   body length             68  I   CRC32C of bytes 0..68 and of the body
    12  I   raw columns length      72  q   base offset   \\ assigned by the broker,
    16  I   record count            80  q   epoch         / outside the CRC
    20  I   schema version          88  body: delivery time, producer name, key slots, columns
    24  Q   schema id
    32  Q   producer id

The body begins with a delivery time (q, microseconds since 1970) only if the flags say so: then
nothing of the frame is delivered before it.

The broker needs only what stands here; ``encode`` and ``decode`` handle the columns.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from sulina.errors import CorruptFrame
from sulina.runtime.seam import Buffer

MAGIC: Final = b"SLF1"
VERSION: Final = 1
HEADER_SIZE: Final = 88

COMPRESSION_MASK: Final = 0b0000_0011
HAS_KEYS: Final = 0b0000_0100
HAS_ATTRIBUTES: Final = 0b0000_1000
HAS_TIMES: Final = 0b0001_0000
CONTROL: Final = 0b0010_0000
DELAYED: Final = 0b0100_0000
_KNOWN_FLAGS: Final = 0b0111_1111
_RECORD_FLAGS: Final = HAS_KEYS | HAS_ATTRIBUTES | HAS_TIMES | DELAYED

MAX_RECORDS: Final = 1 << 16
"""Records in one frame, so that a selection within a frame is at most 8 KiB."""
MAX_BODY: Final = 64 << 20
"""Bytes in a frame's body, stored or decompressed."""
MAX_NAME: Final = 1024
MAX_ATTRIBUTES: Final = 1 << 20
"""Attributes of all records of one frame: they weigh far more in memory than in the frame."""
MAX_TIME_SPAN_US: Final = 0x7FFF_FFFF
"""Microseconds between the earliest and the latest record of a frame."""

MAX_TIME_US: Final = (1 << 62) - 1
"""The latest time at which a frame can be delivered."""

UNASSIGNED: Final = -1

_LAYOUT: Final = struct.Struct("<4sBBHIIIIQQqqqIIqq")
_PRODUCER_PART: Final = struct.Struct("<4sBBHIIIIQQqqqI")
_BROKER_PART: Final = struct.Struct("<qq")
_CRC: Final = struct.Struct("<I")
_DUE: Final = struct.Struct("<q")
_MAX_INT64: Final = (1 << 63) - 1
_CRC_AT: Final = 68
_BROKER_AT: Final = 72
assert _LAYOUT.size == HEADER_SIZE
assert _PRODUCER_PART.size == _CRC_AT


def padded(length: int) -> int:
    """``length`` rounded up to the next 8-byte boundary."""
    return (length + 7) & ~7


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """What a frame says about itself. ``base_offset`` and ``epoch`` are -1 until assigned."""

    flags: int
    name_length: int
    body_length: int
    raw_length: int
    count: int
    schema_version: int
    schema_id: int
    producer_id: int
    first_sequence: int
    first_time: int
    last_time: int
    columns_length: int
    crc: int
    base_offset: int
    epoch: int

    @property
    def size(self) -> int:
        """Bytes of the whole frame."""
        return HEADER_SIZE + self.body_length

    @property
    def last_sequence(self) -> int:
        return self.first_sequence + self.count - 1

    @property
    def next_offset(self) -> int:
        """The offset after the frame's last record."""
        return self.base_offset + self.count

    def assigned(self, base_offset: int, epoch: int) -> FrameHeader:
        """The same header with the broker's part filled in."""
        # Written out: once a frame, and ``dataclasses.replace`` takes several times as long.
        return FrameHeader(
            self.flags,
            self.name_length,
            self.body_length,
            self.raw_length,
            self.count,
            self.schema_version,
            self.schema_id,
            self.producer_id,
            self.first_sequence,
            self.first_time,
            self.last_time,
            self.columns_length,
            self.crc,
            base_offset,
            epoch,
        )

    @property
    def is_control(self) -> bool:
        """Written by the broker for itself; never delivered, and without records."""
        return bool(self.flags & CONTROL)

    @property
    def is_delayed(self) -> bool:
        """Not to be delivered before the time that :func:`read_due` tells."""
        return bool(self.flags & DELAYED)

    @property
    def name_at(self) -> int:
        """Where the producer's name starts, counted from the start of the frame."""
        return HEADER_SIZE + _DUE.size if self.flags & DELAYED else HEADER_SIZE

    @property
    def slots_at(self) -> int:
        """Where the key slots start, if there are any."""
        return self.name_at + padded(self.name_length)

    @property
    def columns_at(self) -> int:
        """Where the columns start, counted from the start of the frame."""
        return self.slots_at + (padded(self.count) if self.flags & HAS_KEYS else 0)


def pack_header(
    *,
    flags: int,
    name_length: int,
    raw_length: int,
    count: int,
    schema_version: int,
    schema_id: int,
    producer_id: int,
    first_sequence: int,
    first_time: int,
    last_time: int,
    columns_length: int,
    body: list[bytes],
) -> bytes:
    """The header for ``body``, CRC included, with offset and epoch not yet assigned."""
    head = _PRODUCER_PART.pack(
        MAGIC,
        VERSION,
        flags,
        name_length,
        sum(map(len, body)),
        raw_length,
        count,
        schema_version,
        schema_id,
        producer_id,
        first_sequence,
        first_time,
        last_time,
        columns_length,
    )
    crc = crc32c(head)
    for part in body:
        crc = crc32c(part, crc)
    return head + _CRC.pack(crc) + _BROKER_PART.pack(UNASSIGNED, UNASSIGNED)


def parse_header(frame: Buffer) -> FrameHeader:
    """Read the header and check that it is plausible by itself. The body need not be there.

    Raises ``CorruptFrame``; costs the same for every frame.
    """
    if len(frame) < HEADER_SIZE:
        raise CorruptFrame(f"a frame has at least {HEADER_SIZE} bytes, these are {len(frame)}")
    magic, version, flags, *fields = _LAYOUT.unpack_from(frame)
    if magic != MAGIC:
        raise CorruptFrame("these bytes do not start as a frame does")
    if version != VERSION:
        raise CorruptFrame(f"frame version {version} is not known here; this side knows {VERSION}")
    name_length, body_length, raw_length, count, *rest = fields
    if flags & ~_KNOWN_FLAGS or flags & COMPRESSION_MASK == COMPRESSION_MASK:
        raise CorruptFrame("the frame uses features that are not known here")
    if count > MAX_RECORDS or body_length > MAX_BODY or raw_length > MAX_BODY:
        raise CorruptFrame(f"the frame claims {count} records in {body_length} bytes: too many")
    if (count == 0) is not bool(flags & CONTROL) or (not count and flags & _RECORD_FLAGS):
        raise CorruptFrame("a frame holds at least one record, unless it is a control frame")
    header = FrameHeader(flags, name_length, body_length, raw_length, count, *rest)
    if header.columns_at + padded(header.columns_length) != header.size or name_length > MAX_NAME:
        raise CorruptFrame("the frame's body does not have the length its parts add up to")
    if not flags & COMPRESSION_MASK and header.columns_length != raw_length:
        raise CorruptFrame("the frame's columns do not have the length its header says")
    if header.first_sequence < 0 or header.last_sequence > _MAX_INT64:
        raise CorruptFrame("the frame has invalid sequence numbers")
    span = header.last_time - header.first_time
    if not 0 <= span <= (MAX_TIME_SPAN_US if flags & HAS_TIMES else 0):
        raise CorruptFrame("the frame's publish times contradict each other")
    return header


def check_frame(frame: Buffer) -> FrameHeader:
    """The header of a whole frame whose every byte is as the producer wrote it.

    Raises ``CorruptFrame`` if the length is wrong or the CRC does not match. Columns are not
    opened. This is what a broker does to a frame before it takes responsibility for it.
    """
    header = parse_header(frame)
    if len(frame) != header.size:
        raise CorruptFrame(f"the frame should have {header.size} bytes, these are {len(frame)}")
    view = memoryview(frame)
    if crc32c(view[HEADER_SIZE:], crc32c(view[:_CRC_AT])) != header.crc:
        raise CorruptFrame("the frame's checksum does not match its bytes")
    read_due(frame, header)
    return header


def pack_due(due_us: int) -> bytes:
    """The delivery time as a body begins with it."""
    assert 0 < due_us <= MAX_TIME_US
    return _DUE.pack(due_us)


def read_due(frame: Buffer, header: FrameHeader) -> int | None:
    """When the frame may be delivered, in microseconds since 1970; None: at once.

    Raises ``CorruptFrame`` for a time that can't be, or if the frame ends before it.
    """
    if not header.flags & DELAYED:
        return None
    if len(frame) < HEADER_SIZE + _DUE.size:
        raise CorruptFrame("the frame ends before its delivery time")
    (due_us,) = _DUE.unpack_from(frame, HEADER_SIZE)
    if not 0 < due_us <= MAX_TIME_US:
        raise CorruptFrame("the frame has an invalid delivery time")
    return int(due_us)


def assign(frame: bytearray | memoryview, base_offset: int, epoch: int) -> None:
    """Write the broker's part of the header in place. The CRC does not cover it."""
    _BROKER_PART.pack_into(frame, _BROKER_AT, base_offset, epoch)
