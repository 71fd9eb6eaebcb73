"""Texts to times, dates, UUIDs and decimals, in whole columns, by the rules of ``json_rows``.

The usual forms are converted natively, all others one by one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sulina.lake.buffers import present
from sulina.lake.typed.json_rows import fit
from sulina.lake.typed.rows import Unfit
from sulina.lake.typed.shapes import Shape, arrow_type
from sulina.lake.typed.spans import used_bytes
from sulina.lake.typed.words import Flags, Octets, word

CONVERTED: Final = ("timestamp", "date", "uuid", "decimal")
"""Kinds whose values are texts in a payload."""
_HEX: Final = np.zeros(256, np.uint8)
_HEX[list(b"0123456789abcdef")] = list(b"0123456789abcdef")
_HEX[list(b"ABCDEF")] = list(b"abcdef")
_DASHES: Final = [8, 13, 18, 23]
_DECIMAL: Final = r"^-?[0-9]{1,18}(\.[0-9]{1,18})?$"


def convert(texts: pa.Array, shape: Shape) -> tuple[pa.Array, Flags]:
    """``texts`` as values of ``shape``, and which of them fit; nulls do."""
    there = present(texts)
    wanted = arrow_type(shape)
    if shape.kind == "uuid":
        quick = _uuids(texts)
        if quick is not None:
            return quick, np.ones(len(texts), np.bool_)
    elif len(texts):
        usual = there & _USUAL[shape.kind](texts)
        kept = texts if usual.all() else pc.if_else(pa.array(usual), texts, None)
        try:
            found = pc.cast(kept, wanted)
            if (usual == there).all():
                return found, np.ones(len(texts), np.bool_)
            return _the_rest(texts, shape, there & ~usual, found)
        except pa.ArrowInvalid:
            pass
    return _the_rest(texts, shape, there, pa.nulls(len(texts), wanted))


def _the_rest(
    texts: pa.Array, shape: Shape, wanted: Flags, found: pa.Array
) -> tuple[pa.Array, Flags]:
    """``found``, with the ``wanted`` ones converted one by one."""
    rows = np.flatnonzero(wanted)
    values: list[Any] = []
    fits = np.ones(len(texts), np.bool_)
    for row, text in zip(rows.tolist(), texts.take(pa.array(rows)).to_pylist(), strict=True):
        try:
            values.append(fit(text, shape))
        except Unfit:
            values.append(None)
            fits[row] = False
    places = np.arange(len(texts))
    places[rows] = len(texts) + np.arange(len(rows))
    both = pa.concat_arrays([found, pa.array(values, found.type)])
    return both.take(pa.array(places)), fits


def _times(texts: pa.Array) -> Flags:
    """Which have the form 2026-05-01T12:00:00Z, with up to six digits after a point."""
    data, bounds = used_bytes(texts)
    octets, starts, lengths = Octets(data), bounds[:-1], np.diff(bounds)
    first = octets.at(starts) & word(0xFF0000FF00000000) == word(0x2D00002D00000000)
    first &= octets.at(starts) & word(0xFFFFFFFF) != word(0x30303030)  # Python has no year 0
    long = (lengths >= 20) & (lengths <= 27)
    starts = np.where(long, starts, 0)
    second = octets.at(starts + 8) & word(0x0000FF0000FF0000) == word(0x00003A0000540000)
    third = octets.at(starts + 16)
    colon = third & word(0xFF) == word(0x3A)
    point = third & word(0xFF000000) == word(0x2E000000)
    short = (third & word(0xFF000000) == word(0x5A000000)) & (lengths == 20)
    ends = octets.byte(np.maximum(bounds[1:] - 1, 0)) == ord("Z")
    usual: Flags = long & first & second & colon & (short | (point & (lengths >= 22) & ends))
    return usual


def _dates(texts: pa.Array) -> Flags:
    data, bounds = used_bytes(texts)
    octets, starts = Octets(data), bounds[:-1]
    words = octets.at(starts)
    form = words & word(0xFF0000FF00000000) == word(0x2D00002D00000000)
    usual: Flags = form & (np.diff(bounds) == 10) & (words & word(0xFFFFFFFF) != word(0x30303030))
    return usual


def _decimals(texts: pa.Array) -> Flags:
    found = pc.fill_null(pc.match_substring_regex(texts, _DECIMAL), False)
    flags: Flags = found.to_numpy(zero_copy_only=False)
    return flags


_USUAL: Final = {"timestamp": _times, "date": _dates, "decimal": _decimals}


def _uuids(texts: pa.Array) -> pa.Array | None:
    """All in lower case; None if one is not a UUID."""
    count = len(texts) - texts.null_count
    texts = texts if not texts.offset else pa.concat_arrays([texts])
    data, _ = used_bytes(texts)
    if len(data) != 36 * count or not (pc.binary_length(texts).drop_null().to_numpy() == 36).all():
        return None
    table = _HEX.take(data.reshape(-1, 36))
    digits = table != 0
    if digits[:, _DASHES].any() or int(digits.sum()) != 32 * count:
        return None
    if not (data.reshape(-1, 36)[:, _DASHES] == ord("-")).all():
        return None
    table[:, _DASHES] = ord("-")
    buffers = [*texts.buffers()[:2], pa.py_buffer(table.ravel())]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)
