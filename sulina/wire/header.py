"""The frame's fixed header: its layout, and the checks that need nothing else.

A frame is a batch of records, nearly always from one producer, which encodes it once; brokers,
journals and the network pass it on as bytes. All integers are little-endian and every section
starts on an 8-byte boundary::

    0   4s  magic "SLF1"            40  q   sequence of the first record
    4   B   version                 48  q   earliest publish time, microseconds
    5   B   flags                   56  q   latest publish time, microseconds
    6   H   producer name length    64  I   stored columns length
    8   I   body length             68  I   CRC32C of bytes 0..68 and of the body
    12  I   raw columns length      72  q   base offset   \\ assigned by the broker,
    16  I   record count            80  q   epoch         / outside the CRC
    20  I   schema version          88  body: delivery time, extension, producer name, key slots,
    24  Q   schema id                   columns
    32  Q   producer id

If the flag ``DELAYED`` is set, the body begins with a delivery time (q, microseconds since 1970),
before which no record of the frame is delivered. If ``HAS_PRODUCERS`` is set, the records have
several producers and the frame has none: its producer's name is empty. Only brokers make such
frames, of messages that stock clients send one by one.

Version 2 of the layout has an extension of 16 bytes after the delivery time: further flags (Q), of
which only ``EXPIRES`` is known, and with it an expiry time (q, microseconds since 1970), from which
on no subscription delivers a record of the frame. Frames without an extension have version 1.

Brokers need only this module; ``encode`` and ``decode`` handle the columns.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from sulina.errors import CorruptFrame
from sulina.runtime.seam import Buffer
from sulina.wire.limits import HEADER_SIZE as HEADER_SIZE
from sulina.wire.limits import MAX_BODY as MAX_BODY
from sulina.wire.limits import MAX_RECORDS as MAX_RECORDS

MAGIC: Final = b"SLF1"
VERSION: Final = 1
EXTENDED_VERSION: Final = 2

COMPRESSION_MASK: Final = 0b0000_0011
HAS_KEYS: Final = 0b0000_0100
HAS_ATTRIBUTES: Final = 0b0000_1000
HAS_TIMES: Final = 0b0001_0000
CONTROL: Final = 0b0010_0000
DELAYED: Final = 0b0100_0000
HAS_PRODUCERS: Final = 0b1000_0000

EXTENDED: Final = 1 << 8
"""Not stored as a flag: the frame has version 2, and an extension."""
_STORED_FLAGS: Final = 0xFF
EXPIRES: Final = 1
"""A flag of the extension: all that this version knows."""
_RECORD_FLAGS: Final = HAS_KEYS | HAS_ATTRIBUTES | HAS_TIMES | DELAYED | HAS_PRODUCERS | EXTENDED

MAX_NAME: Final = 1024
MAX_ATTRIBUTES: Final = 1 << 20
"""Maximum number of attributes in a frame: they take far more memory once decoded."""
MAX_TIME_SPAN_US: Final = 0x7FFF_FFFF
"""Maximum time between the earliest and the latest record of a frame."""

MAX_TIME_US: Final = (1 << 62) - 1
"""The latest valid delivery or expiry time."""

UNASSIGNED: Final = -1

_LAYOUT: Final = struct.Struct("<4sBBHIIIIQQqqqIIqq")
_PRODUCER_PART: Final = struct.Struct("<4sBBHIIIIQQqqqI")
_BROKER_PART: Final = struct.Struct("<qq")
_CRC: Final = struct.Struct("<I")
_DUE: Final = struct.Struct("<q")
_EXTENSION: Final = struct.Struct("<Qq")
EXTENSION_SIZE: Final = _EXTENSION.size
_MAX_INT64: Final = (1 << 63) - 1
_CRC_AT: Final = 68
_BROKER_AT: Final = 72
assert _LAYOUT.size == HEADER_SIZE
assert _PRODUCER_PART.size == _CRC_AT


def padded(length: int) -> int:
    """``length`` rounded up to the next 8-byte boundary."""
    return (length + 7) & ~7


class FrameHeader(NamedTuple):
    """The fields of a header. ``base_offset`` and ``epoch`` are -1 until assigned.

    A tuple, because two are created per frame, each in a tenth of the time of a frozen dataclass.
    """

    flags: int
    name_length: int
    body_length: int
    raw_length: int
    count: int  # type: ignore[assignment]  # the tuple's method of this name is not needed
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
        """The size of the whole frame in bytes."""
        return HEADER_SIZE + self.body_length

    @property
    def last_sequence(self) -> int:
        return self.first_sequence + self.count - 1

    @property
    def next_offset(self) -> int:
        """The offset after the frame's last record."""
        return self.base_offset + self.count

    def assigned(self, base_offset: int, epoch: int) -> FrameHeader:
        """The same header with the broker's fields set."""
        return FrameHeader._make((*self[:-2], base_offset, epoch))

    @property
    def is_control(self) -> bool:
        """Whether it was written by a broker for its own use: no records, never delivered."""
        return bool(self.flags & CONTROL)

    @property
    def is_delayed(self) -> bool:
        """Whether it has a delivery time (see :func:`read_due`)."""
        return bool(self.flags & DELAYED)

    @property
    def name_at(self) -> int:
        """Where the producer's name starts, counted from the start of the frame."""
        return self.extension_at + (EXTENSION_SIZE if self.flags & EXTENDED else 0)

    @property
    def extension_at(self) -> int:
        """Where the extension starts, if there is one."""
        return HEADER_SIZE + _DUE.size if self.flags & DELAYED else HEADER_SIZE

    @property
    def slots_at(self) -> int:
        """Where the key slots start, if there are any."""
        return self.name_at + padded(self.name_length)

    @property
    def columns_at(self) -> int:
        """Where the columns start, counted from the start of the frame."""
        # Without the other properties, since it is needed for every frame.
        at = HEADER_SIZE + (self.name_length + 7 & ~7)
        if self.flags & (DELAYED | HAS_KEYS | EXTENDED):
            at += _DUE.size if self.flags & DELAYED else 0
            at += EXTENSION_SIZE if self.flags & EXTENDED else 0
            at += padded(self.count) if self.flags & HAS_KEYS else 0
        return at


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
        EXTENDED_VERSION if flags & EXTENDED else VERSION,
        flags & _STORED_FLAGS,
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
    """Decode and check the header alone; the body may be missing. Raises ``CorruptFrame``."""
    if len(frame) < HEADER_SIZE:
        raise CorruptFrame(f"a frame needs at least {HEADER_SIZE} bytes, got {len(frame)}")
    magic, version, *fields = _LAYOUT.unpack_from(frame)
    if magic != MAGIC:
        raise CorruptFrame("these bytes are not a frame: the magic number is wrong")
    if version != VERSION:
        if version != EXTENDED_VERSION:
            raise CorruptFrame(
                f"unsupported frame version {version}; this program supports {VERSION} and "
                f"{EXTENDED_VERSION}"
            )
        fields[0] |= EXTENDED
    header = FrameHeader._make(fields)
    flags, name_length, body_length, raw_length, count = fields[:5]
    first_sequence, first_time, last_time, columns_length = fields[8:12]
    if flags & COMPRESSION_MASK == COMPRESSION_MASK:
        raise CorruptFrame("the frame has flags that this version does not support")
    if count > MAX_RECORDS or body_length > MAX_BODY or raw_length > MAX_BODY:
        raise CorruptFrame(f"the frame is too large: {count} records, {body_length} bytes")
    if (count == 0) is not bool(flags & CONTROL) or (not count and flags & _RECORD_FLAGS):
        raise CorruptFrame("a frame must have records, unless it is a control frame")
    columns_end = header.columns_at + (columns_length + 7 & ~7)
    if columns_end != HEADER_SIZE + body_length or name_length > MAX_NAME:
        raise CorruptFrame("the lengths in the frame's header do not add up")
    if flags & HAS_PRODUCERS and name_length:
        raise CorruptFrame("a frame with several producers can't have a producer of its own")
    if not flags & COMPRESSION_MASK and columns_length != raw_length:
        raise CorruptFrame("the frame is uncompressed, but its column lengths differ")
    if first_sequence < 0 or first_sequence + count - 1 > _MAX_INT64:
        raise CorruptFrame("the frame has invalid sequence numbers")
    span = last_time - first_time
    if not 0 <= span <= (MAX_TIME_SPAN_US if flags & HAS_TIMES else 0):
        raise CorruptFrame("the frame's publish times contradict each other")
    return header


def check_frame(frame: Buffer) -> FrameHeader:
    """Check a whole frame, as brokers do before they accept one, and return its header.

    Raises ``CorruptFrame`` if the length is wrong or the CRC does not match. Decodes no column.
    """
    header = parse_header(frame)
    check_body(frame, header)
    return header


def check_body(frame: Buffer, header: FrameHeader) -> None:
    """The part of ``check_frame`` that comes after ``parse_header``."""
    if len(frame) != header.size:
        raise CorruptFrame(f"the frame should have {header.size} bytes, got {len(frame)}")
    view = memoryview(frame)
    if crc32c(view[HEADER_SIZE:], crc32c(view[:_CRC_AT])) != header.crc:
        raise CorruptFrame("the frame's checksum does not match its bytes")
    if header.flags & (DELAYED | EXTENDED):
        read_due(frame, header)
        read_expiry(frame, header)


def pack_due(due_us: int) -> bytes:
    """Encode the delivery time that begins the body."""
    assert 0 < due_us <= MAX_TIME_US
    return _DUE.pack(due_us)


def read_due(frame: Buffer, header: FrameHeader) -> int | None:
    """The delivery time in microseconds since 1970, or None if the frame is not delayed.

    Raises ``CorruptFrame`` if it is invalid or missing.
    """
    if not header.flags & DELAYED:
        return None
    if len(frame) < HEADER_SIZE + _DUE.size:
        raise CorruptFrame("the frame ends before its delivery time")
    (due_us,) = _DUE.unpack_from(frame, HEADER_SIZE)
    if not 0 < due_us <= MAX_TIME_US:
        raise CorruptFrame("the frame has an invalid delivery time")
    return int(due_us)


def pack_expiry(expires_us: int) -> bytes:
    """Encode the extension of a frame that expires."""
    assert 0 < expires_us <= MAX_TIME_US
    return _EXTENSION.pack(EXPIRES, expires_us)


def read_expiry(frame: Buffer, header: FrameHeader) -> int | None:
    """The expiry time in microseconds since 1970, or None if the frame has none of its own.

    Raises ``CorruptFrame`` if it is invalid or missing.
    """
    if not header.flags & EXTENDED:
        return None
    at = header.extension_at
    if len(frame) < at + EXTENSION_SIZE:
        raise CorruptFrame("the frame ends before its expiry time")
    flags, expires_us = _EXTENSION.unpack_from(frame, at)
    if flags != EXPIRES:
        raise CorruptFrame("the frame has an extension that this version does not support")
    if not 0 < expires_us <= MAX_TIME_US:
        raise CorruptFrame("the frame has an invalid expiry time")
    return int(expires_us)


def assign(frame: bytearray | memoryview, base_offset: int, epoch: int) -> None:
    """Set the broker's fields of the header in place. The CRC does not cover them."""
    _BROKER_PART.pack_into(frame, _BROKER_AT, base_offset, epoch)
