"""Handlers of the operations on messages, which the topic's owner runs, and their publisher."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from broker_containers.broker.broker import Broker
from broker_containers.operations.running import handles
from broker_containers.quotas.rates import Direction
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.topic_log.tail_cache import CachedFrame
from broker_containers.topics.single_publish import publish_one
from sulina.audit import TOPIC as AUDIT_TOPIC
from sulina.client.delays import expiry_time
from sulina.errors import (
    Overloaded,
    Refused,
    StorageFull,
    SulinaError,
    TooLarge,
    UnknownOutcome,
)
from sulina.model import Start
from sulina.names import TopicName
from sulina.operations.messages import (
    MessageOperations,
    NewMessage,
    PeekedMessages,
    PublishedAt,
    StoredMessage,
)
from sulina.runtime.seam import RunBlocking
from sulina.runtime.tasks import stop_tasks
from sulina.wire.decode import Frame
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
    expires_us: int | None

    @property
    def schema(self) -> tuple[int, int]:
        return _schema(self.messages[0])


class Publisher:
    """Publishes for callers that are not producers; ``http.max_waiting_bytes`` may wait.

    Messages that wait for the same topic share a frame. Each topic has one producer, attached only
    while there is something to publish, so that a frame's outcome is known before the next frame
    is sent. A message is published even if its sender has disconnected.
    """

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
        than one schema or expiry, ``InvalidPayload`` if they don't match the topic's schema, and
        what the topic raises.
        """
        await self._check_schema(topic, messages)
        expires_us = _expiry(messages, time_us)
        size = sum(map(_size, messages))
        limit = self._broker.settings.http.max_waiting_bytes
        # Audit records are few; administration must not depend on what clients publish.
        if self._bytes + size > limit and str(topic) != AUDIT_TOPIC:
            raise Overloaded("too much is being published over HTTP: try again, or slow down")
        self._bytes += size
        outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        queue = self._queues.get(topic)
        if queue is None:
            queue = self._queues[topic] = deque()
            task = asyncio.create_task(self._run(topic, queue), name=f"http-publish-{topic}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        queue.append(_Waiting(messages, time_us, size, outcome, expires_us))
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
        await stop_tasks(*self._tasks)

    async def _run(self, name: TopicName, queue: deque[_Waiting]) -> None:
        batch: list[_Waiting] = []
        try:
            while queue:
                batch = _take(queue)
                await self._publish(name, batch)
                self._bytes -= sum(waiting.size for waiting in batch)
                quotas = self._broker.quotas
                await quotas.pace(
                    Direction.PUBLISH,
                    quotas.where(name.namespace, ""),
                    sum(len(waiting.messages) for waiting in batch),
                    sum(waiting.size for waiting in batch),
                )
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
    kind = batch[0].schema, batch[0].expires_us
    while queue and (queue[0].schema, queue[0].expires_us) == kind:
        size += queue[0].size
        count += len(queue[0].messages)
        if size > _FRAME_BYTES or count > _FRAME_MESSAGES:
            break
        batch.append(queue.popleft())
    return batch


def _size(message: NewMessage) -> int:
    extra = sum(len(name) + len(value) for name, value in message.attributes.items())
    return len(message.payload) + len(message.key or b"") + extra + _OBJECTS


def _expiry(messages: Sequence[NewMessage], time_us: int) -> int | None:
    """The expiry time of messages that share a frame."""
    named = {message.expires_ms for message in messages}
    if len(named) > 1:
        raise Refused("messages of one request expire together: send the others separately")
    (expires_ms,) = named
    return None if expires_ms is None else expiry_time(expires_ms / 1000, time_us)


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
        expires_us=batch[0].expires_us,
    )


_EARLIEST = Start.earliest()
_MOST_OPENED: Final = 16 << 20
"""Bytes to decompress for one answer."""
_FIXED_BYTES: Final = 160
"""Of a message in an answer."""


class MessageHandlers:
    """Publishes to and reads from topics that this broker owns."""

    def __init__(self, broker: Broker, publisher: Publisher, run_blocking: RunBlocking) -> None:
        self._broker = broker
        self._publisher = publisher
        self._run_blocking = run_blocking

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
        peek = _Peek(place, limit, settings.max_peek_bytes)
        reader = found.log.reader(place)
        while not peek.full:
            frames = await reader.read(settings.max_peek_bytes)
            if not frames:
                break
            # In a thread: a small frame may decompress to many megabytes.
            await self._run_blocking(partial(peek.add, frames))
        messages, quotas = peek.messages, self._broker.quotas
        await quotas.pace(
            Direction.DISPATCH,
            quotas.where(found.name.namespace, ""),
            len(messages),
            sum(len(message.payload) for message in messages),
        )
        following = messages[-1].offset + 1 if messages else max(place, found.log.start)
        return PeekedMessages(
            str(found.name), tuple(messages), following, following >= found.log.end
        )


class _Peek:
    """Collects messages until the answer, or what was decompressed for it, is large enough."""

    def __init__(self, place: int, limit: int, room: int) -> None:
        self._place = place
        self._limit = limit
        self._most = self._room = room
        self._opened = 0
        self.messages: list[StoredMessage] = []
        self.full = False

    def add(self, frames: Sequence[CachedFrame]) -> None:
        """Raises ``TooLarge`` if the first message, or the batch it is in, is too large."""
        for frame in frames:
            self._opened += frame.header.raw_length
            if self.full or (self.messages and self._opened > _MOST_OPENED):
                self.full = True
                return
            check_size(frame)
            opened = Frame(frame.data)
            for index in range(max(self._place - frame.base, 0), opened.count):
                if not self._add(stored_message(opened, index)):
                    return

    def _add(self, message: StoredMessage) -> bool:
        """Whether there is room for another one."""
        size = answer_bytes(message)
        if size > self._room and not self.messages:
            raise TooLarge(
                f"the message at offset {message.offset} takes {size} bytes, over the limit of "
                f"{self._most} (http.max_peek_bytes): read it with a consumer, or continue at "
                f"offset {message.offset + 1}"
            )
        fits = size <= self._room
        if fits:
            self._room -= size
            self.messages.append(message)
        self.full = not fits or len(self.messages) == self._limit
        return not self.full


def check_size(frame: CachedFrame) -> None:
    """Raise ``TooLarge`` if a batch is too large to open for an answer."""
    size = frame.header.raw_length
    if size > _MOST_OPENED:
        raise TooLarge(
            f"the batch at offset {frame.base} has {size} bytes when it is decompressed, over "
            f"{_MOST_OPENED}: read it with a consumer, or continue at offset "
            f"{frame.header.next_offset}"
        )


def answer_bytes(message: StoredMessage) -> int:
    """About how many bytes it takes in an answer."""
    texts = len(json.dumps([message.producer, dict(message.attributes)]))
    return _FIXED_BYTES + texts + _written(message.payload) + _written(message.key or b"")


def _written(raw: bytes) -> int:
    """The length of bytes in JSON: text, in which a character may take six, or Base64."""
    try:
        return len(json.dumps(raw.decode()))
    except UnicodeDecodeError:
        return len(raw) * 4 // 3


def stored_message(frame: Frame, index: int) -> StoredMessage:
    header = frame.header
    return StoredMessage(
        offset=header.base_offset + index,
        time_us=frame.times[index],
        producer=frame.producers[index],
        sequence=header.first_sequence + index,
        payload=bytes(frame.payloads[index]),
        key=frame.keys[index] if frame.keys else None,
        attributes=frame.attributes[index] if frame.attributes else {},
        schema_id=header.schema_id,
        schema_version=header.schema_version,
    )
