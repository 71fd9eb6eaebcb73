"""Publishes single messages from HTTP and from operations: those waiting for a topic share a frame.

Each topic has one producer, attached only while there is something to publish, so that a frame's
outcome is known before the next frame is sent. A message is answered when it is durable; it is
published even if its sender has disconnected.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from broker_containers.broker.broker import Broker
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.topics.single_publish import publish_one
from sulina.errors import Overloaded, Refused, StorageFull, SulinaError, UnknownOutcome
from sulina.names import TopicName
from sulina.operations.messages import NewMessage
from sulina.wire.encode import Origin, encode_frame

_FRAME_BYTES = 1 << 20
_FRAME_MESSAGES = 4096
_OBJECTS = 512
"""What a message takes in memory besides its bytes, approximately."""
_MOST_ID = (1 << 64) - 1
_MOST_VERSION = (1 << 32) - 1


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    messages: Sequence[NewMessage]
    time_us: int
    size: int
    outcome: asyncio.Future[int]

    @property
    def schema(self) -> tuple[int, int]:
        return _schema(self.messages[0])


class Publisher:
    """Publishes for callers that are not producers; ``http.max_waiting_bytes`` may wait."""

    def __init__(self, broker: Broker, schemas: SchemaChecks) -> None:
        """``schemas`` say which messages topics accept."""
        self._broker = broker
        self._schemas = schemas
        self._bytes = 0
        self._queues: dict[TopicName, deque[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._name = f"http:{broker.settings.broker_id}"[:255]

    async def publish(self, topic: TopicName, messages: Sequence[NewMessage], time_us: int) -> int:
        """Publish all messages in one frame; returns the offset of the first when they are durable.

        Raises ``Overloaded`` if too many bytes are waiting, ``Refused`` if the messages name more
        than one schema, ``InvalidPayload`` if they don't match the topic's schema, and what the
        topic raises.
        """
        await self._check_schema(topic, messages)
        size = sum(map(_size, messages))
        if self._bytes + size > self._broker.settings.http.max_waiting_bytes:
            raise Overloaded("too much is being published over HTTP: try again, or slow down")
        self._bytes += size
        outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        queue = self._queues.get(topic)
        if queue is None:
            queue = self._queues[topic] = deque()
            task = asyncio.create_task(self._run(topic, queue), name=f"http-publish-{topic}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        queue.append(_Waiting(messages, time_us, size, outcome))
        return await asyncio.shield(outcome)

    async def _check_schema(self, name: TopicName, messages: Sequence[NewMessage]) -> None:
        named = {_schema(message) for message in messages}
        if len(named) > 1:
            raise Refused("messages of one request name one schema: send the others separately")
        for schema_id, version in named:
            if schema_id > _MOST_ID or version > _MOST_VERSION:
                raise Refused("schema_id has at most 64 bits, and schema_version at most 32")
        gate = self._schemas.of(await self._broker.topic(name))
        for message in messages:
            await gate.check(*_schema(message), message.payload)

    async def close(self) -> None:
        """Give up what is not durable yet; its senders get ``UnknownOutcome``."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, name: TopicName, queue: deque[_Waiting]) -> None:
        batch: list[_Waiting] = []
        try:
            while queue:
                batch = _take(queue)
                await self._publish(name, batch)
                self._bytes -= sum(waiting.size for waiting in batch)
        finally:
            del self._queues[name]
            for waiting in (*batch, *queue):
                if not waiting.outcome.done():
                    _fail(waiting, UnknownOutcome("the broker stopped while it was publishing"))

    async def _publish(self, name: TopicName, batch: list[_Waiting]) -> None:
        sent = False

        def make(sequence: int) -> bytes:
            nonlocal sent
            sent = True
            return _frame(self._name, batch, sequence)

        try:
            topic = await self._broker.topic(name)
            offset = await publish_one(topic, self._name, make)
        except Refused as error:
            if len(batch) == 1:
                _fail(batch[0], error)
                return
            for waiting in batch:  # one of them may be at fault: publish the others
                await self._publish(name, [waiting])
        except SulinaError as error:
            # A producer sends the same frame again, and the broker recognises the repeat. Callers
            # without a sequence can't, and must know that the message may have been stored.
            unknown = sent and not isinstance(error, StorageFull)
            for waiting in batch:
                _fail(waiting, UnknownOutcome(str(error)) if unknown else error)
        else:
            for waiting in batch:
                waiting.outcome.set_result(offset)
                offset += len(waiting.messages)


def _take(queue: deque[_Waiting]) -> list[_Waiting]:
    """As much of what waits as makes a good frame; at least the first."""
    batch = [queue.popleft()]
    size, count = batch[0].size, len(batch[0].messages)
    while queue and queue[0].schema == batch[0].schema:
        size += queue[0].size
        count += len(queue[0].messages)
        if size > _FRAME_BYTES or count > _FRAME_MESSAGES:
            break
        batch.append(queue.popleft())
    return batch


def _size(message: NewMessage) -> int:
    extra = sum(len(name) + len(value) for name, value in message.attributes.items())
    return len(message.payload) + len(message.key or b"") + extra + _OBJECTS


def _schema(message: NewMessage) -> tuple[int, int]:
    return message.schema_id, message.schema_version


def _fail(waiting: _Waiting, error: SulinaError) -> None:
    waiting.outcome.set_exception(error.with_traceback(None))
    waiting.outcome.exception()  # its sender may have gone, and then nothing retrieves it


def _frame(producer: str, batch: Sequence[_Waiting], sequence: int) -> bytes:
    messages = [message for waiting in batch for message in waiting.messages]
    return encode_frame(
        Origin(producer, *batch[0].schema),
        sequence,
        [message.payload for message in messages],
        [waiting.time_us for waiting in batch for _ in waiting.messages],
        keys=[message.key for message in messages],
        attributes=[message.attributes for message in messages],
    )
