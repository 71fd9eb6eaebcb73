"""Erases records from frames, by key or offset: their offsets stay, their content goes.

In place of an erased record is one with the same offset, sequence and publish time, without key and
payload, and with the attribute ``sulina.erased``, which says when. All other records stay as they
are; a digest over them, before and after, proves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import numpy as np
import pyarrow as pa

from sulina.errors import CorruptFrame
from sulina.lake.buffers import integers, present
from sulina.lake.digest import Digest
from sulina.lake.newest import Flags
from sulina.lake.schema import ATTRIBUTES, KEY, OFFSET, PAYLOAD
from sulina.wire import header as h
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_frame

ERASED: Final = "sulina.erased"
"""The attribute of records that were erased; its value is the time, in ISO 8601."""
ERASABLE: Final = (OFFSET, KEY, PAYLOAD, ATTRIBUTES)
"""The columns that ``erasable`` needs."""


def key_digest(key: bytes) -> str:
    """By what a key is named where the key itself must not be written: SHA-256, hexadecimal."""
    return sha256(key).hexdigest()


def with_keys(rows: pa.Table, key_digests: frozenset[str]) -> Flags:
    """Which rows have a key with one of these digests."""
    keys = rows.column(KEY).combine_chunks().dictionary_encode()
    wanted = [
        key is not None and key_digest(key) in key_digests for key in keys.dictionary.to_pylist()
    ]
    found = np.zeros(len(rows), np.bool_)
    if any(wanted):
        there = present(keys.indices)
        codes = keys.indices.fill_null(0).to_numpy()
        found = there & np.array(wanted)[codes]
    return found


def erasable(
    rows: pa.Table, key_digests: frozenset[str], offsets: Sequence[tuple[int, int]] = ()
) -> Flags:
    """Which rows have one of these keys, if any are given, and are at one of these offsets, if any
    are given; without those that were erased before.

    ``offsets`` are ranges in order, without overlaps. For them ``rows`` needs ``ERASABLE``, for
    keys alone only these: an erased record has none.
    """
    found = with_keys(rows, key_digests) if key_digests else np.ones(len(rows), np.bool_)
    if offsets:
        there = integers(rows.column(OFFSET).combine_chunks())
        ends = np.array(offsets, np.int64).reshape(-1, 2)
        at = np.searchsorted(ends[:, 0], there, side="right") - 1
        found &= (at >= 0) & (there <= ends[np.maximum(at, 0), 1])
        found &= ~_erased_before(rows, found)
    return found


def _erased_before(rows: pa.Table, among: Flags) -> Flags:
    """Which of some rows have neither key nor payload, and the attribute."""
    attributes = rows.column(ATTRIBUTES).combine_chunks()
    keys, payloads = (rows.column(name).combine_chunks() for name in (KEY, PAYLOAD))
    found = np.zeros(len(rows), np.bool_)
    for at in np.flatnonzero(among).tolist():
        empty = keys[at].as_py() is None and not payloads[at].as_py()
        found[at] = empty and ERASED in dict(attributes[at].as_py() or ())
    return found


def digest_of_others(digest: Digest, rows: pa.Table, erased: Flags) -> None:
    """Add all rows but the erased ones to a digest."""
    digest.add(rows.filter(pa.array(~erased)) if erased.any() else rows)


def erase_records(frames: Sequence[bytes], erased: Flags, when: str) -> list[bytes]:
    """The frames with the records that ``erased`` marks, counted over all frames, erased.

    Raises ``CorruptFrame`` if a frame with such a record cannot be decoded.
    """
    left: list[bytes] = []
    at = 0
    for data in frames:
        count = h.parse_header(data).count
        marked = np.flatnonzero(erased[at : at + count])
        left.append(_without(data, marked.tolist(), when) if len(marked) else data)
        at += count
    assert at == len(erased), "one mark for each record"
    return left


def _without(data: bytes, marked: Sequence[int], when: str) -> bytes:
    frame = Frame(data)
    header = frame.header
    payloads = list(frame.payloads)
    keys: list[bytes | None] = list(frame.keys or [None] * frame.count)
    attributes = list(frame.attributes or [{} for _ in range(frame.count)])
    for index in marked:
        payloads[index], keys[index], attributes[index] = b"", None, {ERASED: when}
    again = bytearray(
        encode_frame(
            Origin(frame.producer_name, header.schema_id, header.schema_version),
            header.first_sequence,
            payloads,
            frame.times,
            keys=keys,
            attributes=attributes,
            due_us=frame.due_us,
            expires_us=frame.expires_us,
            producers=frame.producers if header.flags & h.HAS_PRODUCERS else None,
        )
    )
    if h.parse_header(again).producer_id != header.producer_id:
        raise CorruptFrame("the frame's producer id does not follow from its producer's name")
    h.assign(again, header.base_offset, header.epoch)
    return bytes(again)
