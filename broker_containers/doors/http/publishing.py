"""Publishes messages that came over HTTP: those that wait for a topic together share a frame.

One producer a topic, attached only while there is something to publish, so a frame's outcome is
known before the next one goes. A message is answered when it is durable; when its sender has gone
it is published all the same.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker_containers.broker.broker import Broker
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.topics.single_publish import publish_one
from sulina.errors import Overloaded, Refused, StorageFull, SulinaError, UnknownOutcome
from sulina.names import TopicName
from sulina.wire.encode import Origin, encode_frame

_FRAME_BYTES = 1 << 20
_FRAME_MESSAGES = 4096
_OBJECTS = 512
"""What a message takes in memory besides its bytes, about."""


NO_SCHEMA = (0, 0)
_MOST_ID = (1 << 64) - 1
_MOST_VERSION = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Message:
    """One message to publish."""

    payload: bytes
    time_us: int
    key: bytes | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    schema: tuple[int, int] = NO_SCHEMA
    """Id and version."""

    @property
    def size(self) -> int:
        extra = sum(len(name) + len(value) for name, value in self.attributes.items())
        return len(self.payload) + len(self.key or b"") + extra + _OBJECTS


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    messages: Sequence[Message]
    size: int
    outcome: asyncio.Future[int]


class Publisher:
    """All publishing of the HTTP door. ``limit`` bounds the bytes that wait."""

    def __init__(self, broker: Broker, limit: int, schemas: SchemaChecks | None) -> None:
        """``schemas`` say which messages topics take."""
        self._broker = broker
        self._limit = limit
        self._schemas = schemas
        self._bytes = 0
        self._lanes: dict[TopicName, deque[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._name = f"http:{broker.settings.broker_id}"[:255]

    async def publish(self, topic: TopicName, messages: Sequence[Message]) -> int:
        """The offset of the first; all are durable, in one frame, one after the other.

        They name the same schema. Raises ``Overloaded`` if too much waits already,
        ``InvalidPayload`` if they are not as the topic's schema says, and whatever the topic
        raises.
        """
        await self._check_schema(topic, messages)
        size = sum(message.size for message in messages)
        if self._bytes + size > self._limit:
            raise Overloaded("too much is being published over HTTP: try again, or slow down")
        self._bytes += size
        outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        lane = self._lanes.get(topic)
        if lane is None:
            lane = self._lanes[topic] = deque()
            task = asyncio.create_task(self._run(topic, lane), name=f"http-publish-{topic}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        lane.append(_Waiting(messages, size, outcome))
        return await asyncio.shield(outcome)

    async def _check_schema(self, name: TopicName, messages: Sequence[Message]) -> None:
        for schema_id, version in {message.schema for message in messages}:
            if schema_id > _MOST_ID or version > _MOST_VERSION:
                raise Refused("schema_id has 64 bits and schema_version 32, both from 0 on")
        if self._schemas is not None:
            gate = self._schemas.of(await self._broker.topic(name))
            for message in messages:
                await gate.check(*message.schema, message.payload)

    async def close(self) -> None:
        """Give up what is not durable yet; its senders are told that the outcome is unknown."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, name: TopicName, lane: deque[_Waiting]) -> None:
        batch: list[_Waiting] = []
        try:
            while lane:
                batch = _take(lane)
                await self._publish(name, batch)
                self._bytes -= sum(waiting.size for waiting in batch)
        finally:
            del self._lanes[name]
            for waiting in (*batch, *lane):
                if not waiting.outcome.done():
                    _fail(waiting, UnknownOutcome("the broker stopped while it was publishing"))

    async def _publish(self, name: TopicName, batch: list[_Waiting]) -> None:
        messages = [message for waiting in batch for message in waiting.messages]
        sent = False

        def make(sequence: int) -> bytes:
            nonlocal sent
            sent = True
            return _frame(self._name, messages, sequence)

        try:
            topic = await self._broker.topic(name)
            offset = await publish_one(topic, self._name, make)
        except Refused as error:
            if len(batch) == 1:
                _fail(batch[0], error)
                return
            for waiting in batch:  # it may be the fault of one: the others must not suffer
                await self._publish(name, [waiting])
        except SulinaError as error:
            # A producer would send the same frame again and have repeats recognised. Whoever
            # publishes over HTTP can't, and must know that the message may be there.
            unknown = sent and not isinstance(error, StorageFull)
            for waiting in batch:
                _fail(waiting, UnknownOutcome(str(error)) if unknown else error)
        else:
            for waiting in batch:
                waiting.outcome.set_result(offset)
                offset += len(waiting.messages)


def _take(lane: deque[_Waiting]) -> list[_Waiting]:
    """As much of what waits as makes a good frame; at least the first."""
    batch = [lane.popleft()]
    size, count = batch[0].size, len(batch[0].messages)
    while lane and lane[0].messages[0].schema == batch[0].messages[0].schema:
        size += lane[0].size
        count += len(lane[0].messages)
        if size > _FRAME_BYTES or count > _FRAME_MESSAGES:
            break
        batch.append(lane.popleft())
    return batch


def _fail(waiting: _Waiting, error: SulinaError) -> None:
    waiting.outcome.set_exception(error.with_traceback(None))
    waiting.outcome.exception()  # its sender may have gone: then nobody looks at it


def _frame(producer: str, messages: Sequence[Message], sequence: int) -> bytes:
    return encode_frame(
        Origin(producer, *messages[0].schema),
        sequence,
        [message.payload for message in messages],
        [message.time_us for message in messages],
        keys=[message.key for message in messages],
        attributes=[message.attributes for message in messages],
    )
