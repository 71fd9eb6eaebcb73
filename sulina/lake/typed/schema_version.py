"""A version of a subject as the lake needs it. Works without numpy and pyarrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TYPED: Final = ("json_schema", "avro", "protobuf")
"""The types of schemas that have columns."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of a subject; records refer to it by ``id`` and ``number``."""

    id: int
    """The subject's id, an unsigned number stored as signed, as in the column ``schema_id``."""
    number: int
    type: str
    definition: bytes
    compiled: bytes | None = None
    """The descriptors of a Protobuf schema whose definition is text."""
