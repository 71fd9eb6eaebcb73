"""Stores what edge gateways replicate, each message once.

A message's offset in the gateway's log is its sequence number as a producer's message. So the log
of the topic itself says what is stored, also after a crash or a move, and whatever batches a
gateway makes when it sends messages again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final
from weakref import WeakValueDictionary

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube import danube_edge_pb2 as pb
from broker_containers.doors.danube.messages import (
    DanubeRecord,
    check_message_size,
    frame_of,
    record_of,
)
from broker_containers.doors.danube.settings import FRAME_BYTES, FRAME_RECORDS
from broker_containers.doors.grpc_shared.names import BadRequest
from broker_containers.quotas.rates import Direction
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.topics.producers import TopicProducer
from broker_containers.topics.single_publish import SingleOutcome
from broker_containers.topics.topic import Topic
from sulina.errors import Overloaded, Refused
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.wire.header import check_frame

_NAME: Final = "danube-edge"
"""The producer's name on every topic; a topic belongs to one gateway."""
_LAST_OFFSET: Final = 1 << 62
_MAX_PENDING_BYTES: Final = 64 << 20
"""Batches of all gateways that wait to become durable."""

Numbered = tuple[int, DanubeRecord]


class EdgeLog:
    """Appends batches to topics that this broker serves."""

    def __init__(self, broker: Broker, schemas: SchemaChecks) -> None:
        self._broker = broker
        self._schemas = schemas
        self._pending_bytes = 0
        self._turns: WeakValueDictionary[TopicName, asyncio.Lock] = WeakValueDictionary()

    async def store(self, name: TopicName, batch: pb.ReplicateBatch, principal: str) -> None:
        """Store what is new in a batch; all of it is durable when this returns.

        Batches of a topic are stored one after the other. Raises ``Refused`` if a message violates
        the topic's policy or schema, or the topic is not reliable, and ``Retriable``.
        """
        size = batch.ByteSize()
        if self._pending_bytes + size > _MAX_PENDING_BYTES:
            raise Overloaded("too many batches are waiting to become durable: try again")
        self._pending_bytes += size
        turn = self._turns.setdefault(name, asyncio.Lock())
        try:
            async with turn:
                await self._store(name, list(self._numbered(batch)), principal)
        finally:
            self._pending_bytes -= size

    def _numbered(self, batch: pb.ReplicateBatch) -> Iterator[Numbered]:
        """The messages with their offsets, which end with the last one of the batch."""
        first = batch.batch_last_offset - len(batch.messages) + 1
        offsets = [message.msg_id.topic_offset for message in batch.messages]
        rising = all(a < b for a, b in pairwise(offsets))
        if not rising or (offsets and offsets[-1] != batch.batch_last_offset):
            if first < 0:
                raise BadRequest("the batch has more messages than offsets up to its last one")
            offsets = list(range(first, batch.batch_last_offset + 1))
        if batch.batch_last_offset > _LAST_OFFSET:
            raise BadRequest(f"batch_last_offset is over {_LAST_OFFSET}")
        for offset, message in zip(offsets, batch.messages, strict=True):
            size = check_message_size(message.ByteSize())
            yield offset, record_of(message, size, self._broker.clock)

    async def _store(self, name: TopicName, found: list[Numbered], principal: str) -> None:
        topic = await self._broker.topic(name, create=False)
        if topic.delivery is not Delivery.RELIABLE:
            raise Refused(f"{name} is not reliable: gateways replicate to reliable topics only")
        check = self._schemas.of(topic)
        sink = SingleOutcome()
        producer = await topic.attach(_NAME, sink, exclusive=False, principal=principal)
        try:
            last = topic.log.dedup.last_sequence(producer.id)
            fresh = [each for each in found if each[0] > last]
            for _, record in fresh:
                await check.check(*record.schema, record.payload)
            for frame in _frames(fresh):
                sink.outcome = asyncio.get_running_loop().create_future()
                await self._append(topic, producer, frame)
                await sink.outcome
        finally:
            topic.detach(producer)

    async def _append(
        self, topic: Topic, producer: TopicProducer, numbered: Sequence[Numbered]
    ) -> None:
        if self._broker.ledgers.overloaded:
            await self._broker.ledgers.wait_writable()
        records = [record for _, record in numbered]
        frame = memoryview(bytearray(frame_of(_NAME, numbered[0][0], records)))
        topic.publish(producer, 0, frame, check_frame(frame))
        quotas, held = topic.quotas, producer.held
        if quotas is not None and held is not None and Direction.PUBLISH in quotas.limited:
            delay = quotas.delay(Direction.PUBLISH, held.where, len(records), len(frame))
            if delay:
                await self._broker.clock.sleep(delay)


def _frames(numbered: Sequence[Numbered]) -> Iterator[list[Numbered]]:
    """Messages that share a frame: with consecutive offsets, equal schemas and times close by."""
    frame: list[Numbered] = []
    size = 0
    for offset, record in numbered:
        if frame and (
            offset != frame[-1][0] + 1
            or not record.fits(frame[0][1])
            or len(frame) == FRAME_RECORDS
            or size + record.size > FRAME_BYTES
        ):
            yield frame
            frame, size = [], 0
        frame.append((offset, record))
        size += record.size
    if frame:
        yield frame
