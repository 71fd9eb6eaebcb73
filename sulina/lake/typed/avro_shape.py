"""The shape of an Avro schema. Pure.

A union of one type and ``null`` becomes that type; another union becomes JSON text, as does a
type within itself from its third repetition on. Logical types count where Avro allows them;
``timestamp-nanos`` and ``duration`` stay what they are encoded as.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from sulina.errors import Refused
from sulina.lake.typed.json_rows import fit_decimal
from sulina.lake.typed.rows import Unfit
from sulina.lake.typed.shapes import (
    JSON_TEXT,
    MAX_REPEATS,
    MISSING,
    Budget,
    Shape,
    ShapeField,
    as_struct,
    checked_default,
)

PRIMITIVE: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL: Final = {
    ("int", "date"): ("date", 1),
    ("int", "time-millis"): ("time", 1000),
    ("long", "time-micros"): ("time", 1),
    ("long", "timestamp-millis"): ("timestamp", 1000),
    ("long", "timestamp-micros"): ("timestamp", 1),
    ("long", "local-timestamp-millis"): ("local_timestamp", 1000),
    ("long", "local-timestamp-micros"): ("local_timestamp", 1),
    ("string", "uuid"): ("uuid", 1),
}
_MOST_DIGITS: Final = 38
Names = dict[str, Any]
"""Definitions of named types, by full name."""


@dataclass(frozen=True, slots=True)
class AvroWire:
    """How values of a shape are encoded."""

    kind: str
    """Avro's type: a primitive one, fixed, enum, array, map, record or union."""
    branches: tuple[AvroWire | None, ...] = ()
    """Of a union; None is null."""
    size: int = 0
    """Of a fixed type."""
    symbols: tuple[str, ...] = ()
    factor: int = 1
    """Microseconds per unit of a time."""
    fields: tuple[tuple[str, AvroWire], ...] = ()
    item: AvroWire | None = None
    name: str = ""
    """Of a record that occurs within itself: where to find it."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A parsed schema: its shape, and the records that occur within themselves."""

    shape: Shape
    records: Mapping[str, AvroWire]


def avro_schema(definition: bytes) -> AvroSchema:
    """Parse a definition. Raises ``Refused`` if it is not an Avro schema."""
    try:
        schema = json.loads(definition)
        reader = _Reader()
        shape = reader.shape(schema, "", 0, ())
        return AvroSchema(as_struct(shape), reader.records)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(
            f"the Avro schema of the payloads cannot be read ({error!r}): register a valid one"
        ) from None


class _Reader:
    def __init__(self) -> None:
        self.records: dict[str, AvroWire] = {}
        self._names: Names = {}
        self._wires: dict[str, AvroWire] = {}
        self._budget = Budget()

    def shape(self, schema: Any, space: str, depth: int, inside: tuple[str, ...]) -> Shape:
        """``space`` is the namespace around ``schema``, ``inside`` the records around it."""
        wire = self.wire(schema, space, ())
        if not self._budget.spend(depth):
            return replace(JSON_TEXT, wire=wire)
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            if len(others) != 1:
                return replace(JSON_TEXT, wire=wire)
            return replace(self.shape(others[0], space, depth, inside), wire=wire)
        schema, space = self._named(schema, space)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.shape(kind, space, depth, inside)
        logical = _logical(schema)
        if logical is not None:
            return replace(logical, wire=wire)
        if kind in ("record", "error"):
            name, inner = _full_name(schema, space)
            if inside.count(name) >= MAX_REPEATS:
                return replace(JSON_TEXT, wire=wire)
            inside = (*inside, name)
            fields = [self._field(each, inner, depth + 1, inside) for each in schema["fields"]]
            if not fields:
                return replace(JSON_TEXT, wire=wire)
            return Shape("struct", tuple(fields), wire=wire)
        if kind == "array":
            item = self.shape(schema["items"], space, depth + 1, inside)
            return Shape("list", item=item, wire=wire)
        if kind == "map":
            item = self.shape(schema["values"], space, depth + 1, inside)
            return Shape("map", item=item, key=Shape("string"), wire=wire)
        if kind == "null":
            return replace(JSON_TEXT, wire=wire)
        return Shape({"enum": "string", "fixed": "binary"}.get(kind) or PRIMITIVE[kind], wire=wire)

    def _field(self, field: Any, space: str, depth: int, inside: tuple[str, ...]) -> ShapeField:
        shape = self.shape(field["type"], space, depth, inside)
        default = MISSING
        if "default" in field:
            try:
                default = checked_default(_default(field["default"], shape, shape.wire), shape)
            except (Unfit, UnicodeEncodeError):
                default = MISSING
        aliases = tuple(map(str, field.get("aliases", ())))
        return ShapeField(str(field["name"]), shape, aliases=aliases, default=default)

    def wire(self, schema: Any, space: str, inside: tuple[str, ...]) -> AvroWire:
        """How values of ``schema`` are encoded."""
        if isinstance(schema, list):
            branches = [
                None if each == "null" else self.wire(each, space, inside) for each in schema
            ]
            return AvroWire("union", tuple(branches))
        schema, space = self._named(schema, space)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.wire(kind, space, inside)
        if kind in ("record", "error"):
            return self._record(schema, space, inside)
        if kind == "array":
            return AvroWire("array", item=self.wire(schema["items"], space, inside))
        if kind == "map":
            return AvroWire("map", item=self.wire(schema["values"], space, inside))
        if kind == "enum":
            return AvroWire("enum", symbols=tuple(map(str, schema["symbols"])))
        if kind == "fixed":
            return AvroWire("fixed", size=int(schema["size"]))
        factor = _LOGICAL.get((kind, str(schema.get("logicalType"))), ("", 1))[1]
        return AvroWire(kind, factor=factor)

    def _record(self, schema: Any, space: str, inside: tuple[str, ...]) -> AvroWire:
        name, inner = _full_name(schema, space)
        if name in inside:
            self.records.setdefault(name, AvroWire("record"))  # completed below
            return AvroWire("record", name=name)
        if name not in self._wires:
            within = (*inside, name)
            fields = [
                (str(each["name"]), self.wire(each["type"], inner, within))
                for each in schema["fields"]
            ]
            wire = AvroWire("record", fields=tuple(fields))
            if name in self.records:
                self.records[name] = wire
            self._wires[name] = wire
        return self._wires[name]

    def _named(self, schema: Any, space: str) -> tuple[Any, str]:
        """The definition that a name refers to; names are registered on the way."""
        if isinstance(schema, str):
            if schema in PRIMITIVE or schema == "null":
                return {"type": schema}, space
            full = schema if "." in schema or not space else f"{space}.{schema}"
            found: tuple[Any, str] = self._names.get(full) or self._names[schema]
            return found
        if isinstance(schema.get("name"), str) and isinstance(schema.get("type"), str):
            name, _ = _full_name(schema, space)
            self._names.setdefault(name, (schema, space))
        return schema, space


def _full_name(schema: Any, space: str) -> tuple[str, str]:
    """A type's full name, and the namespace of what it contains."""
    name = str(schema["name"])
    if "." in name:
        return name, name.rpartition(".")[0]
    space = str(schema.get("namespace", space))
    return (f"{space}.{name}" if space else name), space


def _logical(schema: Any) -> Shape | None:
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        numbers = isinstance(precision, int) and isinstance(scale, int)
        if numbers and 0 < precision <= _MOST_DIGITS and 0 <= scale <= precision:
            return Shape("decimal", precision=precision, scale=scale)
        return None
    found = _LOGICAL.get((kind, str(logical)))
    return Shape(found[0]) if found else None


def _default(value: Any, shape: Shape, wire: AvroWire) -> Any:
    """A default in Avro's JSON encoding, for Arrow. Raises ``Unfit``."""
    if wire.kind == "union":
        # Usually the first branch; newer versions of Avro allow any.
        for branch in wire.branches:
            if branch is None:
                if value is None:
                    return None
                continue
            try:
                return _default(value, shape, branch)
            except (Unfit, ValueError, TypeError, KeyError):
                continue
        raise Unfit("the default fits no branch")
    return _plain_default(value, shape, wire)


def _plain_default(value: Any, shape: Shape, wire: AvroWire) -> Any:
    if shape.kind == "json":
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if shape.kind == "struct" and isinstance(value, dict):
        return {
            each.name: _default(value[each.name], each.shape, each.shape.wire)
            if each.name in value
            else (None if each.default is MISSING else each.default)
            for each in shape.fields
        }
    if shape.kind == "list" and isinstance(value, list):
        assert shape.item is not None
        return [_default(each, shape.item, shape.item.wire) for each in value]
    if shape.kind == "map" and isinstance(value, dict):
        assert shape.item is not None
        return [(name, _default(each, shape.item, shape.item.wire)) for name, each in value.items()]
    if isinstance(value, str) and shape.kind == "decimal":
        number = int.from_bytes(value.encode("latin-1"), "big", signed=True)
        return fit_decimal(Decimal(number).scaleb(-shape.scale), shape)
    if isinstance(value, str) and shape.kind == "binary":
        return value.encode("latin-1")
    if isinstance(value, str) and shape.kind in ("string", "uuid"):
        return value
    if isinstance(value, bool) and shape.kind == "boolean":
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        if shape.kind in ("float", "double"):
            return float(value)
        if isinstance(value, int) and shape.kind not in ("string", "uuid", "boolean"):
            return value * wire.factor
    raise Unfit("the default has another type")
