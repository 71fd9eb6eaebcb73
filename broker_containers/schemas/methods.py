"""Administrative methods about schemas, for every door that offers ``Admin``.

A definition is text, or any bytes in base64 as ``definition_base64``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from broker_containers.arguments import Arguments, Method, number, text
from broker_containers.schemas.errors import InvalidSchema
from broker_containers.schemas.formats import mode_of, validation_of
from broker_containers.schemas.registry import SchemaRegistry
from broker_containers.schemas.values import Registered, Remarks, Schema
from sulina.errors import Refused
from sulina.metadata.keys.schemas import SubjectRecord, TopicSchemaRecord, Validation
from sulina.names import TopicName


def schema_methods(registry: SchemaRegistry) -> dict[str, Method]:
    """The methods, for ``Admin`` to offer. Every broker can answer them for the whole cluster."""

    async def register(arguments: Arguments) -> Any:
        made = await registry.register(
            text(arguments, "subject"), text(arguments, "type"), *_given(arguments)
        )
        return _registered(text(arguments, "subject"), made)

    async def find(arguments: Arguments) -> Any:
        subject = text(arguments, "subject")
        found = await registry.find(subject, text(arguments, "type"), _definition(arguments))
        return _registered(subject, found)

    async def list_(_: Arguments) -> Any:
        return [_row(name, found) for name, found in (await registry.subjects()).items()]

    async def get(arguments: Arguments) -> Any:
        version = number(arguments, "version", 0) or None
        return _schema(await registry.version(text(arguments, "subject"), version))

    async def lookup(arguments: Arguments) -> Any:
        version = number(arguments, "version", 0) or None
        return _schema(await registry.get(_id(arguments), version))

    async def versions(arguments: Arguments) -> Any:
        return [_version(found) for found in await registry.versions(text(arguments, "subject"))]

    async def check(arguments: Arguments) -> Any:
        mode = arguments.get("compatibility")
        reasons = await registry.check(
            text(arguments, "subject"),
            text(arguments, "type"),
            _definition(arguments),
            None if mode is None else mode_of(text(arguments, "compatibility")),
        )
        return {"compatible": not reasons, "reasons": reasons}

    async def compatibility(arguments: Arguments) -> Any:
        subject = text(arguments, "subject")
        if arguments.get("compatibility") is not None:
            mode = mode_of(text(arguments, "compatibility"))
            await registry.set_compatibility(subject, mode)
        found = await registry.subject(subject)
        return {"subject": subject, "compatibility": found.compatibility.value}

    async def delete(arguments: Arguments) -> Any:
        subject = text(arguments, "subject")
        if "version" in arguments:
            await registry.delete_version(subject, number(arguments, "version", 0))
        else:
            await registry.delete_subject(subject)
        return {}

    async def topic(arguments: Arguments) -> Any:
        name = TopicName.parse(text(arguments, "topic"))
        return _topic(name, await registry.topics.get(name))

    async def bind(arguments: Arguments) -> Any:
        name = TopicName.parse(text(arguments, "topic"))
        before = await registry.topics.get(name)
        subject = arguments.get("subject") or (before.subject if before else "")
        default = before or TopicSchemaRecord(subject)
        validation = default.validation
        if "validation" in arguments:
            validation = validation_of(text(arguments, "validation"))
        payload = arguments.get("payload", default.payload)
        if not isinstance(payload, bool):
            raise Refused(f"payload is true or false, not {payload!r}")
        if not isinstance(subject, str) or not subject:
            raise Refused("subject is missing: name the schema subject of the topic's messages")
        wanted = TopicSchemaRecord(subject, validation, payload)
        await registry.topics.configure(name, wanted)
        return _topic(name, wanted)

    return {
        "schema.register": register,
        "schema.find": find,
        "schema.list": list_,
        "schema.get": get,
        "schema.lookup": lookup,
        "schema.versions": versions,
        "schema.check": check,
        "schema.compatibility": compatibility,
        "schema.delete": delete,
        "schema.topic": topic,
        "schema.bind": bind,
    }


def _registered(subject: str, made: Registered) -> dict[str, Any]:
    return {
        "subject": subject,
        "id": made.id,
        "version": made.version,
        "new": made.new,
        "fingerprint": made.fingerprint,
    }


def _id(arguments: Arguments) -> int:
    """A number, or its digits: in a path it is text."""
    value = arguments.get("id")
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value)
    return number({"id": value}, "id", 0)


def _definition(arguments: Arguments) -> bytes:
    plain, encoded = arguments.get("definition", ""), arguments.get("definition_base64")
    if encoded is None:
        if not isinstance(plain, str):
            raise Refused("definition must be text: JSON as a text too")
        return plain.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Refused("definition_base64 is not base64") from None


def _given(arguments: Arguments) -> tuple[bytes, Remarks]:
    tags = arguments.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Refused(f"tags must be a list of texts, not {tags!r}")
    texts = [arguments.get(name) or "" for name in ("description", "by")]
    if not all(isinstance(each, str) for each in texts):
        raise InvalidSchema("description and by must be texts")
    return _definition(arguments), Remarks(texts[0], texts[1], tuple(tags))


def _row(name: str, found: SubjectRecord) -> dict[str, Any]:
    return {
        "subject": name,
        "id": found.id,
        "type": found.latest.type.value,
        "latest": found.latest.number,
        "versions": len(found.versions),
        "compatibility": found.compatibility.value,
        "tags": list(found.tags),
    }


def _version(found: Schema) -> dict[str, Any]:
    version = found.version
    return {
        "subject": found.subject,
        "id": found.id,
        "version": version.number,
        "type": version.type.value,
        "fingerprint": version.fingerprint,
        "description": version.description,
        "created_by": version.created_by,
        "created_us": version.created_us,
        "tags": list(version.tags),
    }


def _schema(found: Schema) -> dict[str, Any]:
    return {
        **_version(found),
        "compatibility": found.compatibility.value,
        **_definition_of(found.version.definition_bytes),
    }


def _definition_of(definition: bytes) -> Mapping[str, str]:
    try:
        return {"definition": definition.decode()}
    except UnicodeDecodeError:
        return {"definition_base64": base64.b64encode(definition).decode()}


def _topic(name: TopicName, found: TopicSchemaRecord | None) -> dict[str, Any]:
    return {
        "topic": str(name),
        "subject": found.subject if found else None,
        "validation": (found.validation if found else Validation.NONE).value,
        "payload": bool(found and found.payload),
    }
