"""JSON payloads that are alike: the same keys in the same order, only the values differ.

A producer writes most payloads in one of a few forms. A template is learnt from one payload; for
all others that have its form, the positions of their values follow from the positions of their
quotes, and whole columns are converted at once. What a template accepts is exactly what
``json_rows`` accepts, with the same values; everything else is left to other decoders.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sulina.lake.runs import Bytes, Ints
from sulina.lake.typed.shapes import MISSING, Shape, arrow_type
from sulina.lake.typed.spans import take_spans, used_bytes, with_nulls
from sulina.lake.typed.texts import CONVERTED, convert
from sulina.lake.typed.words import Flags, Octets

Path = tuple[str, ...]
_TEXTS: Final = ("string", *CONVERTED)
_PLAIN: Final = re.compile(rb'"([^"\\\x00-\x1f]*)"')
_NUMBER: Final = re.compile(rb"-?[0-9][0-9.]*")
_SPACE: Final = re.compile(rb" *")
_MAX_SAMPLE: Final = 16 << 10
MAX_LITERAL: Final = 1 << 10
"""Between two values; the bytes of ``Rows`` have so much room around them."""
_MAX_DIGITS: Final = {"long": 18, "double": 300}


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a value is."""

    path: Path
    shape: Shape


@dataclass(frozen=True, slots=True)
class Template:
    """The bytes around the values: ``literals`` has one more item than ``slots``."""

    literals: tuple[bytes, ...]
    slots: tuple[Slot, ...]
    structs: frozenset[Path]
    """The objects that are there; others are absent or null."""
    nulls: frozenset[Path]
    """The properties that are null; others without a slot are absent."""
    quotes: int


class _Unlike(Exception):
    """The payload has a form that templates do not cover."""


def learn(payload: bytes, shape: Shape) -> Template | None:
    """The template of a payload's form, or None if there cannot be one."""
    if len(payload) > _MAX_SAMPLE:
        return None
    try:
        return _Learner(payload).template(shape)
    except _Unlike:
        return None


class _Learner:
    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0
        self._literal_from = 0
        self._literals: list[bytes] = []
        self._slots: list[Slot] = []
        self._structs: set[Path] = set()
        self._nulls: set[Path] = set()

    def template(self, shape: Shape) -> Template:
        self._object(shape, ())
        if self._at != len(self._payload):
            raise _Unlike
        self._literals.append(self._payload[self._literal_from :])
        if max(map(len, self._literals)) > MAX_LITERAL:
            raise _Unlike
        quotes = sum(each.count(b'"') for each in self._literals)
        return Template(
            tuple(self._literals),
            tuple(self._slots),
            frozenset(self._structs),
            frozenset(self._nulls),
            quotes,
        )

    def _object(self, shape: Shape, path: Path) -> None:
        self._structs.add(path)
        fields = {each.name: each.shape for each in shape.fields}
        self._skip(b"{")
        while True:
            key = _PLAIN.match(self._payload, self._at)
            if key is None:
                raise _Unlike
            name = key[1].decode(errors="replace")
            # Each key once: of repeated ones the last would count.
            inner = fields.pop(name, None)
            if inner is None:
                raise _Unlike
            self._at = key.end()
            self._skip(b":")
            self._value(inner, (*path, name))
            if self._peek() == b"}":
                self._skip(b"}", last=True)
                return
            self._skip(b",")

    def _value(self, shape: Shape, path: Path) -> None:
        if self._payload.startswith(b"null", self._at):
            self._at += 4
            self._nulls.add(path)
        elif shape.kind == "struct":
            self._object(shape, path)
        elif shape.kind in _TEXTS and shape.wire in (None, "string"):
            text = _PLAIN.match(self._payload, self._at)
            if text is None:
                raise _Unlike
            self._slot(self._at + 1, text.end() - 1, shape, path)
        elif shape.kind in ("long", "double"):
            number = _NUMBER.match(self._payload, self._at)
            if number is None:
                raise _Unlike
            self._slot(self._at, number.end(), shape, path)
        elif shape.kind == "boolean":
            for word in (b"true", b"false"):
                if self._payload.startswith(word, self._at):
                    self._slot(self._at, self._at + len(word), shape, path)
                    return
            raise _Unlike
        else:
            raise _Unlike

    def _slot(self, start: int, end: int, shape: Shape, path: Path) -> None:
        self._literals.append(self._payload[self._literal_from : start])
        self._slots.append(Slot(path, shape))
        self._literal_from = end
        self._at = end + (self._payload[end : end + 1] == b'"')

    def _peek(self) -> bytes:
        space = _SPACE.match(self._payload, self._at)
        assert space is not None
        self._at = space.end()
        return self._payload[self._at : self._at + 1]

    def _skip(self, mark: bytes, *, last: bool = False) -> None:
        if self._peek() != mark:
            raise _Unlike
        self._at += 1
        if not last:
            self._peek()


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Payloads as bytes: where each starts and ends, and where their quotes are.

    None of them contains a backslash or a control character, and all are UTF-8.
    """

    octets: Octets
    starts: Ints
    ends: Ints
    quotes: Ints
    first_quotes: Ints
    """For each payload, the number of its first quote."""


def apply(template: Template, rows: Rows, shape: Shape) -> tuple[pa.StructArray, Flags]:
    """The values of ``rows``, each with as many quotes as the template, and which have its form."""
    octets, count = rows.octets, len(rows.starts)
    fits = np.ones(count, np.bool_)
    rank = 0
    position = rows.starts
    columns: dict[Path, pa.Array] = {}
    begin = rows.starts
    for number, literal in enumerate(template.literals):
        if number:
            first = literal.find(b'"')
            if first < 0:
                position = rows.ends - len(literal)
            else:
                position = rows.quotes[rows.first_quotes + rank] - first
            fits &= position >= begin
        fits &= octets.equal(position, literal)
        rank += literal.count(b'"')
        following = position + len(literal)
        if number:
            slot = template.slots[number - 1]
            safe = begin if fits.all() else np.where(fits, begin, position)
            columns[slot.path], fine = _column(slot.shape, octets, safe, position, fits)
            fits &= fine
        begin = following
    fits &= begin == rows.ends
    return _struct(template, shape, (), columns, count), fits


def _column(
    shape: Shape, octets: Octets, starts: Ints, ends: Ints, wanted: Flags
) -> tuple[pa.Array, Flags]:
    """The values between ``starts`` and ``ends``, and which fit; those not wanted are empty."""
    if shape.kind == "boolean":
        true = octets.equal(starts, b"true") & (ends - starts == 4)
        false = octets.equal(starts, b"false") & (ends - starts == 5)
        return pa.array(true), true | false
    # Positions of unwanted rows may be anywhere; ranges must ascend.
    if not wanted.all():
        starts, ends = _ascending(starts, ends, wanted)
    texts = take_spans(octets.data, starts, ends, pa.string())
    if shape.kind == "string":
        return texts, wanted
    if shape.kind in ("long", "double"):
        return _numbers(texts, shape, octets.byte(np.maximum(starts, 0)), ends - starts)
    return convert(texts, shape)


def _ascending(starts: Ints, ends: Ints, wanted: Flags) -> tuple[Ints, Ints]:
    """Empty ranges for unwanted rows, at the end of the range before."""
    before = np.maximum.accumulate(np.where(wanted, ends, 0))
    return np.where(wanted, starts, before), np.where(wanted, ends, before)


def _numbers(texts: pa.Array, shape: Shape, first: Bytes, lengths: Ints) -> tuple[pa.Array, Flags]:
    data, bounds = used_bytes(texts)
    padded = Octets(data)
    negative = first == ord("-")
    leading = padded.byte(bounds[:-1] + negative)
    second = padded.byte(bounds[:-1] + negative + 1)
    digits = lengths - negative
    fits = (digits > 0) & (digits <= _MAX_DIGITS[shape.kind])
    zero = (leading == ord("0")) & (digits > 1)
    other = data - np.uint8(ord("0")) > 9
    if shape.kind == "long":
        fits &= ~zero
    else:
        fits &= ~zero | (second == ord("."))
        fits &= (leading - np.uint8(ord("0")) <= 9) & (
            padded.byte(bounds[1:] - 1) - np.uint8(ord("0")) <= 9
        )
        other &= data != ord(".")
    odd = np.flatnonzero(other)
    if len(odd) != int(negative.sum()) or negative.any():
        owners = np.searchsorted(bounds, odd, side="right") - 1
        misplaced = odd != bounds[owners]
        fits[owners[misplaced]] = False
        fits &= (leading - np.uint8(ord("0")) <= 9) | (digits <= 0)
    kept = with_nulls(texts, fits)
    try:
        return pc.cast(kept, arrow_type(shape)), fits
    except pa.ArrowInvalid:  # two points
        return pa.nulls(len(texts), arrow_type(shape)), np.zeros(len(texts), np.bool_)


def _struct(
    template: Template, shape: Shape, path: Path, columns: dict[Path, pa.Array], count: int
) -> pa.StructArray:
    children = []
    for each in shape.fields:
        place = (*path, each.name)
        if place in columns:
            children.append(columns[place])
        elif place in template.structs:
            children.append(_struct(template, each.shape, place, columns, count))
        else:
            absent = place not in template.nulls and each.default is not MISSING
            one = pa.array([each.default if absent else None], arrow_type(each.shape))
            children.append(one.take(pa.array(np.zeros(count, np.int64))))
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(shape)))
