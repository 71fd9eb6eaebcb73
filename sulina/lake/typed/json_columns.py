"""JSON payloads, whole columns at once: by templates, then by Arrow's JSON reader.

Each decoder returns values and which of them it vouches for; the rest is for the next one, and at
last for ``json_rows``. Memory is bounded by the payloads given.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from sulina.lake.runs import Ints
from sulina.lake.typed.json_template import MAX_LITERAL, Rows, Template, apply, learn
from sulina.lake.typed.shapes import BARE, MISSING, Shape, arrow_type
from sulina.lake.typed.spans import is_utf8, payload_turns
from sulina.lake.typed.texts import CONVERTED, convert
from sulina.lake.typed.words import Flags, Octets

_MAX_TEMPLATES: Final = 16
_LEARN_SHARE: Final = 32
"""A template is learnt if at least one in so many payloads is unlike all others."""
_FEW: Final = 16
"""Payloads that are not worth another attempt at once."""
_MAX_ATTEMPTS: Final = 128


class JsonTemplates:
    """Decodes by templates, which it learns from the payloads."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._type = arrow_type(shape)
        self._templates: list[Template] = []

    def decode(self, payloads: pa.Array) -> tuple[pa.Array, Flags] | None:
        """Values of all payloads, and which fit; None if this shape has no templates."""
        if self._shape.wire == BARE:
            return None
        parts, fits = [], []
        for source, starts, ends in payload_turns(payloads, MAX_LITERAL + 16):
            values, fine = self._some(source, starts, ends)
            parts.append(values)
            fits.append(fine)
        if not parts:
            return None
        return pa.concat_arrays(parts), np.concatenate(fits)

    def _some(self, source: Octets, starts: Ints, ends: Ints) -> tuple[pa.Array, Flags]:
        data = source.data
        bounds = np.append(starts, ends[-1])
        left = ends > starts
        _exclude(left, bounds, np.flatnonzero(data == ord("\\")))
        if len(data) and int(data.min()) < 0x20:
            _exclude(left, bounds, np.flatnonzero(data < 0x20))
        if not is_utf8(data):
            _exclude(left, bounds, np.flatnonzero(data >= 0x80))
        quotes = np.flatnonzero(data == ord('"'))
        first_quotes = np.searchsorted(quotes, bounds)
        counts = np.diff(first_quotes)
        parts: list[pa.Array] = []
        places = np.zeros(len(starts), np.int64)
        done, known, tries = 0, 0, 3
        fits = np.zeros(len(starts), np.bool_)
        while left.any():
            if known == len(self._templates):
                waiting = np.flatnonzero(left)
                if not tries or not self._learn(
                    source, starts[waiting], ends[waiting], len(starts)
                ):
                    break
                tries -= 1
            template = self._templates[known]
            known += 1
            chosen = np.flatnonzero(left & (counts == template.quotes))
            if not len(chosen):
                continue
            whole = len(chosen) == len(starts)
            rows = Rows(
                source,
                starts if whole else starts[chosen],
                ends if whole else ends[chosen],
                quotes,
                first_quotes[:-1] if whole else first_quotes[chosen],
            )
            values, fine = apply(template, rows, self._shape)
            if whole and fine.all():
                return values, fine
            parts.append(values)
            places[chosen[fine]] = done + np.flatnonzero(fine)
            done += len(values)
            left[chosen[fine]] = False
            fits[chosen[fine]] = True
        if not done:
            return pa.nulls(len(starts), self._type), fits
        return pa.concat_arrays(parts).take(pa.array(places)), fits

    def _learn(self, source: Octets, starts: Ints, ends: Ints, of: int) -> bool:
        if len(starts) * _LEARN_SHARE < of or len(self._templates) >= _MAX_TEMPLATES:
            return False
        template = learn(source.data[starts[0] : ends[0]].tobytes(), self._shape)
        if template is None or template in self._templates:
            return False
        self._templates.append(template)
        return True


def _exclude(left: Flags, bounds: Ints, places: Ints) -> None:
    """Leave out the payloads that contain one of these bytes."""
    if len(places):
        left[np.searchsorted(bounds, places, side="right") - 1] = False


class ArrowJson:
    """Decodes with Arrow's JSON reader, in halves where one payload makes it fail."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._type = arrow_type(shape)
        self._raw = _raw_type(shape)
        self._suits = _suits(shape)

    def decode(self, payloads: pa.Array) -> tuple[pa.Array, Flags] | None:
        """See ``JsonTemplates.decode``."""
        if not self._suits or not len(payloads):
            return None
        parts: list[pa.Array] = []
        fits: list[Flags] = []
        waiting = [payloads]
        attempts = 0
        while waiting:
            some = waiting.pop()
            attempts += 1
            found = self._all(some) if attempts <= _MAX_ATTEMPTS else None
            if found is None and len(some) > _FEW and attempts <= _MAX_ATTEMPTS:
                half = len(some) // 2
                waiting += [some.slice(half), some.slice(0, half)]
                continue
            parts.append(pa.nulls(len(some), self._type) if found is None else found)
            fits.append(np.full(len(some), found is not None))
        return pa.concat_arrays(parts), np.concatenate(fits)

    def _all(self, payloads: pa.Array) -> pa.Array | None:
        # Each begins and ends like an object, so it contains at least one; if there are as many
        # objects as payloads, each contains exactly one. A text cannot extend into the next
        # payload: it would contain a line break.
        whole = pc.and_(pc.starts_with(payloads, "{"), pc.ends_with(payloads, "}"))
        if not pc.all(whole).as_py():
            return None
        joined = b"\n".join(payloads.to_pylist())
        if not is_utf8(np.frombuffer(joined, np.uint8)):
            return None
        try:
            table = pj.read_json(
                pa.BufferReader(joined),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(joined) + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=pa.schema(list(self._raw)), unexpected_field_behavior="ignore"
                ),
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if table.num_rows != len(payloads):
            return None
        columns = [table.column(each.name).combine_chunks() for each in self._raw]
        return _converted_struct(columns, None, self._shape)


def _suits(shape: Shape) -> bool:
    """Whether Arrow's reader has all types; it cannot tell absent values from nulls."""
    if shape.wire == BARE or shape.kind in ("json", "map"):
        return False
    if shape.kind == "decimal" and shape.wire != "string":
        return False
    if any(each.default is not MISSING and each.default is not None for each in shape.fields):
        return False
    return all(map(_suits, shape.inner))


def _raw_type(shape: Shape) -> pa.DataType:
    if shape.kind in CONVERTED:
        return pa.string()
    if shape.kind == "struct":
        return pa.struct([(each.name, _raw_type(each.shape)) for each in shape.fields])
    if shape.kind == "list":
        assert shape.item is not None
        return pa.list_(pa.field("element", _raw_type(shape.item)))
    return arrow_type(shape)


def _converted(values: pa.Array, shape: Shape) -> pa.Array | None:
    """What Arrow read, as ``shape``; None if a value does not fit."""
    if shape.kind in CONVERTED:
        found, fits = convert(values, shape)
        return found if fits.all() else None
    if shape.kind == "struct":
        nulls = values.is_null() if values.null_count else None
        return _converted_struct([values.field(n) for n in range(len(shape.fields))], nulls, shape)
    if shape.kind == "list":
        assert shape.item is not None
        inner = _converted(values.values, shape.item)
        if inner is None:
            return None
        buffers = values.buffers()[:2]
        return pa.Array.from_buffers(
            arrow_type(shape), len(values), buffers, -1, values.offset, children=[inner]
        )
    if shape.kind == "double" and pc.all(pc.is_finite(values)).as_py() not in (True, None):
        return None
    return values


def _converted_struct(
    columns: list[pa.Array], nulls: pa.Array | None, shape: Shape
) -> pa.StructArray | None:
    children = []
    for column, each in zip(columns, shape.fields, strict=True):
        child = _converted(column, each.shape)
        if child is None:
            return None
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(shape)), mask=nulls)
