"""Handlers of the operations on schemas; any broker runs them for the whole cluster."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from broker_containers.operations.running import handles
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.schemas.values import Registered, Remarks, Schema
from broker_containers.security.access import ACTING, Access, Need, author, of_topic
from broker_containers.security.errors import Denied
from sulina.errors import Refused
from sulina.metadata.keys.schemas import (
    Compatibility,
    SubjectRecord,
    TopicSchemaRecord,
    Validation,
    bound_topic,
)
from sulina.metadata.prefix_cache import CachedTable
from sulina.model import EVERYTHING, Action
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


class VisibleSubjects:
    """Which subjects the caller of an operation may look up.

    Those on which it has a right, and those of topics on which it has a right.
    """

    def __init__(self, bound: CachedTable[TopicSchemaRecord]) -> None:
        """``bound`` has the bindings of all topics."""
        self._bound = bound

    def check(self, subject: str) -> None:
        """Raise ``Denied`` unless the caller may look it up, whether it exists or not."""
        access = ACTING.get()
        if not self._seen(access, subject):
            raise Denied(
                f"{access.principal!r} may not look up the schema subject {subject!r}: it needs a "
                f"right on a topic that is bound to it, or `sulina security grant "
                f"{access.principal} {Action.LOOKUP}:{subject}`"
            )

    def of(self, subjects: Mapping[str, SubjectRecord]) -> dict[str, SubjectRecord]:
        """Those that the caller may look up."""
        access = ACTING.get()
        if access.allows(of_topic(None, EVERYTHING)):
            return dict(subjects)
        seen = self._of_topics(access, None)
        return {
            name: found
            for name, found in subjects.items()
            if not access.hides(name) and (name in seen or self._named(access, name))
        }

    def _named(self, access: Access, subject: str) -> bool:
        return access.allows(Need(None, subject)) or access.allows(Need(Action.SCHEMAS, subject))

    def _seen(self, access: Access, subject: str) -> bool:
        return not access.hides(subject) and (
            self._named(access, subject) or bool(self._of_topics(access, subject))
        )

    def _of_topics(self, access: Access, subject: str | None) -> set[str]:
        """Subjects of topics that the caller may look up: all of them, or one."""
        return {
            record.subject
            for key, record in self._bound.items.items()
            if subject in (None, record.subject) and access.allows(of_topic(None, bound_topic(key)))
        }


class SchemaHandlers:
    """The schema registry. A definition is text, or any bytes in Base64."""

    def __init__(self, schemas: SchemaChecks) -> None:
        self._registry = schemas.registry
        self._visible = VisibleSubjects(schemas.bound)

    @handles(SchemaOperations.list)
    async def list(self) -> tuple[SubjectRow, ...]:
        found = self._visible.of(await self._registry.subjects())
        return tuple(_row(*each) for each in found.items())

    @handles(SchemaOperations.get)
    async def get(self, subject: str, *, version: int = 0) -> SchemaDetails:
        self._visible.check(subject)
        return _details(await self._registry.version(subject, version or None))

    @handles(SchemaOperations.lookup)
    async def lookup(self, id: int, *, version: int = 0) -> SchemaDetails:
        found = await self._registry.get(id, version or None)
        self._visible.check(found.subject)
        return _details(found)

    @handles(SchemaOperations.versions)
    async def versions(self, subject: str) -> tuple[SchemaVersionRow, ...]:
        self._visible.check(subject)
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
        remarks = Remarks(description, author(by), tuple(tags))
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
        compiled=found.version.compiled_bytes,
    )


def _topic(name: TopicName, found: TopicSchemaRecord | None) -> TopicSchema:
    return TopicSchema(
        topic=str(name),
        subject=found.subject if found else None,
        validation=found.validation if found else Validation.NONE,
        payload=bool(found and found.payload),
    )
