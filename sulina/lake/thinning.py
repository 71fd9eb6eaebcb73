"""Frames without some of their records, from the rows of a row group, for all frames at once.

A frame's records have consecutive offsets. So what is left of a frame becomes one frame for each
run of consecutive records; sequences, times, epochs and key slots stay. A frame that is stored
whole, because its layout is unusual, stays whole as long as one of its records is kept.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sulina.errors import CorruptEntry
from sulina.lake import schema
from sulina.lake.buffers import integers, octets, offsets, present
from sulina.lake.frame_value import VALUE, VALUE_SIZE, VERBATIM, read_heads
from sulina.lake.newest import Flags
from sulina.lake.rebuild import rebuild_frames
from sulina.lake.runs import Ints, copy_runs, starts_of
from sulina.wire import header as h
from sulina.wire.tombstones import TOMBSTONE


def tombstones(rows: pa.Table) -> Flags:
    """Which rows are tombstones: a key, an empty payload, and the attribute."""
    payloads, keys = (rows.column(name) for name in (schema.PAYLOAD, schema.KEY))
    empty = pc.and_kleene(pc.equal(pc.binary_length(payloads), 0), pc.is_valid(keys))
    found: Flags = pc.fill_null(empty, False).to_numpy()
    marked = np.zeros(len(rows), np.bool_)
    maps = rows.column(schema.ATTRIBUTES).combine_chunks()
    if found.any() and maps.null_count < len(maps):
        bounds = offsets(maps)
        names = maps.keys.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
        places = np.flatnonzero(pc.equal(names, TOMBSTONE).to_numpy(zero_copy_only=False))
        marked[np.searchsorted(bounds - bounds[0], places, side="right") - 1] = True
    return found & marked


def thin_frames(rows: pa.Table, kept: Flags) -> tuple[list[bytes], int]:
    """The frames of ``rows`` with the ``kept`` records only, and how many records they have.

    ``rows`` has whole frames. More than the ``kept`` ones are left of frames that stay whole.

    Raises ``CorruptEntry`` if the rows do not begin with a frame.
    """
    if not kept.any():
        return [], 0
    values = rows.column(schema.FRAME).combine_chunks()
    is_first = present(values)
    if not is_first[0]:
        raise CorruptEntry("the rows of the object do not start with a frame")
    frames = _Frames(values, is_first)
    kept = kept | frames.of_rows(frames.whole & np.logical_or.reduceat(kept, frames.firsts))
    begins = kept & is_first
    begins[1:] |= kept[1:] & ~kept[:-1]
    at = np.flatnonzero(begins)  # the first row of each run
    left = rows.filter(pa.array(kept))
    new_at = (np.cumsum(kept) - 1)[at]  # the same rows among those that are left
    lengths = np.diff(new_at, append=len(left))
    column = frames.values(left, at, new_at, lengths)
    place = left.schema.get_field_index(schema.FRAME)
    return rebuild_frames(left.set_column(place, schema.FRAME, column), seal=True), len(left)


class _Frames:
    """The frames of rows, as their column ``frame`` has them."""

    def __init__(self, values: pa.Array, is_first: Flags) -> None:
        self.firsts = np.flatnonzero(is_first)
        bounds = offsets(values).astype(np.int64)
        self._data = octets(values)
        self._starts = bounds[self.firsts]
        self._lengths = bounds[self.firsts + 1] - self._starts
        if (self._lengths < VALUE_SIZE).any():
            raise CorruptEntry("a value in the object's frame column is too short")
        self._heads = read_heads(self._data, self._starts)
        self._number = np.cumsum(is_first) - 1
        self.whole: Flags = self._heads["kind"] == VERBATIM

    def of_rows(self, of_frames: NDArray[np.bool_]) -> Flags:
        """What holds for frames, for each of their rows."""
        found: Flags = of_frames[self._number]
        return found

    def values(self, left: pa.Table, at: Ints, new_at: Ints, lengths: Ints) -> pa.Array:
        """The column ``frame`` of the rows that are left.

        ``at`` and ``new_at`` are the first rows of runs before and after, ``lengths`` their sizes.
        """
        frames = self._number[at]
        whole = self.whole[frames]
        heads = self._heads[frames].copy()
        flags = _flags(left, new_at, heads["flags"].astype(np.int64))
        heads["flags"] = np.where(whole, heads["flags"], flags)
        keyed = ~whole & (flags & h.HAS_KEYS != 0)
        had_keys = self._heads["flags"][frames] & h.HAS_KEYS != 0
        tails = np.where(whole, self._lengths[frames] - VALUE_SIZE, keyed * had_keys * lengths)
        skipped = np.where(whole, 0, at - self.firsts[frames])
        extensions = h.EXTENSION_SIZE * (~whole & (heads["extended"] != 0))
        places = starts_of(tails + extensions + VALUE_SIZE)
        out = np.zeros(int(places[-1]), np.uint8)
        fixed = np.full(len(at), VALUE_SIZE)
        copy_runs(out, places[:-1], heads.view(np.uint8), VALUE_SIZE * np.arange(len(at)), fixed)
        sources, targets = self._starts[frames] + VALUE_SIZE, places[:-1] + VALUE_SIZE
        copy_runs(out, targets, self._data, sources, extensions)
        copy_runs(out, targets + extensions, self._data, sources + extensions + skipped, tails)
        sizes = np.zeros(len(left), np.int64)
        sizes[new_at] = np.diff(places)
        valid = np.zeros(len(left), np.bool_)
        valid[new_at] = True
        buffers = [
            pa.py_buffer(np.packbits(valid, bitorder="little")),
            pa.py_buffer(starts_of(sizes).astype(np.int32)),
            pa.py_buffer(out),
        ]
        return pa.Array.from_buffers(pa.binary(), len(left), buffers)


def _flags(left: pa.Table, firsts: Ints, flags: Ints) -> Ints:
    """The flags of each run: a column is left out that none of its records needs."""
    keys = left.column(schema.KEY).combine_chunks()
    maps = left.column(schema.ATTRIBUTES).combine_chunks()
    times = integers(left.column(schema.PUBLISH_TIME).combine_chunks())
    differ = np.minimum.reduceat(times, firsts) != np.maximum.reduceat(times, firsts)
    has = {
        h.HAS_KEYS: np.logical_or.reduceat(present(keys), firsts),
        h.HAS_ATTRIBUTES: np.logical_or.reduceat(
            present(maps) & (np.diff(offsets(maps)) > 0), firsts
        ),
        h.HAS_TIMES: differ,
    }
    for flag, needed in has.items():
        flags = np.where(needed, flags | flag, flags & ~flag)
    return flags


assert VALUE.itemsize == VALUE_SIZE
