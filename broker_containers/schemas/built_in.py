"""Subjects that exist without being registered: the names of the types without a definition.

Danube does not check the subject that a topic is created with, and the console of its admin tool
sends the name of a type, ``String`` unless it is told otherwise.
"""

from __future__ import annotations

from typing import Final

from broker_containers.schemas.errors import InvalidSchema
from broker_containers.schemas.formats import type_of
from broker_containers.schemas.registry import SchemaRegistry
from sulina.errors import NotFound
from sulina.metadata.keys.schemas import SchemaType

_DEFINITIONS: Final = {
    SchemaType.BYTES: b"",
    SchemaType.STRING: b"",
    SchemaType.NUMBER: b"",
    SchemaType.JSON_SCHEMA: b"true",  # any JSON
}


async def ensure_subject(registry: SchemaRegistry, subject: str) -> None:
    """Register ``subject`` if it does not exist and is the name of a built-in type.

    Raises ``NotFound`` if it is neither.
    """
    try:
        await registry.subject(subject)
    except NotFound:
        try:
            definition = _DEFINITIONS.get(type_of(subject))
        except InvalidSchema:
            definition = None
        if definition is None:
            raise
        await registry.register(subject, subject, definition)
