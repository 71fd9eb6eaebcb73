"""The versions of a topic's schema, for the typed columns of its objects."""

from __future__ import annotations

import logging
from typing import Final

from broker_containers.schemas.registry import SchemaRegistry
from sulina.errors import NotFound
from sulina.lake.typed.schema_version import TYPED, SchemaVersion
from sulina.names import TopicName

_log = logging.getLogger(__name__)
_MAX_BYTES: Final = 2 << 20
"""Of all definitions together: they are sent with each ledger."""


async def versions_of(registry: SchemaRegistry, topic: TopicName) -> tuple[SchemaVersion, ...]:
    """All versions of the subject that ``topic`` is bound to; none if it has no columns.

    Nothing is returned for definitions of more than 2 MiB either: readers decode such payloads.
    Raises ``Unavailable`` if the metadata store does not answer.
    """
    try:
        bound = await registry.topics.get(topic)
        found = [] if bound is None else await registry.versions(bound.subject)
    except NotFound:  # the topic or the subject was deleted meanwhile
        return ()
    versions = [
        SchemaVersion(
            each.id - (1 << 64) if each.id >= 1 << 63 else each.id,
            each.version.number,
            each.version.type.value,
            each.version.definition_bytes,
            each.version.compiled_bytes,
        )
        for each in found
        if each.version.type.value in TYPED
    ]
    size = sum(len(each.definition) + len(each.compiled or b"") for each in versions)
    if size > _MAX_BYTES:
        _log.warning("%s gets no typed columns: its schema has %d bytes in all", topic, size)
        return ()
    return tuple(versions)
