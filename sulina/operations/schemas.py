"""Operations on the schema registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from sulina.metadata.keys.schemas import Compatibility, SchemaType, Validation
from sulina.model import Action
from sulina.operations.declaration import (
    DELETE,
    GET,
    POST,
    PUT,
    SIGNED_IN,
    OperationGroup,
    Right,
    operation,
)
from sulina.operations.json_forms import Between
from sulina.operations.json_types import Count, Name, TopicText

_MANAGE = Right(Action.SCHEMAS, "{subject}")
Definition = Annotated[str, "The schema; JSON as text, too."]
DefinitionBase64 = Annotated[str | None, "Any bytes in Base64, instead of definition."]
SchemaTypeName = Annotated[str, Between(1), f"{', '.join(SchemaType)}, or another name of one."]
_Latest = Annotated[Count, "0 is the latest."]


@dataclass(frozen=True, slots=True)
class SubjectRow:
    """A subject in a list."""

    subject: Name
    id: Count
    type: SchemaType
    latest: Count
    versions: Annotated[Count, "How many there are."]
    compatibility: Compatibility
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchemaVersionRow:
    """A version of a subject in a list."""

    subject: Name
    id: Count
    version: Count
    type: SchemaType
    fingerprint: Name
    description: str
    created_by: str
    created_us: Count
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchemaDetails(SchemaVersionRow):
    """A schema as it was registered."""

    compatibility: Compatibility
    definition: bytes
    compiled: Annotated[bytes | None, "The descriptors of a Protobuf schema that is text."] = None


@dataclass(frozen=True, slots=True)
class SchemaRegistration:
    """Which version a schema is."""

    subject: Name
    id: Annotated[Count, "The subject's: the same for all its versions."]
    version: Count
    new: Annotated[bool, "false if the same schema was registered before."]
    fingerprint: Name


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """Whether a schema could be registered."""

    compatible: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubjectCompatibility:
    """What new versions of a subject must be compatible with."""

    subject: Name
    compatibility: Compatibility


@dataclass(frozen=True, slots=True)
class TopicSchema:
    """The subject of a topic's messages, and what happens to other messages."""

    topic: TopicText
    subject: Annotated[str | None, "null if the topic is not bound."]
    validation: Validation
    payload: Annotated[bool, "Whether payloads are checked."]


class SchemaOperations(OperationGroup, name="schema"):
    """Operations on schemas; any broker answers them for the whole cluster.

    A caller may look up a subject with any right on a topic that is bound to it, or on the subject.
    """

    @operation(GET("/schemas"), right=SIGNED_IN)
    async def list(self) -> tuple[SubjectRow, ...]:
        """List the subjects that the caller may look up."""

    @operation(GET("/schemas/{subject}"), right=SIGNED_IN)
    async def get(self, subject: Name, *, version: _Latest = 0) -> SchemaDetails:
        """Show a schema as it was registered."""

    @operation(DELETE("/schemas/{subject}"), right=_MANAGE)
    async def delete(
        self, subject: Name, *, version: Annotated[int | None, Between(), "All if omitted."] = None
    ) -> None:
        """Delete a version, or a subject with all its versions."""

    @operation(GET("/schemas/{subject}/versions"), right=SIGNED_IN)
    async def versions(self, subject: Name) -> tuple[SchemaVersionRow, ...]:
        """List the versions of a subject."""

    @operation(POST("/schemas/{subject}/versions", 201), right=_MANAGE)
    async def register(
        self,
        subject: Name,
        type: SchemaTypeName,
        *,
        definition: Definition = "",
        definition_base64: DefinitionBase64 = None,
        description: str = "",
        by: Annotated[
            str, "Author to record; only without authentication, or with the root token."
        ] = "",
        tags: Sequence[str] = (),
    ) -> SchemaRegistration:
        """Register a schema as the next version, unless the same one is registered already."""

    @operation(POST("/schemas/{subject}/find"), right=SIGNED_IN, audited=False)
    async def find(
        self,
        subject: Name,
        type: SchemaTypeName,
        *,
        definition: Definition = "",
        definition_base64: DefinitionBase64 = None,
    ) -> SchemaRegistration:
        """Find the version that equals a schema; nothing is changed."""

    @operation(POST("/schemas/{subject}/check"), right=_MANAGE, audited=False)
    async def check(
        self,
        subject: Name,
        type: SchemaTypeName,
        *,
        definition: Definition = "",
        definition_base64: DefinitionBase64 = None,
        compatibility: Annotated[Compatibility | None, "The subject's own if omitted."] = None,
    ) -> SchemaCheck:
        """Check whether a schema could be registered, and why not; nothing is changed."""

    @operation(PUT("/schemas/{subject}/compatibility", readable=True), right=_MANAGE)
    async def compatibility(
        self, subject: Name, *, compatibility: Compatibility | None = None
    ) -> SubjectCompatibility:
        """Show or set which compatibility new versions of a subject need."""

    @operation(GET("/schema-ids/{id}"), right=SIGNED_IN)
    async def lookup(self, id: Count, *, version: _Latest = 0) -> SchemaDetails:
        """Show a schema by the id that messages carry."""

    @operation(GET("/topics/{topic}/schema"), right=Right(None, "{topic}"))
    async def topic(self, topic: TopicText) -> TopicSchema:
        """Show the subject of a topic's messages, and what happens to other messages."""

    @operation(PUT("/topics/{topic}/schema"), right=Right(Action.TOPICS, "{topic}"))
    async def bind(
        self,
        topic: TopicText,
        *,
        subject: Annotated[str | None, "The one it is bound to if omitted."] = None,
        validation: Validation | None = None,
        payload: Annotated[bool | None, "Whether payloads are checked."] = None,
    ) -> TopicSchema:
        """Bind a topic to a subject, or change what happens to other messages."""
