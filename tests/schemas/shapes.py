"""Schemas that tests share."""

from __future__ import annotations

import json
from typing import Any


def text(schema: Any) -> bytes:
    return json.dumps(schema).encode()


def fields(*required: str, **properties: Any) -> dict[str, Any]:
    """A JSON Schema of an object."""
    return {"type": "object", "properties": properties, "required": list(required)}


def record(*members: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    """An Avro record."""
    return {"type": "record", "name": name, "fields": list(members)}


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NAME = fields(name=STRING)
NAME_AND_AGE = fields(name=STRING, age=INTEGER)
NAME_AS_NUMBER = fields(name=INTEGER)
