"""Ranges of bytes as Arrow arrays, all at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from sulina.lake.buffers import octets, offsets
from sulina.lake.runs import Bytes, Ints
from sulina.lake.typed.words import ROOM, Flags, Octets

_AT_ONCE: Final = 8192


def bitmap(present: Flags) -> pa.Buffer | None:
    """Arrow's validity bitmap; None if all are present."""
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def take_spans(data: Bytes, starts: Ints, ends: Ints, of_type: pa.DataType) -> pa.Array:
    """The bytes from ``starts`` to ``ends`` as a binary or string array, copied.

    The ranges are ascending, do not overlap, and are within ``data``, which has less than 2 GiB.
    """
    # For Arrow, the ranges and the gaps between them are the values of one array: taking every
    # other of them copies natively.
    if not len(starts):
        return pa.array([], of_type)
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts
    bounds[1::2] = ends
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    values = pa.Array.from_buffers(of_type, len(bounds) - 1, buffers)
    return values.take(pa.array(np.arange(0, len(bounds), 2, dtype=np.int32)))


def with_nulls(values: pa.Array, present: Flags) -> pa.Array:
    """The same values, of a type without children, with nulls where they are not present."""
    if present.all():
        return values
    assert values.offset == 0 and not values.null_count
    buffers = [bitmap(present), *values.buffers()[1:]]
    return pa.Array.from_buffers(values.type, len(values), buffers)


def is_utf8(data: Bytes) -> bool:
    """Whether these bytes are UTF-8."""
    if not len(data) or int(data.max()) < 0x80:
        return True
    ends = np.array([0, len(data)], np.int32)
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def used_bytes(values: pa.Array) -> tuple[Bytes, Ints]:
    """The bytes of a binary or string array, and where each value starts and the last one ends."""
    bounds = offsets(values)
    return octets(values)[bounds[0] : bounds[-1]], (bounds - bounds[0]).astype(np.int64)


def payload_turns(payloads: pa.Array, room: int = ROOM) -> Iterator[tuple[Octets, Ints, Ints]]:
    """Payloads without nulls, some at a time: their bytes, and where each starts and ends.

    So many that what is computed for them stays in the processor's cache.
    """
    for start in range(0, len(payloads), _AT_ONCE):
        data, bounds = used_bytes(payloads.slice(start, _AT_ONCE))
        yield Octets(data, room), bounds[:-1], bounds[1:]
