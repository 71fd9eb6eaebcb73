"""The versions of a topic's schema, from the brokers, for typed columns."""

from __future__ import annotations

from sulina.client.client import Client
from sulina.errors import NotFound
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.names import TopicName


async def versions_of(client: Client, topic: TopicName) -> tuple[SchemaVersion, ...]:
    """All versions of the topic's subject, the newest last; none if it is not bound to one."""
    base, _ = topic.partition_of or (topic, 0)
    schemas = client.admin.schemas
    subject = (await schemas.topic(str(base))).subject
    if subject is None:
        return ()
    try:
        numbers = sorted(row.version for row in await schemas.versions(subject))
        found = [await schemas.get(subject, version=number) for number in numbers]
    except NotFound:  # it was deleted, and the topic is still bound to it
        return ()
    return tuple(
        SchemaVersion(_signed(each.id), each.version, each.type, each.definition, each.compiled)
        for each in found
    )


def _signed(id_: int) -> int:
    """Ids have 64 bits; in objects they are stored as signed integers."""
    return id_ - (1 << 64) if id_ >= 1 << 63 else id_
