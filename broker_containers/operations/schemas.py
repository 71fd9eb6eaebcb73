"""Handlers of the operations on schemas; any broker runs them for the whole cluster."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import asdict

from broker_containers.operations.running import handles
from broker_containers.schemas.registry import SchemaRegistry
from broker_containers.schemas.values import Registered, Remarks, Schema
from sulina.errors import Refused
from sulina.metadata.keys.schemas import (
    Compatibility,
    SubjectRecord,
    TopicSchemaRecord,
    Validation,
)
from sulina.names import TopicName
from sulina.operations.schemas import (
    SchemaCheck,
    SchemaDetails,
    SchemaOperations,
    SchemaRegistration,
    SchemaVersionRow,
    SubjectCompatibility,
    SubjectRow,
    TopicSchema,
)


class SchemaHandlers:
    """The schema registry. A definition is text, or any bytes in Base64."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    @handles(SchemaOperations.list)
    async def list(self) -> tuple[SubjectRow, ...]:
        return tuple(_row(*found) for found in (await self._registry.subjects()).items())

    @handles(SchemaOperations.get)
    async def get(self, subject: str, *, version: int = 0) -> SchemaDetails:
        return _details(await self._registry.version(subject, version or None))

    @handles(SchemaOperations.lookup)
    async def lookup(self, id: int, *, version: int = 0) -> SchemaDetails:
        return _details(await self._registry.get(id, version or None))

    @handles(SchemaOperations.versions)
    async def versions(self, subject: str) -> tuple[SchemaVersionRow, ...]:
        return tuple(map(_version, await self._registry.versions(subject)))

    @handles(SchemaOperations.register)
    async def register(
        self,
        subject: str,
        type: str,
        *,
        definition: str = "",
        definition_base64: str | None = None,
        description: str = "",
        by: str = "",
        tags: Sequence[str] = (),
    ) -> SchemaRegistration:
        written = _definition(definition, definition_base64)
        remarks = Remarks(description, by, tuple(tags))
        return _registered(subject, await self._registry.register(subject, type, written, remarks))

    @handles(SchemaOperations.find)
    async def find(
        self,
        subject: str,
        type: str,
        *,
        definition: str = "",
        definition_base64: str | None = None,
    ) -> SchemaRegistration:
        written = _definition(definition, definition_base64)
        return _registered(subject, await self._registry.find(subject, type, written))

    @handles(SchemaOperations.check)
    async def check(
        self,
        subject: str,
        type: str,
        *,
        definition: str = "",
        definition_base64: str | None = None,
        compatibility: Compatibility | None = None,
    ) -> SchemaCheck:
        written = _definition(definition, definition_base64)
        reasons = await self._registry.check(subject, type, written, compatibility)
        return SchemaCheck(not reasons, tuple(reasons))

    @handles(SchemaOperations.compatibility)
    async def compatibility(
        self, subject: str, *, compatibility: Compatibility | None = None
    ) -> SubjectCompatibility:
        if compatibility is not None:
            await self._registry.set_compatibility(subject, compatibility)
        return SubjectCompatibility(subject, (await self._registry.subject(subject)).compatibility)

    @handles(SchemaOperations.delete)
    async def delete(self, subject: str, *, version: int | None = None) -> None:
        if version is None:
            await self._registry.delete_subject(subject)
        else:
            await self._registry.delete_version(subject, version)

    @handles(SchemaOperations.topic)
    async def topic(self, topic: str) -> TopicSchema:
        name = TopicName.parse(topic)
        return _topic(name, await self._registry.topics.get(name))

    @handles(SchemaOperations.bind)
    async def bind(
        self,
        topic: str,
        *,
        subject: str | None = None,
        validation: Validation | None = None,
        payload: bool | None = None,
    ) -> TopicSchema:
        name = TopicName.parse(topic)
        before = await self._registry.topics.get(name)
        subject = subject or (before.subject if before else "")
        if not subject:
            raise Refused("subject is missing: name the schema subject of the topic's messages")
        default = before or TopicSchemaRecord(subject)
        wanted = TopicSchemaRecord(
            subject,
            default.validation if validation is None else validation,
            default.payload if payload is None else payload,
        )
        await self._registry.topics.configure(name, wanted)
        return _topic(name, wanted)


def _definition(text: str, encoded: str | None) -> bytes:
    if encoded is None:
        return text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise Refused("definition_base64 is not Base64: use the standard alphabet") from None


def _registered(subject: str, made: Registered) -> SchemaRegistration:
    return SchemaRegistration(subject, made.id, made.version, made.new, made.fingerprint)


def _row(name: str, found: SubjectRecord) -> SubjectRow:
    return SubjectRow(
        subject=name,
        id=found.id,
        type=found.latest.type,
        latest=found.latest.number,
        versions=len(found.versions),
        compatibility=found.compatibility,
        tags=tuple(found.tags),
    )


def _version(found: Schema) -> SchemaVersionRow:
    version = found.version
    return SchemaVersionRow(
        subject=found.subject,
        id=found.id,
        version=version.number,
        type=version.type,
        fingerprint=version.fingerprint,
        description=version.description,
        created_by=version.created_by,
        created_us=version.created_us,
        tags=tuple(version.tags),
    )


def _details(found: Schema) -> SchemaDetails:
    return SchemaDetails(
        **asdict(_version(found)),
        compatibility=found.compatibility,
        definition=found.version.definition_bytes,
    )


def _topic(name: TopicName, found: TopicSchemaRecord | None) -> TopicSchema:
    return TopicSchema(
        topic=str(name),
        subject=found.subject if found else None,
        validation=found.validation if found else Validation.NONE,
        payload=bool(found and found.payload),
    )
