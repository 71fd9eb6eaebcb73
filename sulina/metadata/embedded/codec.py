"""The bytes of the store's files: records with a checksum, and the changes inside them.

A record is a header (magic, payload length, sequence number, CRC32C of everything else) and a
payload. A log is a sequence of batch records, each with the changes of one group commit, made
durable before the next was written. A snapshot is one record with the changes that build a state
from nothing. Little-endian throughout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from crc32c import crc32c

from sulina.errors import CorruptEntry
from sulina.metadata.embedded.state import (
    Change,
    KeyRemoved,
    KeyStored,
    LeaseGranted,
    LeaseRevoked,
    StoreState,
)
from sulina.metadata.store import KeyValue

BATCH = b"SMB1"
SNAPSHOT = b"SMS1"

_HEADER = struct.Struct("<4sIQ")
_CRC = struct.Struct("<I")
_OVERHEAD = _HEADER.size + _CRC.size
_CHANGE = struct.Struct("<BHIqqqq")
_SNAPSHOT = struct.Struct("<qq")


class _Kind(IntEnum):
    STORED = 1
    REMOVED = 2
    GRANTED = 3
    REVOKED = 4


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record that passed its checksum."""

    sequence: int
    payload: memoryview
    end: int
    """Where the next record begins."""


def encode_record(magic: bytes, sequence: int, payload: bytes) -> bytes:
    """The bytes of a record."""
    header = _HEADER.pack(magic, len(payload), sequence)
    return b"".join((header, _CRC.pack(crc32c(payload, crc32c(header))), payload))


def read_record(magic: bytes, data: memoryview, start: int) -> LogRecord | None:
    """The record at ``start``, or None if it is incomplete or damaged."""
    body = start + _OVERHEAD
    if body > len(data):
        return None
    found, length, sequence = _HEADER.unpack_from(data, start)
    if found != magic or body + length > len(data):
        return None
    payload = data[body : body + length]
    (crc,) = _CRC.unpack_from(data, start + _HEADER.size)
    if crc != crc32c(payload, crc32c(data[start : start + _HEADER.size])):
        return None
    return LogRecord(sequence, payload, body + length)


def find_record(magic: bytes, data: bytes, start: int) -> LogRecord | None:
    """The first intact record at or after ``start``."""
    view = memoryview(data)
    position = data.find(magic, start)
    while position >= 0:
        record = read_record(magic, view, position)
        if record is not None:
            return record
        position = data.find(magic, position + 1)
    return None


def encode_change(change: Change) -> bytes:
    """The bytes of one change; no separator is needed."""
    match change:
        case KeyStored(item):
            key = item.key.encode()
            head = _CHANGE.pack(
                _Kind.STORED,
                len(key),
                len(item.value),
                item.create_revision,
                item.mod_revision,
                item.version,
                item.lease,
            )
            return b"".join((head, key, item.value))
        case KeyRemoved(name, mod_revision):
            key = name.encode()
            return _CHANGE.pack(_Kind.REMOVED, len(key), 0, 0, mod_revision, 0, 0) + key
        case LeaseGranted(lease, ttl):
            return _CHANGE.pack(_Kind.GRANTED, 0, 0, ttl, 0, 0, lease)
        case LeaseRevoked(lease):
            return _CHANGE.pack(_Kind.REVOKED, 0, 0, 0, 0, 0, lease)


def decode_changes(data: memoryview) -> Iterator[Change]:
    """The changes in ``data``. Raises ``CorruptEntry``."""
    position = 0
    while position < len(data):
        try:
            kind, key_length, value_length, first, mod_revision, version, lease = (
                _CHANGE.unpack_from(data, position)
            )
            position += _CHANGE.size
            key = str(data[position : position + key_length], "utf-8")
            position += key_length
            value = bytes(data[position : position + value_length])
            position += value_length
        except (struct.error, UnicodeDecodeError):
            raise CorruptEntry(
                "a metadata record has unreadable changes: restore the folder from a backup"
            ) from None
        match kind:
            case _Kind.STORED:
                yield KeyStored(KeyValue(key, value, first, mod_revision, version, lease))
            case _Kind.REMOVED:
                yield KeyRemoved(key, mod_revision)
            case _Kind.GRANTED:
                yield LeaseGranted(lease, first)
            case _Kind.REVOKED:
                yield LeaseRevoked(lease)
            case _:
                raise CorruptEntry(
                    f"a metadata record has a change of unknown kind {kind}: "
                    "a newer version wrote it, use that one"
                )


def snapshot_head(state: StoreState) -> bytes:
    """The start of a snapshot's payload; the changes of ``snapshot_changes`` follow."""
    return _SNAPSHOT.pack(state.revision, state.last_lease)


def snapshot_changes(state: StoreState) -> Iterable[Change]:
    """The changes that build ``state`` from nothing."""
    for lease, ttl in state.leases.items():
        yield LeaseGranted(lease, ttl)
    for item in state.scan(""):
        yield KeyStored(item)


def decode_snapshot(payload: memoryview) -> StoreState:
    """The state that a snapshot's payload describes."""
    try:
        revision, last_lease = _SNAPSHOT.unpack_from(payload)
    except struct.error:
        raise CorruptEntry(
            "the metadata snapshot is too short: restore the folder from a backup"
        ) from None
    state = StoreState(revision, last_lease)
    for change in decode_changes(payload[_SNAPSHOT.size :]):
        state.apply(change)
    return state
