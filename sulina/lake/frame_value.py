"""The column ``frame``: what a replay needs to rebuild a frame beyond its records' columns.

A value consists of 24 bytes, little-endian, and a tail::

    0  B  kind          8  Q  producer id
    1  B  flags        16  q  epoch
    2  H  1 if the frame has an extension
    4  I  CRC32C of the rebuilt frame

Kind 0: the frame is rebuilt from the columns, uncompressed, and must have that CRC32C; the tail
contains its extension, if it has one, and the key slots of its records, if it has keys. Kind 1: the
tail is the whole frame, because its layout cannot be derived from the columns (this is rare).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sulina.lake.frame_columns import BinaryColumn
from sulina.lake.frame_table import FrameTable
from sulina.lake.runs import Bytes, Ints, copy_runs, runs, starts_of
from sulina.wire.header import EXTENDED, EXTENSION_SIZE, HAS_KEYS

REBUILT: Final = 0
VERBATIM: Final = 1

VALUE: Final = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("extended", "<u2"),
        ("crc", "<u4"),
        ("producer_id", "<u8"),
        ("epoch", "<i8"),
    ]
)
VALUE_SIZE: Final = VALUE.itemsize
_COPIED: Final = ("flags", "crc", "producer_id", "epoch")


def pack_values(table: FrameTable, verbatim: Mapping[int, bytes]) -> BinaryColumn:
    """One value per frame of ``table``; the frames in ``verbatim``, by number, are kept whole."""
    heads = np.zeros(len(table), VALUE)
    for name in _COPIED:
        heads[name] = table.headers[name]
    slots = table.counts * table.has(HAS_KEYS)
    heads["extended"] = table.has(EXTENDED)
    extensions = EXTENSION_SIZE * table.has(EXTENDED)
    tails = slots + extensions
    for number, frame in verbatim.items():
        heads["kind"][number] = VERBATIM
        tails[number] = len(frame)
    lengths = tails + VALUE_SIZE
    at = starts_of(lengths)
    out = np.empty(int(at[-1]), np.uint8)
    at = at[:-1]
    head_lengths = np.full(len(table), VALUE_SIZE)
    out[runs(at, head_lengths)] = heads.view(np.uint8)
    if tails.any():
        rebuilt = np.flatnonzero((heads["kind"] == REBUILT) & (tails > 0))
        places = at[rebuilt] + VALUE_SIZE
        for starts, sizes in ((table.extensions_at, extensions), (table.slots_at, slots)):
            copy_runs(out, places, table.data, starts[rebuilt], sizes[rebuilt])
            places = places + sizes[rebuilt]
    for number, frame in verbatim.items():
        start = int(at[number]) + VALUE_SIZE
        out[start : start + len(frame)] = np.frombuffer(frame, np.uint8)
    return BinaryColumn(lengths, out)


def read_heads(data: Bytes, starts: Ints) -> NDArray[np.void]:
    """The fixed part of the values that start at ``starts``."""
    octets = data[starts[:, None] + np.arange(VALUE_SIZE)]
    heads: NDArray[np.void] = octets.view(VALUE)[:, 0]
    return heads
