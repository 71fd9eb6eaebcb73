"""Reads values of one version into the columns of a table, by field id. Pure, without row loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sulina.lake.typed.shapes import MISSING
from sulina.lake.typed.table import Binding, Column


def resolve(values: pa.StructArray, binding: Binding, columns: Sequence[Column]) -> pa.StructArray:
    """``values`` of a version whose fields have ``binding``, as a struct of ``columns``.

    A column that the version lacks has its default, or null. ``values`` must not be a slice.
    """
    places = {id_: (place, inner) for place, (id_, inner) in enumerate(binding) if id_}
    children = []
    for column in columns:
        found = places.get(column.id)
        if found is None:
            children.append(_missing(column, len(values)))
        else:
            place, inner = found
            children.append(_column(values.field(place), inner, column))
    fields = [each.arrow_field for each in columns]
    if not values.null_count:
        return pa.StructArray.from_arrays(children, fields=fields)
    return pa.StructArray.from_arrays(children, fields=fields, mask=values.is_null())


def _missing(column: Column, count: int) -> pa.Array:
    default = None if column.default is MISSING else column.default
    if default is None:
        return pa.nulls(count, column.arrow_type)
    one = pa.array([default], column.arrow_type)
    return one.take(pa.array(np.zeros(count, np.int64)))


def _column(values: pa.Array, binding: Binding, column: Column) -> pa.Array:
    wanted = column.arrow_type
    if column.kind == "struct":
        return resolve(values, binding, column.children)
    if column.kind in ("list", "map"):
        return _nested(values, binding, column, wanted)
    if values.type == wanted:
        return values
    return values.cast(wanted)


def _nested(values: pa.Array, binding: Binding, column: Column, wanted: pa.DataType) -> pa.Array:
    if column.kind == "list":
        inner = _column(values.values, binding[0][1], column.children[0])
    else:
        pairs = zip((values.keys, values.items), binding, column.children, strict=True)
        parts = [_column(part, each[1], child) for part, each, child in pairs]
        inner = pa.StructArray.from_arrays(parts, fields=[wanted.key_field, wanted.item_field])
    buffers = values.buffers()[:2]
    return pa.Array.from_buffers(
        wanted, len(values), buffers, values.null_count, values.offset, children=[inner]
    )
