"""Operations on messages: publish and read a few, as JSON."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from sulina.errors import Refused
from sulina.metadata.keys.auth import Action
from sulina.model import Start
from sulina.operations.declaration import (
    GET,
    POST,
    OperationGroup,
    Right,
    RunsOn,
    choices,
    operation,
)
from sulina.operations.json_forms import (
    Between,
    Count,
    JsonForm,
    Schema,
    TopicText,
    WholeForm,
    shown,
)
from sulina.operations.subscriptions import Position

MOST_MESSAGES: Final = 4096
"""The most that one call publishes."""
_WHOLE: Final = WholeForm(Between())
_BASE64: Final = {"type": "string", "contentEncoding": "base64"}


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to publish."""

    payload: bytes
    key: bytes | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    schema_id: int = 0
    schema_version: int = 0


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message that was read."""

    offset: int
    time_us: int
    producer: str
    sequence: int
    payload: bytes
    key: bytes | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    schema_id: int = 0
    schema_version: int = 0


class NewMessageForm(JsonForm):
    """``payload`` and ``key`` are text, or Base64 as ``payload_base64`` and ``key_base64``."""

    _fields: Final = (
        *("payload", "payload_base64", "key", "key_base64"),
        *("attributes", "schema_id", "schema_version"),
    )

    def encode(self, value: Any) -> Any:
        found: dict[str, Any] = {"payload_base64": base64.b64encode(value.payload).decode()}
        if value.key is not None:
            found["key_base64"] = base64.b64encode(value.key).decode()
        if value.attributes:
            found["attributes"] = dict(value.attributes)
        if value.schema_id or value.schema_version:
            found["schema_id"], found["schema_version"] = value.schema_id, value.schema_version
        return found

    def decode(self, value: Any, name: str) -> NewMessage:
        if not isinstance(value, dict):
            raise Refused('a message is an object, for example {"payload": "hello"}')
        unknown = value.keys() - set(self._fields)
        if unknown:
            raise Refused(f"a message has no field {min(unknown)!r}: {choices(self._fields)}")
        payload = _bytes_in(value, "payload")
        if payload is None:
            raise Refused("a message needs a payload or a payload_base64")
        attributes = value.get("attributes")
        return NewMessage(
            payload,
            _bytes_in(value, "key"),
            {} if attributes is None else checked_attributes(attributes),
            _WHOLE.decode(value.get("schema_id", 0), "schema_id"),
            _WHOLE.decode(value.get("schema_version", 0), "schema_version"),
        )

    def schema(self, named: dict[str, Schema]) -> Schema:
        text = {"type": "string"}
        named["NewMessage"] = {
            "type": "object",
            "properties": {
                "payload": {**text, "description": "Text, stored as UTF-8."},
                "payload_base64": {**_BASE64, "description": "Any bytes, instead of payload."},
                "key": text,
                "key_base64": {**_BASE64, "description": "Any bytes, instead of key."},
                "attributes": {"type": "object", "additionalProperties": text},
                "schema_id": {
                    **_WHOLE.schema(named),
                    "description": "The schema it was written with; the same for all of a call.",
                },
                "schema_version": _WHOLE.schema(named),
            },
            "additionalProperties": False,
            "oneOf": [{"required": ["payload"]}, {"required": ["payload_base64"]}],
        }
        return {"$ref": "#/components/schemas/NewMessage"}


class StoredMessageForm(JsonForm):
    """Bytes that are not UTF-8 text come as ``payload_base64`` and ``key_base64``."""

    _numbers: Final = ("offset", "time_us", "sequence", "schema_id", "schema_version")

    def encode(self, value: Any) -> Any:
        found: dict[str, Any] = {
            "offset": value.offset,
            "time_us": value.time_us,
            "producer": value.producer,
            "sequence": value.sequence,
            "attributes": dict(value.attributes),
        }
        if value.schema_id:
            found["schema_id"], found["schema_version"] = value.schema_id, value.schema_version
        if value.key is not None:
            _add_bytes(found, "key", value.key)
        _add_bytes(found, "payload", value.payload)
        return found

    def decode(self, value: Any, name: str) -> StoredMessage:
        if not isinstance(value, dict):
            raise Refused(f"{name} must be an object, not {shown(value)}")
        whole = {each: _WHOLE.decode(value.get(each, 0), each) for each in self._numbers}
        return StoredMessage(
            producer=str(value.get("producer", "")),
            payload=_bytes_in(value, "payload") or b"",
            key=_bytes_in(value, "key"),
            attributes=checked_attributes(value.get("attributes", {})),
            **whole,
        )

    def schema(self, named: dict[str, Schema]) -> Schema:
        text, whole = {"type": "string"}, _WHOLE.schema(named)
        named["StoredMessage"] = {
            "type": "object",
            "properties": {
                "offset": whole,
                "time_us": whole,
                "producer": text,
                "sequence": whole,
                "schema_id": {**whole, "description": "Present if the message names a schema."},
                "schema_version": whole,
                "key": text,
                "key_base64": _BASE64,
                "attributes": {"type": "object", "additionalProperties": text},
                "payload": {**text, "description": "Present if it is UTF-8 text."},
                "payload_base64": {**_BASE64, "description": "Present if it is not."},
            },
            "required": ["offset", "time_us", "producer", "sequence", "attributes"],
            "oneOf": [{"required": ["payload"]}, {"required": ["payload_base64"]}],
        }
        return {"$ref": "#/components/schemas/StoredMessage"}


@dataclass(frozen=True, slots=True)
class PublishedAt:
    """Where published messages are: the offset of the first, the others follow it."""

    topic: TopicText
    offset: int


@dataclass(frozen=True, slots=True)
class PeekedMessages:
    """Messages that were read without a subscription."""

    topic: TopicText
    messages: tuple[Annotated[StoredMessage, StoredMessageForm()], ...]
    next_offset: Annotated[Count, "Where to continue."]
    at_end: bool


class MessageOperations(OperationGroup, name="messages"):
    """Operations on the messages of a topic without partitions, or of one partition."""

    @operation(
        POST("/topics/{topic}/messages"),
        right=Right(Action.PRODUCE, "{topic}"),
        runs_on=RunsOn.TOPIC_OWNER,
    )
    async def publish(
        self,
        topic: TopicText,
        messages: Annotated[
            Sequence[Annotated[NewMessage, NewMessageForm()]], Between(1, MOST_MESSAGES)
        ],
    ) -> PublishedAt:
        """Publish messages in one frame; answered when they are durable."""

    @operation(
        GET("/topics/{topic}/messages"),
        right=Right(Action.CONSUME, "{topic}"),
        runs_on=RunsOn.TOPIC_OWNER,
    )
    async def peek(
        self,
        topic: TopicText,
        *,
        start: Position = Start.earliest(),  # noqa: B008
        limit: Annotated[int, Between(1), "Read at most this many."] = 10,
    ) -> PeekedMessages:
        """Read messages without a subscription; nothing is acknowledged."""


def checked_attributes(attributes: Any) -> dict[str, str]:
    """Attributes, if all of them are text. Raises ``Refused``."""
    if not isinstance(attributes, Mapping):
        raise Refused("attributes is an object of texts")
    for name, value in attributes.items():
        if not isinstance(value, str):
            raise Refused(f"the attribute {name!r} is not text")
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            raise Refused("names and values of attributes must be UTF-8 text") from None
    return dict(attributes)


def _bytes_in(value: Mapping[str, Any], name: str) -> bytes | None:
    plain, encoded = value.get(name), value.get(f"{name}_base64")
    if plain is not None and encoded is not None:
        raise Refused(f"{name} and {name}_base64 are given: choose one")
    given = plain if encoded is None else encoded
    if given is None:
        return None
    if not isinstance(given, str):
        raise Refused(f"{name} is a text, not {given!r:.40}: put JSON in quotes")
    try:
        return given.encode() if encoded is None else base64.b64decode(given, validate=True)
    except UnicodeEncodeError:
        raise Refused("half of a surrogate pair is not text: send it as Base64") from None
    except (binascii.Error, ValueError):
        raise Refused(f"{name}_base64 is not Base64: use the standard alphabet") from None


def _add_bytes(into: dict[str, Any], name: str, value: bytes) -> None:
    try:
        into[name] = value.decode()
    except UnicodeDecodeError:
        into[f"{name}_base64"] = base64.b64encode(value).decode()
