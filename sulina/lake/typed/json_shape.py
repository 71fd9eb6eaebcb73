"""The shape of a JSON Schema. Pure.

Objects become structs of their properties in declared order, or maps if they only have
``additionalProperties``. A choice of one type and ``null`` becomes that type, because every column
may be null. What remains open becomes JSON text. ``format`` counts where it fits the type:
``date-time``, ``date``, ``uuid``, and ``decimal``, whose digits are given by the keywords
``precision`` (default: 38) and ``scale`` (default: that of ``multipleOf``, or else 9).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from sulina.errors import Refused
from sulina.lake.typed.json_rows import fit
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

_SIMPLE: Final = {"boolean": "boolean", "integer": "long", "number": "double", "string": "string"}
_FORMATS: Final = {"date-time": "timestamp", "date": "date", "uuid": "uuid"}
_MAX_REFERENCES: Final = 100
"""References that lead to another reference at once; more are circular."""
_DIGITS: Final = 38


def json_shape(definition: bytes) -> Shape:
    """The struct of a JSON Schema. Raises ``Refused`` if the definition is not JSON."""
    try:
        schema = json.loads(definition)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the JSON Schema of the payloads is not JSON: {error}") from None
    return as_struct(_Reader(schema).shape(schema, 0, ()))


class _Reader:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._budget = Budget()

    def shape(self, schema: Any, depth: int, inside: tuple[int, ...]) -> Shape:
        """``inside`` has the schemas that this one is within, by identity."""
        schema = self._followed(schema)
        if not isinstance(schema, Mapping) or not self._budget.spend(depth):
            return JSON_TEXT
        if inside.count(id(schema)) >= MAX_REPEATS:
            return JSON_TEXT
        inside = (*inside, id(schema))
        kind = schema.get("type")
        if isinstance(kind, list):
            others = [each for each in kind if each != "null"]
            kind = others[0] if len(others) == 1 else None
        if kind is None:
            return self._open(schema, depth, inside)
        if kind in ("string", "number", "integer") and schema.get("format") == "decimal":
            return _decimal(schema, kind)
        if kind == "string":
            return Shape(_FORMATS.get(str(schema.get("format")), "string"))
        if kind in _SIMPLE:
            return Shape(_SIMPLE[kind])
        if kind == "array":
            return Shape("list", item=self.shape(schema.get("items"), depth + 1, inside))
        if kind == "object":
            return self._object(schema, depth, inside)
        return JSON_TEXT

    def _object(self, schema: Mapping[str, Any], depth: int, inside: tuple[int, ...]) -> Shape:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and properties:
            fields = [self._field(*each, depth + 1, inside) for each in properties.items()]
            return Shape("struct", tuple(fields))
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            item = self.shape(values, depth + 1, inside)
            return Shape("map", item=item, key=Shape("string"))
        return JSON_TEXT

    def _field(self, name: str, schema: Any, depth: int, inside: tuple[int, ...]) -> ShapeField:
        shape = self.shape(schema, depth, inside)
        default = MISSING
        declared = schema
        if isinstance(schema, Mapping) and "default" not in schema:
            declared = self._followed(schema)
        if isinstance(declared, Mapping) and "default" in declared:
            try:
                default = checked_default(fit(declared["default"], shape), shape)
            except Unfit:
                default = MISSING  # only a remark: JSON Schema does not check it
        return ShapeField(name, shape, default=default)

    def _open(self, schema: Mapping[str, Any], depth: int, inside: tuple[int, ...]) -> Shape:
        """A schema without a type: from its properties, its values, or its only choice."""
        if "properties" in schema:
            return self._object(schema, depth, inside)
        for word in ("anyOf", "oneOf"):
            choices = schema.get(word)
            if isinstance(choices, list):
                others = [each for each in choices if each != {"type": "null"}]
                if len(others) == 1:
                    return self.shape(others[0], depth + 1, inside)
        values = schema.get("enum")
        if isinstance(values, list) and values:
            kinds = {type(each) for each in values if each is not None}
            if len(kinds) == 1:
                kind = {str: "string", int: "long", bool: "boolean", float: "double"}
                return Shape(kind.get(kinds.pop(), "json"))
        return JSON_TEXT

    def _followed(self, schema: Any) -> Any:
        for _ in range(_MAX_REFERENCES):
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                return schema
            schema = self._referred(schema["$ref"])
        return None

    def _referred(self, reference: Any) -> Any:
        found = self._root
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        for step in reference[1:].split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, Mapping) else None
        return found


def _decimal(schema: Mapping[str, Any], kind: str) -> Shape:
    precision, scale = schema.get("precision", _DIGITS), schema.get("scale")
    if scale is None:
        scale = _scale_of(schema.get("multipleOf"))
    if not isinstance(precision, int) or not isinstance(scale, int):
        return JSON_TEXT
    if not 0 < precision <= _DIGITS or not 0 <= scale <= precision:
        return JSON_TEXT
    return replace(Shape("decimal", precision=precision, scale=scale), wire=kind)


def _scale_of(multiple: Any) -> int:
    try:
        exponent = Decimal(str(multiple)).normalize().as_tuple().exponent
    except InvalidOperation:
        return 9
    return max(0, -exponent) if isinstance(exponent, int) else 9
