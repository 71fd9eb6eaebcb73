"""Publishing over HTTP, for browsers, scripts and functions: small and bounded.

The body of a request is the message, whatever its type; key and attributes come in headers. With
the media type ``application/vnd.sulina.messages+json`` the body lists several messages instead.
Any broker accepts messages for any topic: the owner of the topic or partition publishes them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web

from broker_containers.broker.broker import Broker
from broker_containers.doors.http.bodies import json_object
from broker_containers.operations.messages import Publisher
from sulina.client.routing import group_by_partition
from sulina.errors import Overloaded, Refused, Retriable, StorageFull, SulinaError, UnknownOutcome
from sulina.names import TopicName
from sulina.operations.client import AdminClient
from sulina.operations.json_forms import Between, WholeForm
from sulina.operations.json_types import Count, TopicText, form_of
from sulina.operations.messages import MessageOperations, NewMessage
from sulina.runtime.traces import TRACE_PARENT, trace_parent

MESSAGES_TYPE: Final = "application/vnd.sulina.messages+json"
KEY_HEADER: Final = "Sulina-Key"
SCHEMA_HEADER: Final = "Sulina-Schema-Id"
VERSION_HEADER: Final = "Sulina-Schema-Version"
EXPIRES_HEADER: Final = "Sulina-Expires-Ms"
ATTRIBUTE_HEADER: Final = "Sulina-Attribute-"
_ENVELOPE: Final = 64 << 10
"""What a frame may have besides its messages."""
_MOST_CACHED: Final = 10_000
_MOVE_SECONDS: Final = 5.0
"""How long to wait for the new owner of a topic that is moving."""
_MOVE_PAUSE: Final = 0.05
_WHOLE: Final = WholeForm(Between())
_SPAN: Final = WholeForm(Between(1))
_ATTRIBUTES: Final = form_of(Mapping[str, str])
_LIST: Final = MessageOperations.publish.arguments["messages"].described.form


@dataclass(frozen=True, slots=True)
class PublishedMessage:
    """Where a published message is; ``topic`` is the partition if the topic has any."""

    topic: TopicText
    offset: int
    time_us: Count


@dataclass(frozen=True, slots=True)
class PublishedMessages:
    """Where each of several messages is, in the order of the request."""

    messages: tuple[PublishedMessage, ...]


class HttpPublishing:
    """Accepts messages and has the right broker publish them."""

    def __init__(self, broker: Broker, admin: AdminClient, publisher: Publisher) -> None:
        """``admin`` reaches the brokers that own other topics."""
        self._broker = broker
        self._admin = admin
        self._publisher = publisher
        settings = broker.settings
        self.max_body = min(settings.http.max_message_bytes, settings.max_frame_bytes - _ENVELOPE)
        self._partitions: OrderedDict[TopicName, int] = OrderedDict()
        """A cache, so that not every message reads the metadata."""
        self._turn = 0

    async def publish(
        self, topic: str, request: web.Request, body: bytes
    ) -> PublishedMessage | PublishedMessages:
        """Publish what a request carries; returns when everything is durable."""
        name = TopicName.parse(topic)
        if request.query:
            raise Refused("publishing takes no parameters: key and attributes go in headers")
        if request.content_type == MESSAGES_TYPE:
            fields = json_object(body)
            if unknown := sorted(fields.keys() - {"messages"}):
                raise Refused(
                    f"there is no field {unknown[0]!r} beside messages: what is said of a message, "
                    "such as expires_ms, goes into each one"
                )
            listed = _LIST.decode(fields.get("messages"), "messages")
            return PublishedMessages(tuple(await self._send(name, [*map(_traced, listed)])))
        headers = request.headers
        attributes = {
            header[len(ATTRIBUTE_HEADER) :].lower(): value
            for header, value in headers.items()
            if header.lower().startswith(ATTRIBUTE_HEADER.lower())
        }
        key, expires = headers.get(KEY_HEADER), headers.get(EXPIRES_HEADER)
        message = NewMessage(
            body,
            # A key that is not UTF-8 was read as surrogates, and becomes the bytes it was.
            None if key is None else key.encode(errors="surrogateescape"),
            _ATTRIBUTES.decode(attributes, "attributes"),
            _WHOLE.parse(headers.get(SCHEMA_HEADER, "0"), SCHEMA_HEADER),
            _WHOLE.parse(headers.get(VERSION_HEADER, "0"), VERSION_HEADER),
            None if expires is None else _SPAN.parse(expires, EXPIRES_HEADER),
        )
        return (await self._send(name, [_traced(message)]))[0]

    async def _send(
        self, name: TopicName, messages: Sequence[NewMessage]
    ) -> list[PublishedMessage]:
        """Where each message is now."""
        now = self._broker.clock.wall_us()
        try:
            groups = await self._grouped(name, messages)
            offsets = await asyncio.gather(
                *(
                    self._publish(part, [messages[index] for index in indices], now)
                    for part, indices in groups.items()
                ),
                return_exceptions=True,
            )
            return _placed(now, groups, offsets)
        except SulinaError:
            self._partitions.pop(name, None)  # it may have been deleted and created again
            raise

    async def _grouped(
        self, name: TopicName, messages: Sequence[NewMessage]
    ) -> dict[TopicName, Sequence[int]]:
        """Which messages go to which partition: by key as in clients, without one in turns."""
        partitions = self._partitions.get(name)
        if partitions is None:
            record = await self._broker.describe(name, create=True, delivery=None)
            partitions = self._partitions[name] = record.partitions
            if len(self._partitions) > _MOST_CACHED:
                self._partitions.popitem(last=False)
        if not partitions:
            return {name: range(len(messages))}
        self._turn += 1
        groups: dict[TopicName, Sequence[int]] = {}
        by_number = group_by_partition([message.key for message in messages], partitions)
        for which, indices in by_number.items():
            part = name.partition(self._turn % partitions if which is None else which)
            groups[part] = sorted([*groups.get(part, ()), *indices])
        return groups

    async def _publish(self, topic: TopicName, messages: Sequence[NewMessage], now: int) -> int:
        """The offset of the first message. While the topic moves, waits for its new owner."""
        clock = self._broker.clock
        end = clock.now() + _MOVE_SECONDS
        while True:
            try:
                if await self._broker.serves(topic):
                    return await self._publisher.publish(topic, messages, now)
                return (await self._admin.messages.publish(str(topic), messages)).offset
            except (Overloaded, StorageFull):
                raise
            except Retriable:  # nothing happened, so it may be tried again
                if clock.now() > end:
                    raise
            await clock.sleep(_MOVE_PAUSE)


def _traced(message: NewMessage) -> NewMessage:
    """The message in the trace of its request, unless it belongs to another."""
    parent = trace_parent()
    if not parent or TRACE_PARENT in message.attributes:
        return message
    return replace(message, attributes={**message.attributes, TRACE_PARENT: parent})


def _placed(
    now: int, groups: Mapping[TopicName, Sequence[int]], offsets: Sequence[int | BaseException]
) -> list[PublishedMessage]:
    errors = [each for each in offsets if isinstance(each, BaseException)]
    if errors and len(errors) < len(offsets):
        raise UnknownOutcome(f"some of the messages were stored, others not: {errors[0]}")
    if errors:
        raise errors[0]
    places: dict[int, PublishedMessage] = {}
    for (part, indices), base in zip(groups.items(), offsets, strict=True):
        assert isinstance(base, int)
        for offset, index in enumerate(indices, base):
            places[index] = PublishedMessage(str(part), offset, now)
    return [places[index] for index in range(len(places))]
