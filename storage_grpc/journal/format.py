"""The format of journal files.

A file starts with two copies of its header, in different 4 KiB blocks. Records follow, 8-byte
aligned: an image (64 bytes that describe the record), the payload, zeros up to the alignment, and
the same image again. An image has the position of its record and the file's random salt, both
covered by a checksum, so other bytes (of an older file, or of a payload that looks like a record)
are never taken for one. Because the image is stored twice, damage in one place does not hide which
entry was hit. All numbers are little-endian.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from crc32c import crc32c

from sulina.runtime.seam import Buffer

BLOCK = 4096
DATA_START = 2 * BLOCK
ALIGN = 8
IMAGE_SIZE = 64
SALT_OFFSET = 8
OVERHEAD = 2 * IMAGE_SIZE

CONTROL_PAYLOAD = bytes(BLOCK)
"""Pads fences and deletes, so that one bad block can't damage both of their images."""
CONTROL_CRC = crc32c(CONTROL_PAYLOAD)

_FILE_MAGIC = b"SULJRNL1"
_HEADER = Struct("<8sIQQ16s")
_CRC = Struct("<I")
_IMAGE_MAGIC = 0x4A53
_IMAGE = Struct("<HHQQQQqqII")
_STATE = Struct("<III")


class RecordKind(IntEnum):
    """The kind of a record."""

    ENTRY = 1
    FENCE = 2
    """``ledger`` is fenced; ``lac`` is its highest known LAC."""
    DELETE = 3
    """``ledger`` is deleted."""
    DROP = 4
    """The journal file with the sequence ``ledger`` is about to be removed."""
    STATE = 5
    """The payload is a :class:`JournalState`."""
    STOP = 6
    """The journal was closed; nothing follows in this file."""


class FileHeader(NamedTuple):
    """The identity of one journal file."""

    sequence: int
    salt: int
    incarnation: bytes


class Image(NamedTuple):
    """A record without its payload."""

    kind: int
    salt: int
    position: int
    """Where the record starts in its file."""
    synced: int
    """Everything in the file before this position was durable when the record was written."""
    ledger: int
    entry: int
    lac: int
    length: int
    """Bytes of payload."""
    payload_crc: int

    @property
    def end(self) -> int:
        """Where the next record starts."""
        return self.position + record_size(self.length)


class KnownFile(NamedTuple):
    """A journal file as described in a later one."""

    sequence: int
    salt: int
    end: int


@dataclass(slots=True)
class JournalState:
    """Fences, deletes and files: written at the start of every file, so that older ones need not
    be read for them."""

    files: list[KnownFile] = field(default_factory=list)
    """All other files of the journal."""
    fenced: dict[int, int] = field(default_factory=dict)
    """The LAC of every fenced ledger."""
    deleted: list[int] = field(default_factory=list)
    """Deleted ledgers, oldest first."""


def file_name(sequence: int) -> str:
    return f"journal-{sequence:016x}.log"


def index_name(sequence: int) -> str:
    return f"journal-{sequence:016x}.idx"


def record_size(length: int) -> int:
    """The size of a record with ``length`` bytes of payload."""
    return OVERHEAD + (length + 7 & -ALIGN)


def pack_header(header: FileHeader) -> bytes:
    """The first ``DATA_START`` bytes of a file: the header, twice."""
    body = _HEADER.pack(_FILE_MAGIC, 1, header.sequence, header.salt, header.incarnation)
    copy = (body + _CRC.pack(crc32c(body))).ljust(BLOCK, b"\0")
    return copy + copy


def unpack_header(start: bytes) -> FileHeader | None:
    """The header in the first bytes of a file; None if both copies are damaged."""
    for offset in (0, BLOCK):
        body = start[offset : offset + _HEADER.size]
        crc = start[offset + _HEADER.size : offset + _HEADER.size + _CRC.size]
        if len(crc) == _CRC.size and _CRC.unpack(crc)[0] == crc32c(body):
            magic, version, sequence, salt, incarnation = _HEADER.unpack(body)
            if magic == _FILE_MAGIC and version == 1:
                return FileHeader(sequence, salt, incarnation)
    return None


def pack_image(
    kind: int,
    salt: int,
    position: int,
    synced: int,
    ledger: int,
    entry: int,
    lac: int,
    length: int,
    payload_crc: int,
) -> bytes:
    body = _IMAGE.pack(
        _IMAGE_MAGIC, kind, salt, position, synced, ledger, entry, lac, length, payload_crc
    )
    return _CRC.pack(crc32c(body)) + body


def unpack_image(data: Buffer, offset: int, salt: int) -> Image | None:
    """The image at ``offset``; None if there is no intact one with this salt and valid ids."""
    body = memoryview(data)[offset + _CRC.size : offset + IMAGE_SIZE]
    if len(body) != _IMAGE.size:
        return None
    magic, *fields = _IMAGE.unpack(body)
    if magic != _IMAGE_MAGIC or fields[1] != salt:
        return None
    if _CRC.unpack_from(data, offset)[0] != crc32c(body):
        return None
    image = Image(*fields)
    return image if image.entry >= 0 and image.lac >= -1 else None


def pack_state(state: JournalState) -> bytes:
    return b"".join(
        (
            _STATE.pack(len(state.files), len(state.fenced), len(state.deleted)),
            pack_array("Q", (number for file in state.files for number in file)),
            pack_array("Q", state.fenced.keys()),
            pack_array("q", state.fenced.values()),
            pack_array("Q", state.deleted),
        )
    )


def unpack_state(data: Buffer) -> JournalState | None:
    """The state in the payload of a record; None if it is invalid."""
    try:
        files, fenced, deleted = _STATE.unpack_from(data, 0)
        numbers, at = unpack_array("Q", data, _STATE.size, 3 * files)
        ledgers, at = unpack_array("Q", data, at, fenced)
        lacs, at = unpack_array("q", data, at, fenced)
        gone, at = unpack_array("Q", data, at, deleted)
    except (StructError, ValueError):
        return None
    return JournalState(
        files=[KnownFile(*numbers[i : i + 3]) for i in range(0, 3 * files, 3)],
        fenced=dict(zip(ledgers, lacs, strict=True)),
        deleted=gone.tolist(),
    )


def pack_array(code: str, numbers: Iterable[int]) -> bytes:
    """Numbers as bytes; ``code`` is a type code of ``array``."""
    packed = numbers if isinstance(numbers, array) else array(code, numbers)
    if sys.byteorder == "big":
        packed = packed[:]
        packed.byteswap()
    return packed.tobytes()


def unpack_array(code: str, data: Buffer, offset: int, count: int) -> tuple[array[int], int]:
    """``count`` numbers and where they end. Raises ``ValueError`` if ``data`` is too short."""
    numbers: array[int] = array(code)
    end = offset + count * numbers.itemsize
    if end > len(data):
        raise ValueError("truncated")
    numbers.frombytes(memoryview(data)[offset:end])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers, end
