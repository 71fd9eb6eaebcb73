"""Encodes dataclasses as JSON, and derives their JSON Schema, without any other library.

Fields may be strings, numbers, booleans, bytes (as base64), dates, times, UUIDs, enumerations,
``Literal``, lists, tuples of one type, dictionaries with string keys, other dataclasses (also
recursive ones), and unions of these. Encoded values always match the schema. Decoded values may
have more fields than the class, and may lack fields that have a default.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import types
from collections.abc import Callable
from datetime import date, datetime
from enum import Enum
from functools import partial
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from sulina.errors import Refused

_SCALARS: Final[dict[Any, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_PARSED: Final[dict[Any, tuple[str, Callable[[str], Any]]]] = {
    datetime: ("date-time", datetime.fromisoformat),
    date: ("date", date.fromisoformat),
    UUID: ("uuid", UUID),
}


class _Invalid(Exception):
    """Why a value is invalid, and the path to it."""

    def __init__(self, why: str, *path: str) -> None:
        super().__init__(f"{'.'.join(path)}: {why}" if path else why)
        self.why = why
        self.path = path

    def inside(self, name: str) -> _Invalid:
        return _Invalid(self.why, name, *self.path)


@dataclasses.dataclass(frozen=True, slots=True)
class _Shape:
    """The schema, encoder and decoder of one annotation."""

    schema: dict[str, Any]
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class DataclassCodec:
    """The codec of one dataclass. Raises ``Refused`` for annotations without a JSON form."""

    language: Final = "json_schema"

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._definitions: dict[str, dict[str, Any]] = {}
        self._known: dict[type, _Shape] = {}
        self._shape = self._of(kind)
        described = dict(self._definitions[kind.__name__])
        others = {name: each for name, each in self._definitions.items() if name != kind.__name__}
        if others or f'"#/$defs/{kind.__name__}"' in json.dumps(described):
            described = {**self._shape.schema, "$defs": self._definitions}
        self.definition: Final = json.dumps(described)

    def encode(self, value: Any) -> bytes:
        """Encode a value. Raises ``Refused`` if it does not match its annotations."""
        try:
            plain = self._shape.write(value)
            return json.dumps(plain, separators=(",", ":"), allow_nan=False).encode()
        except (_Invalid, ValueError) as error:
            raise Refused(f"the value is not a valid {self._kind.__name__}: {error}") from None

    def decode(self, payload: bytes) -> Any:
        """Decode a payload. Raises ``Refused`` if it is not a valid value."""
        try:
            return self._shape.read(json.loads(payload))
        except (_Invalid, ValueError, RecursionError) as error:
            raise Refused(
                f"the payload cannot be decoded as {self._kind.__name__}: {error}"
            ) from None

    # ---- from annotations to shapes ----

    def _of(self, kind: Any) -> _Shape:
        if kind in _SCALARS:
            check = partial(_scalar, kind)
            return _Shape({"type": _SCALARS[kind]}, check, check)
        if kind in (None, types.NoneType):
            check = partial(_one_of, (None,))
            return _Shape({"type": "null"}, check, check)
        if kind is Any:
            return _Shape({}, _as_it_is, _as_it_is)
        if kind is bytes:
            schema = {"type": "string", "contentEncoding": "base64"}
            return _Shape(schema, _to_base64, _from_base64)
        if kind in _PARSED:
            form, parse = _PARSED[kind]
            schema = {"type": "string", "format": form}
            return _Shape(schema, partial(_to_text, kind), partial(_parsed, kind, parse))
        if isinstance(kind, type) and issubclass(kind, Enum):
            values = tuple(each.value for each in kind)
            read = partial(_member, kind)
            return _Shape({"enum": list(values)}, partial(_value_of, kind), read)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            return self._dataclass(kind)
        return self._generic(kind, get_origin(kind), get_args(kind))

    def _generic(self, kind: Any, origin: Any, inner: tuple[Any, ...]) -> _Shape:
        if origin is Literal:
            check = partial(_one_of, inner)
            return _Shape({"enum": list(inner)}, check, check)
        if origin in (Union, types.UnionType):
            shapes = [self._of(each) for each in inner]
            return _Shape(
                {"anyOf": [shape.schema for shape in shapes]},
                partial(_first, [shape.write for shape in shapes]),
                partial(_first, [shape.read for shape in shapes]),
            )
        if origin is list or (origin is tuple and inner[1:] == (...,)):
            item = self._of(inner[0])
            return _Shape(
                {"type": "array", "items": item.schema},
                partial(_each, origin, item.write, list),
                partial(_each, list, item.read, origin),
            )
        if origin is dict and inner[0] is str:
            item = self._of(inner[1])
            return _Shape(
                {"type": "object", "additionalProperties": item.schema},
                partial(_entries, item.write),
                partial(_entries, item.read),
            )
        raise Refused(
            f"the type {kind} is not supported: use strings, numbers, dates, lists, dictionaries "
            "with string keys, enumerations, dataclasses and unions of these, or a pydantic model"
        )

    def _dataclass(self, kind: type) -> _Shape:
        if kind in self._known:
            return self._known[kind]
        if kind.__name__ in self._definitions:
            raise Refused(f"two dataclasses are named {kind.__name__}: rename one of them")
        described: dict[str, Any] = {"type": "object", "title": kind.__name__}
        self._definitions[kind.__name__] = described
        fields: dict[str, tuple[_Shape, bool]] = {}
        reference = {"$ref": f"#/$defs/{kind.__name__}"}
        shape = _Shape(reference, partial(_write, kind, fields), partial(_read, kind, fields))
        self._known[kind] = shape  # before its fields, because one of them may be of the same class
        hints = get_type_hints(kind)
        for field in dataclasses.fields(kind):
            needed = field.default is field.default_factory is dataclasses.MISSING
            fields[field.name] = self._of(hints[field.name]), needed
        described["properties"] = {name: each.schema for name, (each, _) in fields.items()}
        described["required"] = [name for name, (_, needed) in fields.items() if needed]
        return shape


# ---- values ----


def _write(kind: type, fields: dict[str, tuple[_Shape, bool]], value: Any) -> dict[str, Any]:
    if not isinstance(value, kind):
        raise _Invalid(f"{value!r:.80} is not a valid {kind.__name__}")
    made = {}
    for name, (shape, _) in fields.items():
        try:
            made[name] = shape.write(getattr(value, name))
        except _Invalid as error:
            raise error.inside(name) from None
    return made


def _read(kind: type, fields: dict[str, tuple[_Shape, bool]], raw: Any) -> Any:
    if not isinstance(raw, dict):
        raise _Invalid(f"{raw!r:.80} is not an object")
    found = {}
    for name, (shape, needed) in fields.items():
        if name in raw:
            try:
                found[name] = shape.read(raw[name])
            except _Invalid as error:
                raise error.inside(name) from None
        elif needed:
            raise _Invalid("this field is missing", name)
    return kind(**found)


def _scalar(kind: type, value: Any) -> Any:
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise _Invalid(f"{value!r:.80} is not a valid {kind.__name__}")


def _as_it_is(value: Any) -> Any:
    return value


def _one_of(values: tuple[Any, ...], value: Any) -> Any:
    for each in values:
        if type(each) is type(value) and each == value:
            return value
    raise _Invalid(f"{value!r:.80} is not one of {', '.join(map(repr, values))}")


def _value_of(kind: type[Enum], value: Any) -> Any:
    if not isinstance(value, kind):
        raise _Invalid(f"{value!r:.80} is not a valid {kind.__name__}")
    return value.value


def _member(kind: type[Enum], value: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise _Invalid(f"{value!r:.80} is not a valid {kind.__name__}") from None


def _to_base64(value: Any) -> str:
    if not isinstance(value, bytes):
        raise _Invalid(f"{value!r:.80} is not bytes")
    return base64.b64encode(value).decode()


def _from_base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise _Invalid(f"{value!r:.80} is not base64") from None


def _to_text(kind: type, value: Any) -> str:
    if not isinstance(value, kind):
        raise _Invalid(f"{value!r:.80} is not a valid {kind.__name__}")
    return value.isoformat() if isinstance(value, date) else str(value)


def _parsed(kind: type, parse: Callable[[str], Any], value: Any) -> Any:
    try:
        return parse(value)
    except (ValueError, TypeError, AttributeError):
        raise _Invalid(f"{value!r:.80} is not a valid {kind.__name__}") from None


def _first(choices: list[Callable[[Any], Any]], value: Any) -> Any:
    reasons = []
    for choice in choices:
        try:
            return choice(value)
        except _Invalid as error:
            reasons.append(str(error))
    raise _Invalid(" and ".join(reasons))


def _each(
    taken: type[Any], turn: Callable[[Any], Any], given: Callable[[Any], Any], value: Any
) -> Any:
    if not isinstance(value, taken):
        raise _Invalid(f"{value!r:.80} is not a valid {taken.__name__}")
    made = []
    for index, each in enumerate(value):
        try:
            made.append(turn(each))
        except _Invalid as error:
            raise error.inside(str(index)) from None
    return given(made)


def _entries(turn: Callable[[Any], Any], value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise _Invalid(f"{value!r:.80} is not a dictionary with string keys")
    made = {}
    for name, each in value.items():
        try:
            made[name] = turn(each)
        except _Invalid as error:
            raise error.inside(name) from None
    return made
