"""Converts frames to Arrow without a Python loop over the records.

Frames use Arrow's layout, so their columns are copied as whole buffers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sulina.errors import CorruptFrame
from sulina.lake.frame_columns import BinaryColumn, FrameColumns, open_columns
from sulina.lake.frame_table import FrameTable, IrregularFrames, read_table, require
from sulina.lake.frame_value import pack_values
from sulina.lake.runs import Bytes, Ints, join_runs, runs, spread, starts_of
from sulina.lake.schema import ATTRIBUTES_TYPE, TIME_TYPE, WRITTEN_SCHEMA
from sulina.lake.stand_in import inflate, stand_in
from sulina.runtime.seam import Buffer
from sulina.wire import header as h
from sulina.wire.decode import Frame


def frames_to_batch(frames: Sequence[Buffer]) -> pa.RecordBatch:
    """The records of ``frames``, in order, with the columns of ``WRITTEN_SCHEMA``.

    Control frames are not allowed; all frames together have at most 1 GiB, decompressed. Raises
    ``CorruptFrame`` if one is damaged, and ``Refused`` if the package for its compression is not
    installed.
    """
    if not frames:
        return pa.RecordBatch.from_pylist([], schema=WRITTEN_SCHEMA)
    opening = _Opening(frames)
    while True:
        try:
            return opening.batch()
        except IrregularFrames as irregular:
            opening.replace(irregular.frames.tolist())


class _Opening:
    """Frames being converted; irregular ones are replaced by regular ones."""

    def __init__(self, frames: Sequence[Buffer]) -> None:
        self._frames = frames
        self._regular = list(frames)
        self._inflated: set[int] = set()
        self._verbatim: dict[int, bytes] = {}
        self._unreadable: list[int] = []

    def replace(self, numbers: list[int]) -> None:
        for number in numbers:
            frame = self._frames[number]
            header = h.check_frame(frame)
            if header.is_control:
                raise CorruptFrame("a control frame has no records")
            if header.flags & h.COMPRESSION_MASK and number not in self._inflated:
                self._inflated.add(number)
                try:
                    self._regular[number] = inflate(frame, header)
                    continue
                except CorruptFrame:
                    pass
            assert number not in self._verbatim, "replacements must be regular"
            found = stand_in(frame)
            assert found.verbatim is not None
            self._regular[number] = found.frame
            self._verbatim[number] = found.verbatim
            if not found.readable:
                self._unreadable.append(number)

    def batch(self) -> pa.RecordBatch:
        table = read_table(self._regular)
        columns = open_columns(table)
        readable = None
        if self._unreadable:
            by_frame = np.ones(len(table), np.bool_)
            by_frame[self._unreadable] = False
            readable = spread(by_frame, table.counts)
        counts = table.counts

        def of_records(field: str) -> Ints:
            return spread(table.field(field), counts)

        within = runs(np.zeros_like(counts), counts)
        dues = table.dues
        return pa.RecordBatch.from_arrays(
            [
                pa.array(of_records("base_offset") + within),
                _times(columns.times),
                _producers(table, columns),
                pa.array(of_records("first_sequence") + within),
                _keys(columns),
                _binary(pa.binary(), columns.payloads, readable),
                _attributes(table, columns, self._regular),
                pa.array(of_records("schema_id")),
                pa.array(spread(table.headers["schema_version"].astype(np.int32), counts)),
                _times(spread(dues, counts), spread(dues != 0, counts)),
                _frames(table, pack_values(table, self._verbatim)),
            ],
            schema=WRITTEN_SCHEMA,
        )


def _bitmap(present: NDArray[np.bool_] | None) -> pa.Buffer | None:
    if present is None or present.all():
        return None
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def _offsets(lengths: Ints) -> pa.Buffer:
    return pa.py_buffer(starts_of(lengths).astype(np.int32))


def _binary(
    of_type: pa.DataType, column: BinaryColumn, present: NDArray[np.bool_] | None = None
) -> pa.Array:
    buffers = [_bitmap(present), _offsets(column.lengths), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(of_type, len(column.lengths), buffers)


def _times(times: Ints, present: NDArray[np.bool_] | None = None) -> pa.Array:
    return pa.Array.from_buffers(TIME_TYPE, len(times), [_bitmap(present), pa.py_buffer(times)])


def _producers(table: FrameTable, columns: FrameColumns) -> pa.Array:
    """The producer of each record: its frame's, or its own in frames with several."""
    lengths = table.field("name_length")
    found = [_binary(pa.binary(), BinaryColumn(lengths, _names(table, lengths)))]
    if columns.producers is not None:
        found.append(_binary(pa.binary(), columns.producers))
    encoded = pa.concat_arrays(found).dictionary_encode()
    codes: NDArray[np.int32] = encoded.indices.to_numpy()
    names = encoded.dictionary
    text = np.array([_is_text(name) for name in names.to_pylist()])
    of_records = spread(codes[: len(table)], table.counts)
    if columns.producers is not None:
        of_records = of_records.copy()
        of_records[columns.has_producer] = codes[len(table) :]
    by_frame: NDArray[np.bool_] = np.logical_and.reduceat(
        text[of_records], starts_of(table.counts)[:-1]
    )
    require(by_frame)
    return pa.DictionaryArray.from_arrays(pa.array(of_records), names.cast(pa.string()))


def _names(table: FrameTable, lengths: Ints) -> Bytes:
    return join_runs(table.data, table.names_at, lengths)


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _keys(columns: FrameColumns) -> pa.Array:
    if columns.keys is None:
        return pa.nulls(len(columns.times), pa.binary())
    return _binary(pa.binary(), columns.keys, columns.has_key)


def _attributes(table: FrameTable, columns: FrameColumns, frames: Sequence[Buffer]) -> pa.Array:
    attributes = columns.attributes
    if attributes is None:
        return pa.nulls(len(columns.times), ATTRIBUTES_TYPE)
    strings = [_binary(pa.string(), part) for part in (attributes.names, attributes.values)]
    try:
        for array in strings:
            array.validate(full=True)
    except pa.ArrowInvalid:
        candidates = np.flatnonzero(table.has(h.HAS_ATTRIBUTES))
        unreadable = [not _opens(frames[number]) for number in candidates.tolist()]
        raise IrregularFrames(candidates[unreadable]) from None
    entries = pa.StructArray.from_arrays(
        strings, fields=[ATTRIBUTES_TYPE.key_field, ATTRIBUTES_TYPE.item_field]
    )
    # A record without attributes gets null, even if others in its frame have some.
    buffers = [_bitmap(attributes.counts > 0), _offsets(attributes.counts)]
    return pa.Array.from_buffers(
        ATTRIBUTES_TYPE, len(attributes.counts), buffers, children=[entries]
    )


def _opens(frame: Buffer) -> bool:
    try:
        Frame(frame)
    except CorruptFrame:
        return False
    return True


def _frames(table: FrameTable, values: BinaryColumn) -> pa.Array:
    firsts = np.zeros(int(table.counts.sum()), np.bool_)
    firsts[starts_of(table.counts)[:-1]] = True
    return _binary(pa.binary(), values.spread(firsts), firsts)
