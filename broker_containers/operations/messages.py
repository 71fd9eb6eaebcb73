"""Handlers of the operations on messages; the topic's owner runs them."""

from __future__ import annotations

from collections.abc import Sequence

from broker_containers.broker.broker import Broker
from broker_containers.operations.publishing import Publisher
from broker_containers.operations.running import handles
from sulina.errors import Refused
from sulina.model import Start
from sulina.names import TopicName
from sulina.operations.messages import (
    MessageOperations,
    NewMessage,
    PeekedMessages,
    PublishedAt,
    StoredMessage,
)
from sulina.wire.decode import Frame

_EARLIEST = Start.earliest()


class MessageHandlers:
    """Publishes to and reads from topics that this broker owns."""

    def __init__(self, broker: Broker, publisher: Publisher) -> None:
        self._broker = broker
        self._publisher = publisher

    @handles(MessageOperations.publish)
    async def publish(self, topic: str, messages: Sequence[NewMessage]) -> PublishedAt:
        name = TopicName.parse(topic)
        now = self._broker.clock.wall_us()
        return PublishedAt(str(name), await self._publisher.publish(name, messages, now))

    @handles(MessageOperations.peek)
    async def peek(
        self, topic: str, *, start: Start = _EARLIEST, limit: int = 10
    ) -> PeekedMessages:
        settings = self._broker.settings.http
        if limit > settings.max_peek_messages:
            raise Refused(f"limit is a number from 1 to {settings.max_peek_messages}, not {limit}")
        found = await self._broker.topic(TopicName.parse(topic), create=False)
        place = await found.resolve(start)
        room = settings.max_peek_bytes
        messages: list[StoredMessage] = []
        reader = found.log.reader(place)
        while len(messages) < limit and room > 0:
            frames = await reader.read(room)
            if not frames:
                break
            for frame in frames:
                opened = Frame(frame.data)
                for index in range(max(place - frame.base, 0), opened.count):
                    if len(messages) == limit or room <= 0:
                        break
                    messages.append(_stored(opened, index))
                    room -= len(opened.payloads[index])
        following = messages[-1].offset + 1 if messages else max(place, found.log.start)
        return PeekedMessages(
            str(found.name), tuple(messages), following, following >= found.log.end
        )


def _stored(frame: Frame, index: int) -> StoredMessage:
    header = frame.header
    return StoredMessage(
        offset=header.base_offset + index,
        time_us=frame.times[index],
        producer=frame.producer_name,
        sequence=header.first_sequence + index,
        payload=bytes(frame.payloads[index]),
        key=frame.keys[index] if frame.keys else None,
        attributes=frame.attributes[index] if frame.attributes else {},
        schema_id=header.schema_id,
        schema_version=header.schema_version,
    )
