"""Selections of a frame's records: bit masks, kept as an int (bit i is record i).

Shared and KeyShared deliveries, redeliveries and acknowledgements all refer to parts of a frame.
Set operations on masks are native for the whole frame, and one bit per record is small on the wire.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from sulina.errors import ProtocolError
from sulina.wire.header import MAX_RECORDS

_T = TypeVar("_T")
_ONES = re.compile("1+")


def whole(count: int) -> int:
    """The mask of all records of a frame with ``count`` records."""
    return (1 << count) - 1


def span(first: int, last: int) -> int:
    """The mask of records ``first`` to ``last``, inclusive."""
    return ((1 << (last - first + 1)) - 1) << first if last >= first else 0


def first(mask: int) -> int:
    """The number of the first record in ``mask``, which must not be empty."""
    return (mask & -mask).bit_length() - 1


def lowest(mask: int, limit: int) -> int:
    """The mask of the first ``limit`` records of ``mask``."""
    if mask.bit_count() <= limit:
        return mask
    low, high = 0, mask.bit_length()
    while low < high:  # the shortest prefix that holds `limit` set bits
        middle = (low + high) // 2
        if (mask & whole(middle)).bit_count() < limit:
            low = middle + 1
        else:
            high = middle
    return mask & whole(low)


def of_slots(slots: bytes, table: bytes) -> int:
    """The mask of records whose key slot is selected by ``table`` (see ``slot_table``)."""
    return int(slots.translate(table)[::-1], 2) if slots else 0


def slot_table(chosen: Iterable[int]) -> bytes:
    """A table for :func:`of_slots` that selects these slots."""
    table = bytearray(b"0" * 256)
    for slot in chosen:
        table[slot] = 0x31
    return bytes(table)


def indices(mask: int) -> list[int]:
    """The numbers of the selected records, ascending."""
    return [index for first, last in ranges(mask) for index in range(first, last + 1)]


def ranges(mask: int) -> Iterator[tuple[int, int]]:
    """The runs of selected records as (first, last), ascending."""
    for match in _ONES.finditer(bin(mask)[:1:-1]):
        yield match.start(), match.end() - 1


def pick(values: Sequence[_T], mask: int) -> list[_T]:
    """The selected ``values``."""
    return [value for first, last in ranges(mask) for value in values[first : last + 1]]


def to_bytes(mask: int) -> bytes:
    """Encode a mask for the wire."""
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def from_bytes(data: bytes) -> int:
    """Decode a mask. Raises ``ProtocolError`` if it is longer than any frame."""
    if len(data) > MAX_RECORDS // 8:
        raise ProtocolError(f"a selection must not exceed {MAX_RECORDS} records")
    return int.from_bytes(data, "little")
