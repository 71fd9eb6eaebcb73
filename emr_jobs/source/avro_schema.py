"""Converts an Avro schema to the shape of its payloads. Pure.

A union of one type and ``null`` becomes that type. Unions of several types, and records that
contain themselves, have no equivalent in Spark and are refused.
"""

from __future__ import annotations

import json
from typing import Any, Final

from emr_jobs.source.shapes import PayloadShape
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


def avro_shape(definition: str) -> PayloadShape:
    """Raises ``Refused`` if the text is not an Avro record schema that Spark can represent."""
    try:
        schema = json.loads(definition)
    except ValueError as error:
        raise Refused(f"the Avro schema of the payloads is not JSON: {error}") from None
    shape = _AvroReader().shape(schema, "", ())
    if shape.kind != "struct":
        raise Refused("the Avro schema of the payloads is not a record, so it has no columns")
    return shape


class _AvroReader:
    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def shape(self, schema: Any, path: str, inside: tuple[str, ...]) -> PayloadShape:
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            if len(others) != 1:
                raise _unfit(path, "a union of several types")
            return self.shape(others[0], path, inside)
        if isinstance(schema, str):
            if schema in _SIMPLE:
                return PayloadShape(_SIMPLE[schema])
            found = self._named.get(schema) or self._named.get(schema.rpartition(".")[2])
            if found is None:
                raise _unfit(path, f"the unknown type {schema!r}")
            return self.shape(found, path, inside)
        if not isinstance(schema, dict):
            raise _unfit(path, "something that is not a type")
        return self._complex(schema, path, inside)

    def _complex(self, schema: dict[str, Any], path: str, inside: tuple[str, ...]) -> PayloadShape:
        kind, logical = schema.get("type"), schema.get("logicalType")
        name = schema.get("name")
        if isinstance(name, str) and kind in ("record", "enum", "fixed", "error"):
            self._named[name.rpartition(".")[2]] = schema
        if logical == "decimal":
            return PayloadShape(
                "decimal", precision=schema.get("precision", 38), scale=schema.get("scale", 0)
            )
        if logical in _LOGICAL:
            return PayloadShape(_LOGICAL[logical])
        if kind in ("record", "error"):
            if name in inside:
                raise _unfit(path, f"record {name} inside itself")
            inner = (*inside, str(name))
            return PayloadShape(
                "struct",
                {
                    each["name"]: self.shape(each["type"], f"{path}.{each['name']}", inner)
                    for each in schema["fields"]
                },
            )
        if kind == "array":
            return PayloadShape("array", item=self.shape(schema["items"], f"{path}[]", inside))
        if kind == "map":
            return PayloadShape("map", item=self.shape(schema["values"], f"{path}[]", inside))
        return self.shape(kind, path, inside)


def _unfit(path: str, what: str) -> Refused:
    return Refused(
        f"the Avro schema has {what} at {path.lstrip('.') or 'its top level'}, which Spark cannot "
        "represent: leave out the option payload, and decode the payload column yourself"
    )
