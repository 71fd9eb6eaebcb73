"""Rebuilds frames from the columns of a row group, without a Python loop over the records.

The counterpart of ``arrow``: computes the sizes of all frames at once and fills one buffer. Each
frame must then have the checksum that its producer or the encoder computed, so the result is either
the published frames (compressed ones decompressed) or an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sulina.errors import CorruptEntry
from sulina.lake import schema
from sulina.lake.buffers import integers, octets, offsets, present
from sulina.lake.frame_table import HEADER, checksums, write_headers
from sulina.lake.frame_value import VALUE_SIZE, VERBATIM, read_heads
from sulina.lake.runs import Bytes, Ints, padded, runs, spread, starts_of
from sulina.lake.sections import Bits, CopiedRuns, Int32s, Section, total, values
from sulina.wire import header as h

_LARGE: Final = 4096
"""From this mean payload size per frame, joining the parts of each frame is faster."""


@dataclass(frozen=True, slots=True)
class _Binary:
    """A column of values of variable length in Arrow's layout."""

    offsets: Ints
    data: Bytes

    @classmethod
    def of(cls, array: pa.Array) -> _Binary:
        return cls(offsets(array).astype(np.int64), octets(array))


def rebuild_frames(rows: pa.Table, *, seal: bool = False) -> list[bytes]:
    """The frames of ``rows``, which must contain whole frames, in order, with all columns.

    Raises ``CorruptEntry`` if a frame differs from the published one. With ``seal``, frames get
    checksums of their own instead: their records were changed on purpose.
    """
    columns = {name: _combined(rows, name) for name in schema.OBJECT_SCHEMA.names}
    firsts = np.flatnonzero(present(columns[schema.FRAME]))
    if not len(firsts) or firsts[0] != 0:
        raise CorruptEntry("the rows of the object do not start with a frame")
    counts = np.diff(firsts, append=len(rows))
    frame_values = _Binary.of(columns[schema.FRAME])
    starts = frame_values.offsets[firsts]
    lengths = frame_values.offsets[firsts + 1] - starts
    if (lengths < VALUE_SIZE).any():
        raise CorruptEntry("a value in the object's frame column is too short")
    heads = read_heads(frame_values.data, starts)
    whole = heads["kind"] == VERBATIM
    again = np.flatnonzero(~whole)
    rebuilt = _Rebuilding(
        columns,
        firsts[again],
        counts[again],
        heads[again],
        CopiedRuns(frame_values.data, starts[again] + VALUE_SIZE, lengths[again] - VALUE_SIZE),
    ).frames(seal=seal)
    if not whole.any():
        return rebuilt
    data = frame_values.data.data
    kept = {
        int(number): bytes(data[int(starts[number]) + VALUE_SIZE :][: int(tail)])
        for number, tail in zip(np.flatnonzero(whole), lengths[whole] - VALUE_SIZE, strict=True)
    }
    others = iter(rebuilt)
    return [kept[number] if number in kept else next(others) for number in range(len(firsts))]


class _Rebuilding:
    """Frames being rebuilt, from their first rows, record counts and ``frame`` values."""

    def __init__(
        self,
        columns: dict[str, pa.Array],
        firsts: Ints,
        counts: Ints,
        heads: NDArray[np.void],
        tails: CopiedRuns,
    ) -> None:
        self._columns = columns
        self._firsts = firsts
        self._counts = counts
        self._heads = heads
        self._flags = heads["flags"] | h.EXTENDED * (heads["extended"] != 0)
        sizes = h.EXTENSION_SIZE * self._has(h.EXTENDED)
        self._extensions = CopiedRuns(tails.data, tails.starts, sizes)
        slots = CopiedRuns(tails.data, tails.starts + sizes, tails.lengths - sizes)
        self._slots = slots
        self._times = integers(columns[schema.PUBLISH_TIME])
        if (slots.lengths != counts * self._has(h.HAS_KEYS)).any():
            raise CorruptEntry("the number of key slots of a frame in the object is wrong")

    def frames(self, *, seal: bool) -> list[bytes]:
        if not len(self._firsts):
            return []
        names = self._names()
        payload_ends, payloads = self._payloads()
        front: list[Section] = [self._due(), self._extensions, names, self._slots]
        before = [*front, payload_ends]
        after: list[Section] = [
            *self._keys(),
            *self._attributes(),
            self._deltas(),
            *self._producers(),
        ]
        raw_lengths = total([payload_ends, payloads, *after])
        body_lengths = total(front) + raw_lengths
        headers = self._headers(names.lengths, body_lengths, raw_lengths)
        large = int(payloads.lengths.sum()) >= _LARGE * len(headers)
        if not large:
            before.append(payloads)
        middles = h.HEADER_SIZE + total(before)
        ends = starts_of(middles + total(after))
        out = np.zeros(int(ends[-1]), np.uint8)
        starts = ends[:-1]
        write_headers(out, starts, headers)
        _fill(out, starts + h.HEADER_SIZE, before)
        _fill(out, starts + middles, after)

        def cut() -> list[bytes]:
            if large:
                return _joined(out.data, ends, starts + middles, payloads)
            data = out.tobytes()
            return [data[start:end] for start, end in pairwise(ends.tolist())]

        if not seal:
            return _checked(cut(), headers)
        headers["crc"] = checksums(cut())
        write_headers(out, starts, headers)
        return cut()

    def _has(self, flag: int) -> NDArray[np.bool_]:
        marked: NDArray[np.bool_] = (self._flags & flag) != 0
        return marked

    def _headers(self, names: Ints, bodies: Ints, raws: Ints) -> NDArray[np.void]:
        firsts = self._firsts
        headers = np.zeros(len(firsts), HEADER)
        headers["magic"] = h.MAGIC
        headers["version"] = np.where(self._has(h.EXTENDED), h.EXTENDED_VERSION, h.VERSION)
        for name in ("flags", "crc", "producer_id", "epoch"):
            headers[name] = self._heads[name]
        headers["name_length"] = names
        headers["body_length"] = bodies
        headers["raw_length"] = headers["columns_length"] = raws
        headers["count"] = self._counts
        headers["schema_version"] = integers(self._columns[schema.SCHEMA_VERSION])[firsts]
        headers["schema_id"] = integers(self._columns[schema.SCHEMA_ID])[firsts]
        headers["first_sequence"] = integers(self._columns[schema.SEQUENCE])[firsts]
        headers["base_offset"] = integers(self._columns[schema.OFFSET])[firsts]
        headers["first_time"] = self._first_times()
        headers["last_time"] = self._over_frames(np.maximum)
        return headers

    def _first_times(self) -> Ints:
        return self._over_frames(np.minimum)

    def _over_frames(self, function: np.ufunc) -> Ints:
        """``function`` applied to the publish times of each frame."""
        # Rows between two of these frames may belong to one that is stored whole.
        bounds = np.stack([self._firsts, self._firsts + self._counts], axis=1).ravel()
        if bounds[-1] == len(self._times):
            bounds = bounds[:-1]
        found: Ints = function.reduceat(self._times, bounds)[::2]
        return found

    def _due(self) -> Section:
        dues = integers(self._columns[schema.DELIVERY_TIME])[self._firsts]
        places = 8 * np.arange(len(dues))
        return CopiedRuns(dues.view(np.uint8), places, 8 * self._has(h.DELAYED))

    def _names(self) -> CopiedRuns:
        producers = self._columns[schema.PRODUCER]
        names = _Binary.of(producers.dictionary)
        codes = producers.indices.to_numpy()[self._firsts]
        starts = names.offsets[codes]
        lengths = (names.offsets[codes + 1] - starts) * ~self._has(h.HAS_PRODUCERS)
        return CopiedRuns(names.data, starts, lengths)

    def _producers(self) -> list[Section]:
        has = self._has(h.HAS_PRODUCERS)
        if not has.any():
            return []
        column = _Binary.of(self._columns[schema.PRODUCER].cast(pa.string()))
        return [*values(column.offsets, column.data, self._firsts, self._counts, has)]

    def _payloads(self) -> tuple[Section, CopiedRuns]:
        column = _Binary.of(self._columns[schema.PAYLOAD])
        everyone = np.ones(len(self._firsts), np.bool_)
        return values(column.offsets, column.data, self._firsts, self._counts, everyone)

    def _keys(self) -> list[Section]:
        has = self._has(h.HAS_KEYS)
        if not has.any():
            return []
        keys = self._columns[schema.KEY]
        column = _Binary.of(keys)
        return [
            Bits(present(keys), self._firsts, self._counts * has),
            *values(column.offsets, column.data, self._firsts, self._counts, has),
        ]

    def _attributes(self) -> list[Section]:
        has = self._has(h.HAS_ATTRIBUTES)
        if not has.any():
            return []
        maps = self._columns[schema.ATTRIBUTES]
        lists = offsets(maps).astype(np.int64)
        entries = lists[self._firsts]
        counts = lists[self._firsts + self._counts] - entries
        names, texts = _Binary.of(maps.keys), _Binary.of(maps.items)
        return [
            values(lists, names.data, self._firsts, self._counts, has)[0],
            *values(names.offsets, names.data, entries, counts, has),
            *values(texts.offsets, texts.data, entries, counts, has),
        ]

    def _deltas(self) -> Section:
        has = self._has(h.HAS_TIMES)
        counts = self._counts * has
        deltas = self._times.copy()
        if has.any():
            deltas[runs(self._firsts, counts)] -= spread(self._first_times(), counts)
        return Int32s(deltas, self._firsts, counts)


def _fill(out: Bytes, at: Ints, sections: list[Section]) -> None:
    """Write the sections of each frame consecutively."""
    for section in sections:
        section.fill(out, at)
        at = at + padded(section.lengths)


def _joined(rest: memoryview, ends: Ints, middles: Ints, payloads: CopiedRuns) -> list[bytes]:
    """The frames of ``rest`` with the payloads inserted at ``middles``, copied only once.

    For large frames: copying holds the GIL, which delays the event loop.
    """
    data = payloads.data.data
    padding = (padded(payloads.lengths) - payloads.lengths).tolist()
    places = zip(payloads.starts.tolist(), payloads.lengths.tolist(), padding, strict=True)
    return [
        b"".join((rest[start:middle], data[at : at + length], bytes(pad), rest[middle:end]))
        for (start, end), middle, (at, length, pad) in zip(
            pairwise(ends.tolist()), middles.tolist(), places, strict=True
        )
    ]


def _checked(frames: list[bytes], headers: NDArray[np.void]) -> list[bytes]:
    """The frames. Raises ``CorruptEntry`` if one does not match its checksum."""
    wrong = np.flatnonzero(checksums(frames) != headers["crc"])
    if len(wrong):
        offset = int(headers["base_offset"][wrong[0]])
        raise CorruptEntry(
            f"the frame at offset {offset} of the object differs from the published one"
        )
    return frames


def _combined(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()
