"""The requests of the binary protocol: each gets one reply, and may wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from google.protobuf.message import Message

from broker_containers.broker.topic_owners import HERE
from broker_containers.doors.binary import translate
from broker_containers.doors.binary.attachments import (
    Attachments,
    BinaryConsumer,
    BinaryProducer,
)
from broker_containers.doors.services import Services
from broker_containers.quotas.rates import Direction
from broker_containers.security.access import USING, Access, Caller, Need, of_topic
from broker_containers.topics.topic import Topic
from sulina.errors import Refused
from sulina.model import Action
from sulina.names import TopicName, check_label
from sulina.operations.declaration import Declaration
from sulina.operations.subscriptions import SubscriptionOperations
from sulina.runtime.seam import Buffer
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command

_READ_LIMIT = 8 << 20
_MOST_FILTERS = 100
"""Maximum per consumer: every key is compared with every filter."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A command, its body and data to send, and what to call after sending it."""

    command: Command
    body: Message
    data: tuple[Buffer, ...] = ()
    then: Callable[[], None] | None = None


DONE = Reply(Command.DONE, pb.Done())
Request = Callable[[Any], Coroutine[Any, Any, Reply]]


class Requests:
    """The requests that one connection may make."""

    def __init__(
        self,
        services: Services,
        attachments: Attachments,
        access: Callable[[], Access],
        direct: Callable[[], bool],
    ) -> None:
        """``access`` returns what the client may do at the moment, ``direct`` whether it can reach
        each broker by its own address."""
        self._broker = services.broker
        self._operations = services.operations
        self._audit = services.audit
        self._attachments = attachments
        self._schemas = services.schemas
        self._access = access
        self._direct = direct
        self._reading = asyncio.Lock()
        self._known: dict[Command, Request] = {
            Command.LOOKUP: self.lookup,
            Command.CREATE_PRODUCER: self.create_producer,
            Command.CLOSE_PRODUCER: self.close_producer,
            Command.SUBSCRIBE: self.subscribe,
            Command.SEEK: self.seek,
            Command.UNSUBSCRIBE: self.unsubscribe,
            Command.CLOSE_CONSUMER: self.close_consumer,
            Command.READ_FRAMES: self.read_frames,
            Command.ADMIN: self.run_operation,
        }

    def find(self, command: Command) -> Request | None:
        """The function for a command, or None if it is not a request."""
        return self._known.get(command)

    def _allowed(self, action: Action | None, topic: str, subscription: str = "") -> TopicName:
        """The parsed name. Raises ``Denied`` without the right, ``Refused`` for a bad name."""
        name = TopicName.parse(topic)
        operation = Action.LOOKUP if action is None else action
        caller = self._caller()
        self._audit.check(caller, of_topic(action, name, subscription), operation)
        USING.set(caller)  # every request has a task of its own
        return name

    def _caller(self) -> Caller:
        return Caller(self._access(), "binary", self._attachments.stream.peer)

    async def lookup(self, body: pb.Lookup) -> Reply:
        name = self._allowed(None, body.topic)
        wanted = translate.delivery(body.delivery)
        # Use creates topics: a client that may only look them up creates none.
        using = Need(Action.PRODUCE, str(name), instead=Action.CONSUME)
        create = body.create and self._access().allows(using)
        record = await self._broker.describe(name, create=create, delivery=wanted)
        place = HERE
        if not record.partitions:
            place = await self._broker.address_of(name, direct=self._direct())
        answer = pb.LookupResult(
            topic=str(name),
            partitions=record.partitions,
            delivery=translate.to_delivery(record.delivery),
            url=place.url,
            broker=place.broker,
        )
        return Reply(Command.LOOKUP_RESULT, answer)

    async def create_producer(self, body: pb.CreateProducer) -> Reply:
        check_label("producer", body.name)
        name = self._allowed(Action.PRODUCE, body.topic)
        topic = await self._broker.topic(name, delivery=translate.delivery(body.delivery))
        if body.subject:
            await self._schemas.registry.topics.bind(name, body.subject)
        handle = self._attachments.new_handle()
        attached = BinaryProducer(self._attachments, handle, topic, self._schemas.of(topic))
        producer = attached.producer = await topic.attach(
            body.name, attached, exclusive=body.exclusive, principal=self._access().limited_as
        )
        if not self._attachments.stream.open:
            attached.detach()
        self._attachments.producers[handle] = attached
        answer = pb.ProducerCreated(
            producer=handle,
            name=body.name,
            last_sequence=topic.log.dedup.last_sequence(producer.id),
            max_frame_bytes=self._broker.settings.max_frame_bytes,
            max_delay_ms=self._broker.settings.max_delay_seconds * 1000,
            expiry=True,
        )
        return Reply(Command.PRODUCER_CREATED, answer)

    async def close_producer(self, body: pb.CloseProducer) -> Reply:
        attached = self._attachments.producers.pop(body.producer, None)
        if attached is not None:
            attached.detach()
        return DONE

    async def subscribe(self, body: pb.Subscribe) -> Reply:
        check_label("consumer", body.consumer)
        check_label("subscription", body.subscription)
        if len(body.key_filters) > _MOST_FILTERS:
            raise Refused(f"a consumer has at most {_MOST_FILTERS} key filters")
        for pattern in body.key_filters:
            check_label("key filter", pattern)
        name = self._allowed(Action.CONSUME, body.topic, body.subscription)
        # A right on a subscription alone does not create topics.
        create = self._access().allows(of_topic(Action.CONSUME, name))
        topic = await self._broker.topic(name, create=create)
        policy = None
        if body.HasField("failure_policy"):
            policy = translate.failure_policy(body.failure_policy)
            if policy.dead_letter_topic:  # dead letters are published there on behalf of the client
                self._allowed(Action.PRODUCE, policy.dead_letter_topic)
        subscription = await self._broker.subscriptions.subscribe(
            topic,
            body.subscription,
            translate.subscription_type(body.type),
            translate.start(body.start),
            policy,
        )
        handle = self._attachments.new_handle()
        attached = BinaryConsumer(self._attachments, handle, topic)
        filters, principal = tuple(body.key_filters), self._access().limited_as
        member = topic.join(subscription, body.consumer, attached, filters, principal)
        attached.subscription, attached.member = subscription, member
        if not self._attachments.stream.open:
            attached.leave()
        self._attachments.consumers[handle] = attached
        active = subscription.is_active(member)
        answer = pb.Subscribed(consumer=handle, name=body.consumer, active=active)
        return Reply(Command.SUBSCRIBED, answer)

    async def seek(self, body: pb.Seek) -> Reply:
        attached, subscription, _ = self._attachments.consumer(body.consumer)
        topic, start = attached.topic, translate.start(body.start)
        work = partial(self._broker.subscriptions.seek, topic, subscription, start)
        await self._record(SubscriptionOperations.seek, topic, subscription.name, work)
        # Deliver nothing before the client has the reply.
        return Reply(Command.DONE, pb.Done(), then=subscription.resume)

    async def unsubscribe(self, body: pb.Unsubscribe) -> Reply:
        attached, subscription, _ = self._attachments.consumer(body.consumer)
        others = len(subscription.consumers) - 1
        if others:
            raise Refused(
                f"{subscription.name!r} has {others} other consumers: close them before deleting it"
            )
        topic, name = attached.topic, subscription.name

        async def work() -> None:
            attached.leave()
            self._attachments.consumers.pop(body.consumer, None)
            await self._broker.subscriptions.unsubscribe(topic, name)

        await self._record(SubscriptionOperations.delete, topic, name, work)
        return DONE

    async def _record(
        self,
        operation: Declaration,
        topic: Topic,
        subscription: str,
        work: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Do for a consumer what amounts to an operation, and record it like one."""
        about = {"topic": str(topic.name), "subscription": subscription}
        await self._audit.act(self._caller(), operation.name, about["topic"], about, work)

    async def close_consumer(self, body: pb.CloseConsumer) -> Reply:
        attached = self._attachments.consumers.pop(body.consumer, None)
        if attached is not None:
            attached.leave()
        return DONE

    async def read_frames(self, body: pb.ReadFrames) -> Reply:
        topic = await self._broker.topic(self._allowed(Action.CONSUME, body.topic), create=False)
        offset = await topic.resolve(translate.start(body.start))
        async with self._reading:  # one reply at a time: many large ones would fill the memory
            await self._attachments.writable()
            frames = await topic.log.reader(offset).read(min(body.max_bytes or 1, _READ_LIMIT))
            frames = frames[: max(body.max_frames, 1)]
            quotas = self._broker.quotas
            await quotas.pace(
                Direction.DISPATCH,
                quotas.where(topic.name.namespace, self._access().limited_as),
                sum(frame.header.count for frame in frames),
                sum(frame.header.size for frame in frames),
            )
        following = frames[-1].header.next_offset if frames else topic.log.end
        answer = pb.FramesRead(next_offset=following, at_end=following >= topic.log.end)
        return Reply(Command.FRAMES_READ, answer, tuple(frame.data for frame in frames))

    async def run_operation(self, body: pb.Admin) -> Reply:
        try:
            arguments = json.loads(body.arguments or b"{}")
        except (ValueError, RecursionError):  # the latter for very deep nesting
            raise Refused("the arguments of an operation must be JSON") from None
        if not isinstance(arguments, dict):
            raise Refused("the arguments of an operation must be a JSON object")
        result = await self._operations.run_as(self._caller(), body.method, arguments)
        return Reply(Command.ADMIN_RESULT, pb.AdminResult(result=json.dumps(result).encode()))
