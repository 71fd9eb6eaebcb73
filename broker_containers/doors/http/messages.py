"""Publishing over HTTP, for browsers, scripts and functions: small and bounded.

The body of a publish is the message, whatever its type; key and attributes come in headers. With
the media type ``application/vnd.sulina.messages+json`` the body lists several messages instead.
Any broker takes messages of any topic: the owner of the topic, or the partition, publishes them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from broker_containers.admin import Admin
from broker_containers.broker.broker import Broker
from broker_containers.doors.http.arguments import json_object, number, read_body, topic_of
from broker_containers.doors.http.message_methods import PUBLISH, as_json, messages_of, texts
from broker_containers.doors.http.publishing import Message, Publisher
from broker_containers.doors.http.routes import MESSAGES_TYPE
from sulina.client.routing import group_by_partition
from sulina.errors import Overloaded, Refused, Retriable, StorageFull, SulinaError, UnknownOutcome
from sulina.names import TopicName

KEY_HEADER = "Sulina-Key"
SCHEMA_HEADER = "Sulina-Schema-Id"
VERSION_HEADER = "Sulina-Schema-Version"
ATTRIBUTE_HEADER = "Sulina-Attribute-"
_ENVELOPE = 64 << 10
"""What a frame may have besides its messages."""
_REMEMBERED = 10_000
_MOVE_SECONDS = 5.0
"""How long a topic that is between two owners is waited for."""
_MOVE_PAUSE = 0.05


class Messages:
    """Takes messages and sees to it that the right broker publishes them."""

    def __init__(self, broker: Broker, admin: Admin, publisher: Publisher) -> None:
        self._broker = broker
        self._admin = admin
        self._publisher = publisher
        settings = broker.settings
        self._max_body = min(settings.http.max_message_bytes, settings.max_frame_bytes - _ENVELOPE)
        self._partitions: OrderedDict[TopicName, int] = OrderedDict()
        """So that the metadata is not asked for every message."""
        self._turn = 0

    async def publish(self, request: web.Request) -> Any:
        """Answered when everything is durable."""
        name = TopicName.parse(topic_of(request))
        if request.query:
            raise Refused("publishing takes no parameters: key and attributes go in headers")
        body = await read_body(request, self._max_body)
        now = self._broker.clock.wall_us()
        if request.content_type == MESSAGES_TYPE:
            listed = messages_of(json_object(body).get("messages"), now)
            return {"messages": await self._send(name, listed)}
        attributes = {
            header[len(ATTRIBUTE_HEADER) :].lower(): value
            for header, value in request.headers.items()
            if header.lower().startswith(ATTRIBUTE_HEADER.lower())
        }
        key = request.headers.get(KEY_HEADER)
        # A key that is not UTF-8 came in as surrogates, and goes on as the bytes it was.
        encoded = None if key is None else key.encode(errors="surrogateescape")
        schema = (
            number(SCHEMA_HEADER, request.headers.get(SCHEMA_HEADER, "0")),
            number(VERSION_HEADER, request.headers.get(VERSION_HEADER, "0")),
        )
        message = Message(body, now, encoded, texts(attributes), schema)
        return (await self._send(name, [message]))[0]

    async def _send(self, name: TopicName, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Where each message is now."""
        try:
            groups = await self._grouped(name, messages)
            offsets = await asyncio.gather(
                *(
                    self._place(part, [messages[index] for index in indices])
                    for part, indices in groups.items()
                ),
                return_exceptions=True,
            )
            return _placed(messages, groups, offsets)
        except SulinaError:
            self._partitions.pop(name, None)  # it may have been deleted and made anew
            raise

    async def _grouped(
        self, name: TopicName, messages: Sequence[Message]
    ) -> dict[TopicName, Sequence[int]]:
        """Which messages go to which partition: by key as clients do it, the others in turns."""
        partitions = self._partitions.get(name)
        if partitions is None:
            record = await self._broker.describe(name, create=True, delivery=None)
            partitions = self._partitions[name] = record.partitions
            if len(self._partitions) > _REMEMBERED:
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

    async def _place(self, topic: TopicName, messages: Sequence[Message]) -> int:
        """The offset of the first message. While the topic moves, its new owner is waited for."""
        clock = self._broker.clock
        end = clock.now() + _MOVE_SECONDS
        while True:
            try:
                if await self._broker.serves(topic):
                    return await self._publisher.publish(topic, messages)
                arguments = {"topic": str(topic), "messages": as_json(messages)}
                return int((await self._admin.call(PUBLISH, arguments))["offset"])
            except (Overloaded, StorageFull):
                raise
            except Retriable:  # nothing happened, so it may be tried again
                if clock.now() > end:
                    raise
            await clock.sleep(_MOVE_PAUSE)


def _placed(
    messages: Sequence[Message],
    groups: Mapping[TopicName, Sequence[int]],
    offsets: Sequence[int | BaseException],
) -> list[dict[str, Any]]:
    errors = [each for each in offsets if isinstance(each, BaseException)]
    if errors and len(errors) < len(offsets):
        raise UnknownOutcome(f"some of the messages were stored, others not: {errors[0]}")
    if errors:
        raise errors[0]
    places: dict[int, dict[str, Any]] = {}
    for (part, indices), base in zip(groups.items(), offsets, strict=True):
        assert isinstance(base, int)
        for offset, index in enumerate(indices, base):
            time_us = messages[index].time_us
            places[index] = {"topic": str(part), "offset": offset, "time_us": time_us}
    return [places[index] for index in range(len(messages))]
