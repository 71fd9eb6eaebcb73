"""Payloads to the typed columns ``value`` and ``value_error``. CPU-bound: run it in a thread.

Every row stays, in its place: a payload that does not fit has a null ``value`` and a reason in
``value_error``, which is null for all others. Whole columns are decoded at once; what the quick
decoders do not vouch for is decoded record by record, by the rules that define the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from sulina.lake.buffers import integers, present
from sulina.lake.runs import Ints
from sulina.lake.typed.avro_columns import AvroColumns
from sulina.lake.typed.avro_rows import avro_reader
from sulina.lake.typed.avro_shape import AvroSchema
from sulina.lake.typed.json_columns import ArrowJson, JsonTemplates
from sulina.lake.typed.json_rows import json_reader
from sulina.lake.typed.protobuf_columns import ProtobufColumns
from sulina.lake.typed.protobuf_rows import protobuf_reader
from sulina.lake.typed.resolve import resolve
from sulina.lake.typed.rows import ReadOne, read_rows
from sulina.lake.typed.shapes import arrow_type
from sulina.lake.typed.table import TableSchema
from sulina.lake.typed.versions import ParsedVersion
from sulina.lake.typed.words import Flags

_ROWS_AT_ONCE: Final = 2048
"""Rows that exist as Python objects at one time."""


class Quick(Protocol):
    """Decodes whole columns."""

    def decode(self, payloads: pa.Array) -> tuple[pa.Array, Flags] | None:
        """A value for each payload, and which of them are certain; None if none can be."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Typed:
    """The typed columns of some records."""

    value: pa.StructArray
    error: pa.Array
    """The reasons, as texts."""

    @property
    def rejected(self) -> int:
        """How many payloads do not fit."""
        return len(self.error) - int(self.error.null_count)


class PayloadDecoder:
    """Decodes the payloads of a table. Not for several threads at once."""

    def __init__(self, table: TableSchema) -> None:
        self.table = table
        self._by_version: dict[tuple[int, int], int] = {
            (each.version.id, each.version.number): place
            for place, each in enumerate(table.versions)
        }
        self._decoders: dict[int, VersionDecoder] = {}

    def decode(self, payloads: pa.Array, ids: pa.Array, numbers: pa.Array) -> Typed:
        """The typed columns of records with these payloads, schema ids and schema versions.

        A record that names no version of the table is read as the table's ``nameless`` one.
        """
        if not len(payloads):
            empty = pa.array([], self.table.arrow_type)
            return Typed(empty, pa.array([], pa.string()))
        places = self._places(ids, numbers)
        first = int(places[0])
        if (places == first).all():
            return self._decode(first, payloads)
        return _in_order(
            [
                (rows, self._decode(int(place), payloads.take(pa.array(rows))))
                for place in np.unique(places)
                for rows in [np.flatnonzero(places == place)]
            ]
        )

    def _places(self, ids: pa.Array, numbers: pa.Array) -> Ints:
        """The version of each record, by its place in the table."""
        pairs = np.stack([integers(ids), integers(numbers).astype(np.int64)])
        if (pairs == pairs[:, :1]).all():
            return np.full(pairs.shape[1], self._place(pairs[:, 0].tolist()), np.int64)
        found, inverse = np.unique(pairs, axis=1, return_inverse=True)
        places = np.array([self._place(each) for each in found.T.tolist()], np.int64)
        return places[inverse.ravel()]

    def _place(self, pair: Sequence[int]) -> int:
        return self._by_version.get((pair[0], pair[1]), len(self.table.versions))

    def _decode(self, place: int, payloads: pa.Array) -> Typed:
        bound = (*self.table.versions, self.table.nameless)[place]
        decoder = self._decoders.get(place)
        if decoder is None:
            decoder = self._decoders[place] = VersionDecoder(bound.parsed)
        found = decoder.decode(payloads)
        return Typed(resolve(found.value, bound.binding, self.table.columns), found.error)


class VersionDecoder:
    """Decodes the payloads of one version to the shape of that version."""

    def __init__(self, parsed: ParsedVersion) -> None:
        self._type = arrow_type(parsed.shape)
        self.quick, self._read = _decoders(parsed)

    def decode(self, payloads: pa.Array) -> Typed:
        """The values, which are no slice, and the reasons."""
        parts: list[tuple[Ints, Typed]] = []
        rows = np.arange(len(payloads))
        left = payloads
        if left.null_count:
            there = present(left)
            gone = rows[~there]
            parts.append((gone, self._one_by_one(left.take(pa.array(gone)))))
            rows = rows[there]
            left = left.take(pa.array(rows))
        for quick in self.quick:
            found = quick.decode(left) if len(rows) else None
            if found is None:
                continue
            values, fits = found
            if fits.all():
                parts.append((rows, _fine(values)))
                rows = rows[:0]
            elif fits.any():
                parts.append((rows[fits], _fine(values.filter(pa.array(fits)))))
                rows, left = rows[~fits], left.filter(pa.array(~fits))
        if len(rows):
            parts.append((rows, self._one_by_one(left)))
        return _in_order(parts) if parts else _fine(pa.array([], self._type))

    def _one_by_one(self, payloads: pa.Array) -> Typed:
        values, reasons = [], []
        for start in range(0, len(payloads), _ROWS_AT_ONCE):
            some = payloads.slice(start, _ROWS_AT_ONCE).to_pylist()
            found, why = read_rows(some, self._read, self._type)
            values.append(found)
            reasons.append(pa.array(why, pa.string()))
        return Typed(pa.concat_arrays(values), pa.concat_arrays(reasons))


def _decoders(parsed: ParsedVersion) -> tuple[list[Quick], ReadOne]:
    schema, shape = parsed.schema, parsed.shape
    if schema is None:
        return [JsonTemplates(shape), ArrowJson(shape)], json_reader(shape)
    if isinstance(schema, AvroSchema):
        return [AvroColumns(schema)], avro_reader(schema)
    return [ProtobufColumns(schema)], protobuf_reader(schema)


def _fine(values: pa.Array) -> Typed:
    return Typed(values, pa.nulls(len(values), pa.string()))


def _in_order(parts: Sequence[tuple[Ints, Typed]]) -> Typed:
    """Parts of a column, each with the rows it has, as one column."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.concatenate([rows for rows, _ in parts])
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    where = pa.array(places)
    value = pa.concat_arrays([each.value for _, each in parts]).take(where)
    return Typed(value, pa.concat_arrays([each.error for _, each in parts]).take(where))
