"""Parses versions of a subject. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sulina.errors import Refused
from sulina.lake.typed.avro_shape import AvroSchema, avro_schema
from sulina.lake.typed.json_shape import json_shape
from sulina.lake.typed.protobuf_shape import ProtobufSchema, protobuf_schema
from sulina.lake.typed.schema_version import TYPED, SchemaVersion
from sulina.lake.typed.shapes import Shape


@dataclass(frozen=True, slots=True)
class ParsedVersion:
    """A version's shape, and what its decoder needs."""

    version: SchemaVersion
    shape: Shape
    schema: AvroSchema | ProtobufSchema | None = None
    """None for a JSON Schema: its shape is enough."""


@lru_cache(maxsize=64)
def parse(version: SchemaVersion) -> ParsedVersion:
    """Parse a version. Raises ``Refused`` if it has no columns or is damaged."""
    if version.type == "json_schema":
        return ParsedVersion(version, json_shape(version.definition))
    if version.type == "avro":
        avro = avro_schema(version.definition)
        return ParsedVersion(version, avro.shape, avro)
    if version.type == "protobuf":
        protobuf = protobuf_schema(version.compiled or version.definition)
        return ParsedVersion(version, protobuf.shape, protobuf)
    raise Refused(
        f"a schema of type {version.type} has no columns: those of {', '.join(TYPED)} have"
    )
