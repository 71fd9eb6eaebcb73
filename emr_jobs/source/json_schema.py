"""Converts a JSON Schema to the shape of its payloads. Pure.

Objects become structs of their properties, or maps if they only have ``additionalProperties``. A
union of one type and ``null`` becomes that type, because everything may be null in Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from emr_jobs.source.shapes import TEXT, PayloadShape
from sulina.errors import Refused

_SIMPLE: Final = {"boolean": "boolean", "integer": "long", "number": "double", "string": "string"}
_MAX_DEPTH: Final = 30
"""References may be circular; deeper values become JSON text."""


def json_shape(definition: str) -> PayloadShape:
    """Raises ``Refused`` if the text is not a JSON Schema of an object with properties."""
    try:
        schema = json.loads(definition)
    except ValueError as error:
        raise Refused(f"the schema of the payloads is not JSON: {error}") from None
    shape = _JsonSchemaReader(schema).shape(schema, 0)
    if shape.kind != "struct":
        raise Refused(
            "the schema of the payloads does not describe an object with properties, so it has no "
            "columns: read the payload column and convert it in Spark"
        )
    return shape


class _JsonSchemaReader:
    def __init__(self, root: Any) -> None:
        self._root = root

    def shape(self, schema: Any, depth: int) -> PayloadShape:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return PayloadShape(TEXT)
        if "$ref" in schema:
            return self.shape(self._referred(schema["$ref"]), depth + 1)
        kind = schema.get("type")
        if isinstance(kind, list):
            others = [each for each in kind if each != "null"]
            kind = others[0] if len(others) == 1 else None
        if kind is None:
            return self._open(schema, depth)
        if kind in _SIMPLE:
            return PayloadShape(_SIMPLE[kind])
        if kind == "array":
            return PayloadShape("array", item=self.shape(schema.get("items"), depth + 1))
        if kind == "object":
            return self._object(schema, depth)
        return PayloadShape(TEXT)

    def _object(self, schema: Mapping[str, Any], depth: int) -> PayloadShape:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and properties:
            return PayloadShape(
                "struct",
                {name: self.shape(each, depth + 1) for name, each in properties.items()},
            )
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            return PayloadShape("map", item=self.shape(values, depth + 1))
        return PayloadShape(TEXT)

    def _open(self, schema: Mapping[str, Any], depth: int) -> PayloadShape:
        """A schema without a type: from its properties, its enum, or its only non-null choice."""
        if "properties" in schema:
            return self._object(schema, depth)
        for word in ("anyOf", "oneOf"):
            choices = schema.get(word)
            if isinstance(choices, list):
                others = [each for each in choices if each != {"type": "null"}]
                if len(others) == 1:
                    return self.shape(others[0], depth + 1)
        values = schema.get("enum")
        if isinstance(values, list) and values and all(isinstance(each, str) for each in values):
            return PayloadShape("string")
        return PayloadShape(TEXT)

    def _referred(self, reference: Any) -> Any:
        found = self._root
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        for step in reference[1:].split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, Mapping) else None
        return found
