"""Publish and peek as methods of ``Admin``: in a cluster the topic's owner answers them.

Messages are JSON here: ``payload`` and ``key`` are text, or Base64 under ``payload_base64`` and
``key_base64``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from broker_containers.arguments import Arguments, Method, number, text
from broker_containers.broker.broker import Broker
from broker_containers.broker.settings import HttpSettings
from broker_containers.doors.http.publishing import NO_SCHEMA, Message, Publisher
from broker_containers.doors.http.schemas import MESSAGE_IN
from broker_containers.schemas.checks import SchemaChecks
from sulina.errors import Refused
from sulina.model import Start
from sulina.names import TopicName
from sulina.wire.decode import Frame

PUBLISH = "messages.publish"
PEEK = "messages.peek"
MOST_MESSAGES = 4096
_PEEK_LIMIT = 10
_LONGEST_NUMBER = 18
"""Digits of an offset: fewer than 63 bits have."""


class MessageMethods:
    """The two methods, on topics that this broker serves."""

    def __init__(
        self, broker: Broker, settings: HttpSettings, schemas: SchemaChecks | None
    ) -> None:
        self._broker = broker
        self._settings = settings
        self.publisher = Publisher(broker, settings.max_waiting_bytes, schemas)

    def methods(self) -> dict[str, Method]:
        """Both, by name."""
        return {PUBLISH: self._publish, PEEK: self._peek}

    async def _publish(self, arguments: Arguments) -> Any:
        """All ``messages`` in one frame; answered when they are durable."""
        name = TopicName.parse(text(arguments, "topic"))
        messages = messages_of(arguments.get("messages"), self._broker.clock.wall_us())
        return {"topic": str(name), "offset": await self.publisher.publish(name, messages)}

    async def _peek(self, arguments: Arguments) -> Any:
        """Messages from ``start`` on; fewer than ``limit`` if they are many bytes."""
        topic = await self._broker.topic(TopicName.parse(text(arguments, "topic")), create=False)
        limit = number(arguments, "limit", _PEEK_LIMIT)
        most, room = self._settings.max_peek_messages, self._settings.max_peek_bytes
        if not 0 < limit <= most:
            raise Refused(f"limit is a number from 1 to {most}, not {limit}")
        place = await topic.resolve(_start(arguments.get("start", "earliest")))
        found: list[dict[str, Any]] = []
        reader = topic.log.reader(place)
        while len(found) < limit and room > 0:
            frames = await reader.read(room)
            if not frames:
                break
            for frame in frames:
                opened = Frame(frame.data)
                for index in range(max(place - frame.base, 0), opened.count):
                    if len(found) == limit or room <= 0:
                        break
                    found.append(_shown(opened, index))
                    room -= len(opened.payloads[index])
        following = found[-1]["offset"] + 1 if found else max(place, topic.log.start)
        return {
            "topic": str(topic.name),
            "messages": found,
            "next_offset": following,
            "at_end": following >= topic.log.end,
        }


# ---- from JSON ----


def messages_of(listed: Any, now_us: int) -> list[Message]:
    """The messages that a list of objects describes. Raises ``Refused``."""
    if not isinstance(listed, list) or not 0 < len(listed) <= MOST_MESSAGES:
        raise Refused(f"messages is a list of 1 to {MOST_MESSAGES} objects")
    made = [_message(each, now_us) for each in listed]
    if len({message.schema for message in made}) > 1:
        raise Refused("messages of one request name one schema: send those of another separately")
    return made


def _message(value: Any, now_us: int) -> Message:
    if not isinstance(value, dict):
        raise Refused('a message is an object, for example {"payload": "hello"}')
    unknown = set(value) - set(MESSAGE_IN["properties"])
    if unknown:
        known = ", ".join(MESSAGE_IN["properties"])
        raise Refused(f"a message has no field {min(unknown)!r}: choose from {known}")
    payload = _binary(value, "payload")
    if payload is None:
        raise Refused("a message needs a payload or a payload_base64")
    attributes = value.get("attributes", {})
    if not isinstance(attributes, dict):
        raise Refused("attributes is an object of texts")
    schema = number(value, "schema_id", 0), number(value, "schema_version", 0)
    return Message(payload, now_us, _binary(value, "key"), texts(attributes), schema)


def _binary(value: Mapping[str, Any], name: str) -> bytes | None:
    plain, encoded = value.get(name), value.get(f"{name}_base64")
    if plain is not None and encoded is not None:
        raise Refused(f"{name} and {name}_base64 are given: choose one")
    given = plain if encoded is None else encoded
    if given is None:
        return None
    if not isinstance(given, str):
        raise Refused(f"{name} is a text, not {given!r:.40}: put JSON in quotes")
    try:
        if encoded is None:
            return given.encode()
        return base64.b64decode(given, validate=True)
    except UnicodeEncodeError:
        raise Refused("half of a surrogate pair is no text: send it as Base64") from None
    except (binascii.Error, ValueError):
        raise Refused(f"{name}_base64 is not Base64: use the standard alphabet") from None


def texts(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Attributes, if all of them are texts. Raises ``Refused``."""
    for name, value in attributes.items():
        if not isinstance(value, str):
            raise Refused(f"the attribute {name!r} is not a text")
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            raise Refused("names and values of attributes must be UTF-8 text") from None
    return dict(attributes)


def _start(value: Any) -> Start:
    if value == "earliest":
        return Start.earliest()
    if value == "latest":
        return Start.latest()
    digits = str(value)
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _LONGEST_NUMBER):
        raise Refused(f"start is earliest, latest or an offset, not {value!r}")
    return Start.offset(int(digits))


# ---- to JSON ----


def as_json(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """For another broker; the reverse of ``messages_of``."""
    listed: list[dict[str, Any]] = []
    for message in messages:
        one: dict[str, Any] = {"payload_base64": base64.b64encode(message.payload).decode()}
        if message.key is not None:
            one["key_base64"] = base64.b64encode(message.key).decode()
        if message.attributes:
            one["attributes"] = dict(message.attributes)
        if message.schema != NO_SCHEMA:
            one["schema_id"], one["schema_version"] = message.schema
        listed.append(one)
    return listed


def _shown(frame: Frame, index: int) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "offset": frame.header.base_offset + index,
        "time_us": frame.times[index],
        "producer": frame.producer_name,
        "sequence": frame.header.first_sequence + index,
        "attributes": frame.attributes[index] if frame.attributes else {},
    }
    if frame.header.schema_id:
        shown["schema_id"] = frame.header.schema_id
        shown["schema_version"] = frame.header.schema_version
    key = frame.keys[index] if frame.keys else None
    if key is not None:
        _show(shown, "key", key)
    _show(shown, "payload", frame.payloads[index])
    return shown


def _show(into: dict[str, Any], name: str, value: bytes) -> None:
    try:
        into[name] = value.decode()
    except UnicodeDecodeError:
        into[f"{name}_base64"] = base64.b64encode(value).decode()
