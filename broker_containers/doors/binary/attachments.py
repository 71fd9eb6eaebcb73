"""The producers and consumers of one connection of the binary door."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from broker_containers.quotas.quotas import Quotas
from broker_containers.quotas.rates import Direction
from broker_containers.schemas.checks import TopicSchemaCheck
from broker_containers.security.access import Access, of_topic
from broker_containers.security.errors import Denied
from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topic_log.tail_cache import CachedFrame
from broker_containers.topics.producers import TopicProducer
from broker_containers.topics.topic import Topic
from sulina.errors import NotFound, Overloaded, ProtocolError, SulinaError
from sulina.model import Action
from sulina.runtime import stages
from sulina.runtime.stages import Stage
from sulina.wire import commands_pb2 as pb
from sulina.wire import selection
from sulina.wire.commands import Command, error_body
from sulina.wire.header import FrameHeader
from sulina.wire.stream import CommandStream


@dataclass(frozen=True, slots=True, eq=False)
class Unchecked:
    """A frame whose schema must be checked before it is published."""

    number: int
    data: memoryview
    header: FrameHeader


class BinaryProducer:
    """A producer: sends it the outcome of its frames."""

    def __init__(
        self, attachments: Attachments, handle: int, topic: Topic, schema_check: TopicSchemaCheck
    ) -> None:
        """``schema_check`` checks frames against the topic's schema."""
        self._attachments = attachments
        self._stream = attachments.stream
        self._handle = handle
        self.topic = topic
        self.schema_check = schema_check
        self.unchecked: deque[Unchecked] = deque()
        """Frames whose schema is being checked; they are published in order."""
        self.producer: TopicProducer | None = None

    def published(self, first_number: int, base_offsets: list[int]) -> None:
        body = pb.Published(
            producer=self._handle, first_number=first_number, base_offsets=base_offsets
        )
        self._stream.send(Command.PUBLISHED, 0, body)
        if stages.traces:
            stages.replied(self, first_number, len(base_offsets))

    def publish_failed(self, number: int, error: SulinaError) -> None:
        body = pb.PublishFailed(producer=self._handle, number=number, error=error_body(error))
        self._stream.send(Command.PUBLISH_FAILED, 0, body)

    def closed(self, reason: SulinaError) -> None:
        self.producer = None
        self._attachments.producers.pop(self._handle, None)
        body = pb.ProducerClosed(producer=self._handle, error=error_body(reason))
        self._stream.send(Command.PRODUCER_CLOSED, 0, body)

    def detach(self) -> None:
        if self.producer is not None:
            self.topic.detach(self.producer)
            self.producer = None


class BinaryConsumer:
    """A consumer: sends it its deliveries."""

    def __init__(self, attachments: Attachments, handle: int, topic: Topic) -> None:
        self._attachments = attachments
        self._stream = attachments.stream
        self._handle = handle
        self.topic = topic
        self.subscription: Subscription | None = None
        self.member: AttachedConsumer | None = None
        self._paused = False
        """Whether the rates of its quotas allow no delivery at the moment."""

    @property
    def address(self) -> str:
        """Where the client is connected from."""
        return self._stream.address

    def deliver(self, frame: CachedFrame, chosen: int | None, attempt: int) -> bool:
        body = pb.Deliver(consumer=self._handle, attempt=attempt)
        if chosen is not None:
            body.selection = selection.to_bytes(chosen)
        if stages.traces:
            stages.mark(frame.data, Stage.DISPATCHED)
            body.trace = stages.end(frame.data)
        self._stream.send(Command.DELIVER, 0, body, frame.data)
        quotas = self.topic.quotas
        if quotas is not None and Direction.DISPATCH in quotas.limited:
            self._slow_down(quotas, frame, chosen)
        return self._stream.writable and not self._paused

    def _slow_down(self, quotas: Quotas, frame: CachedFrame, chosen: int | None) -> None:
        """Deliver nothing more until the rates of its quotas allow it."""
        if self.member is None or self.member.held is None:
            return
        records = frame.header.count if chosen is None else chosen.bit_count()
        delay = quotas.delay(Direction.DISPATCH, self.member.held.where, records, frame.header.size)
        if delay:
            self._paused = True
            asyncio.get_running_loop().call_later(delay, self._resume)

    def _resume(self) -> None:
        self._paused = False
        if self._stream.writable:
            self.writable_again()

    def active_changed(self, active: bool) -> None:
        body = pb.ActiveChanged(consumer=self._handle, active=active)
        self._stream.send(Command.ACTIVE_CHANGED, 0, body)

    def closed(self, reason: Exception) -> None:
        self.member = None
        self._attachments.consumers.pop(self._handle, None)
        error = reason if isinstance(reason, SulinaError) else SulinaError(str(reason))
        body = pb.ConsumerClosed(consumer=self._handle, error=error_body(error))
        self._stream.send(Command.CONSUMER_CLOSED, 0, body)

    def writable_again(self) -> None:
        if self.subscription is not None and self.member is not None and not self._paused:
            self.subscription.writable(self.member)

    def leave(self) -> None:
        if self.subscription is not None and self.member is not None:
            member, self.member = self.member, None
            self.subscription.leave(member)


class Attachments:
    """All producers and consumers of one connection, by the handle that the client uses.

    ``limit`` is how many there may be at a time.
    """

    def __init__(self, stream: CommandStream, limit: int) -> None:
        self.stream = stream
        self.producers: dict[int, BinaryProducer] = {}
        self.consumers: dict[int, BinaryConsumer] = {}
        self._limit = limit
        self._next_handle = 1
        self._waiting: list[asyncio.Future[None]] = []

    def new_handle(self) -> int:
        """An unused handle. Raises ``Overloaded`` at the limit."""
        if len(self.producers) + len(self.consumers) >= self._limit:
            raise Overloaded(
                f"the connection has {self._limit} producers and consumers: close some of them, "
                "or use another client"
            )
        self._next_handle += 1
        return self._next_handle - 1

    def check_given(self, handle: int) -> None:
        """Raise ``ProtocolError`` for a handle that was never assigned on this connection."""
        if not 0 < handle < self._next_handle:
            raise ProtocolError(f"{handle} is not a handle of this connection")

    async def writable(self) -> None:
        """Wait until the client has read most of what was sent to it."""
        while self.stream.open and not self.stream.writable:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def writable_again(self) -> None:
        """The client has read: resume deliveries and replies."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
        for consumer in self.consumers.values():
            consumer.writable_again()

    def consumer(self, handle: int) -> tuple[BinaryConsumer, Subscription, AttachedConsumer]:
        """An attached consumer. Raises ``NotFound`` if it was closed or detached."""
        found = self.consumers.get(handle)
        if found is None or found.subscription is None or found.member is None:
            raise NotFound("the consumer is closed")
        return found, found.subscription, found.member

    def keep_to(self, access: Access) -> None:
        """Detach those that ``access`` no longer allows, and notify the client."""
        for producer in list(self.producers.values()):
            try:
                access.check(of_topic(Action.PRODUCE, producer.topic.name))
            except Denied as error:
                producer.detach()
                producer.closed(error)
        for consumer in list(self.consumers.values()):
            try:
                subscription = consumer.subscription
                named = "" if subscription is None else subscription.name
                access.check(of_topic(Action.CONSUME, consumer.topic.name, named))
            except Denied as error:
                consumer.leave()
                consumer.closed(error)
