"""The shape of payloads that an Avro schema describes. Pure.

A union with ``null`` is its other type. Unions of several types, and records that contain
themselves, have no type in Spark's data frames and are refused with their place.
"""

from __future__ import annotations

import json
from typing import Any, Final

from emr_jobs.source.shapes import Shape
from sulina.errors import Refused

_SIMPLE: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "fixed": "binary",
}
_LOGICAL: Final = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "uuid": "string",
}


def avro_shape(definition: str) -> Shape:
    """Raises ``Refused`` if the text is no Avro schema of records, or one without columns."""
    try:
        schema = json.loads(definition)
    except ValueError as error:
        raise Refused(f"the Avro schema of the payloads is not JSON: {error}") from None
    shape = _Reader().shape(schema, "", ())
    if shape.kind != "struct":
        raise Refused("the Avro schema of the payloads is no record, so it gives no columns")
    return shape


class _Reader:
    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def shape(self, schema: Any, place: str, inside: tuple[str, ...]) -> Shape:
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            if len(others) != 1:
                raise _unfit(place, "a union of several types")
            return self.shape(others[0], place, inside)
        if isinstance(schema, str):
            if schema in _SIMPLE:
                return Shape(_SIMPLE[schema])
            found = self._named.get(schema) or self._named.get(schema.rpartition(".")[2])
            if found is None:
                raise _unfit(place, f"the unknown type {schema!r}")
            return self.shape(found, place, inside)
        if not isinstance(schema, dict):
            raise _unfit(place, "something that is no type")
        return self._complex(schema, place, inside)

    def _complex(self, schema: dict[str, Any], place: str, inside: tuple[str, ...]) -> Shape:
        kind, logical = schema.get("type"), schema.get("logicalType")
        name = schema.get("name")
        if isinstance(name, str) and kind in ("record", "enum", "fixed", "error"):
            self._named[name.rpartition(".")[2]] = schema
        if logical == "decimal":
            return Shape(
                "decimal", precision=schema.get("precision", 38), scale=schema.get("scale", 0)
            )
        if logical in _LOGICAL:
            return Shape(_LOGICAL[logical])
        if kind in ("record", "error"):
            if name in inside:
                raise _unfit(place, f"record {name} inside of itself")
            inner = (*inside, str(name))
            return Shape(
                "struct",
                {
                    each["name"]: self.shape(each["type"], f"{place}.{each['name']}", inner)
                    for each in schema["fields"]
                },
            )
        if kind == "array":
            return Shape("array", item=self.shape(schema["items"], f"{place}[]", inside))
        if kind == "map":
            return Shape("map", item=self.shape(schema["values"], f"{place}[]", inside))
        return self.shape(kind, place, inside)


def _unfit(place: str, what: str) -> Refused:
    return Refused(
        f"the Avro schema has {what} at {place.lstrip('.') or 'its top'}, which is no column of "
        "Spark: leave the option payload out, and decode the payload column yourself"
    )
