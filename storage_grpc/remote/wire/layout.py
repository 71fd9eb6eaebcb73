"""Encodes entries and outcomes, and decodes them without a copy.

A message is a protobuf message with one bytes field. Its protobuf framing is encoded and checked
here by hand, so that a payload is copied once by the sender and not at all by the receiver. The
layout is specified in ``storage.proto``.

Any bytes either decode or raise ``DamagedMessage``: never a crash, never a read past the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from storage_grpc.entries import Entry
from sulina.runtime.seam import Buffer

_FIELDS = struct.Struct("<QqqII")
_CRC = struct.Struct("<I")
_OUTCOME = struct.Struct("<QqHH")
_TAG = b"\x0a"
"""Field 1, length-delimited: the protobuf tag of the only field."""
_LONGEST_VARINT = 5

ENTRY_OVERHEAD = _FIELDS.size + _CRC.size
"""Bytes before each payload."""
RECOVERY = 1
"""The flag of entries that a recovery writes."""
TRACED = 2
"""The flag of entries whose outcome tells when they passed each stage; only for nodes that say so
in their ``HelloReply``."""
MAX_MESSAGE = 1000
"""Error messages are cut to this many bytes."""


class DamagedMessage(Exception):
    """Bytes that are not a message of this layout, or were changed in transit."""


class ReceivedEntry(NamedTuple):
    """One entry of a received message."""

    ledger: int
    entry: int
    lac: int
    flags: int
    payload: memoryview


class AppendOutcome(NamedTuple):
    """The outcome of one append."""

    ledger: int
    entry: int
    code: int
    message: str


def entry_head(ledger: int, entry: int, lac: int, flags: int, payload: Buffer) -> bytes:
    """The bytes before a payload. The ids must be in range."""
    fields = _FIELDS.pack(ledger, entry, lac, flags, memoryview(payload).nbytes)
    return fields + _CRC.pack(crc32c(payload, crc32c(fields)))


def pack(parts: Sequence[Buffer], size: int) -> bytes:
    """One message of ``parts``, whose total size is ``size`` bytes."""
    return b"".join((_TAG, _varint(size), *parts))


def pack_entries(entries: Sequence[Entry]) -> bytes:
    """The answer to a read."""
    parts: list[Buffer] = []
    size = 0
    for entry in entries:
        parts.append(entry_head(entry.ledger, entry.entry, entry.lac, 0, entry.payload))
        parts.append(entry.payload)
        size += ENTRY_OVERHEAD + len(entry.payload)
    return pack(parts, size)


def unpack_entries(message: bytes) -> list[ReceivedEntry]:
    """All entries of a message, as views of it, with verified checksums."""
    data = _content(message)
    entries: list[ReceivedEntry] = []
    at = 0
    while at < len(data):
        start = at + ENTRY_OVERHEAD
        if start > len(data):
            raise DamagedMessage("a message ends within an entry's head")
        ledger, number, lac, flags, length = _FIELDS.unpack_from(data, at)
        end = start + length
        if end > len(data):
            raise DamagedMessage("a message ends within an entry")
        payload = data[start:end]
        (crc,) = _CRC.unpack_from(data, at + _FIELDS.size)
        if crc32c(payload, crc32c(data[at : at + _FIELDS.size])) != crc:
            raise DamagedMessage("an entry was damaged in transit")
        if flags & ~(RECOVERY | TRACED):
            raise DamagedMessage(f"an entry has unknown flags ({flags:#x})")
        entries.append(ReceivedEntry(ledger, number, lac, flags, payload))
        at = end
    return entries


def pack_outcome(ledger: int, entry: int, code: int, message: str) -> bytes:
    """One outcome; a message has one or more."""
    text = message.encode()[:MAX_MESSAGE] if message else b""
    return _OUTCOME.pack(ledger, entry, code, len(text)) + text


def unpack_outcomes(message: bytes) -> Iterator[AppendOutcome]:
    """The outcomes of a message, in order."""
    data = _content(message)
    at = 0
    while at < len(data):
        if at + _OUTCOME.size > len(data):
            raise DamagedMessage("a message ends within an outcome")
        ledger, entry, code, length = _OUTCOME.unpack_from(data, at)
        at += _OUTCOME.size
        if at + length > len(data):
            raise DamagedMessage("a message ends within an outcome's text")
        text = str(data[at : at + length], "utf-8", "replace") if length else ""
        at += length
        yield AppendOutcome(ledger, entry, code, text)


def _varint(number: int) -> bytes:
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)


def _content(message: bytes) -> memoryview:
    """The only field of a protobuf message; empty if the message is."""
    if not message:
        return memoryview(b"")
    if message[:1] != _TAG:
        raise DamagedMessage("a message does not start with its field")
    size = shift = 0
    for at in range(1, min(1 + _LONGEST_VARINT, len(message))):
        octet = message[at]
        size |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            if at + 1 + size != len(message):
                break
            return memoryview(message)[at + 1 :]
    raise DamagedMessage("a message has another length than it states")
