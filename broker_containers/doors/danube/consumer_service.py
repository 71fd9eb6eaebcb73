"""ConsumerService: subscriptions, streams of messages, acknowledgements.

A stream that can't continue ends with UNAVAILABLE after a pause. The status makes every stock
client reopen it; the pause limits those that do so immediately.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Final

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.consumer import SendNow
from broker_containers.doors.danube.consumer_directory import ConsumerDirectory
from broker_containers.doors.danube.consumers import Consumers
from broker_containers.doors.danube.forwarding import was_forwarded
from broker_containers.doors.danube.routing import Routing
from broker_containers.doors.danube.settings import DanubeSettings
from broker_containers.doors.danube.topic_locations import topic_record
from broker_containers.doors.grpc_shared.callers import Callers, Context
from broker_containers.doors.grpc_shared.names import BadRequest, label, topic_name
from broker_containers.security.errors import Denied, Unauthenticated
from sulina.errors import Retriable, SulinaError, Unavailable
from sulina.metadata.keys.danube_consumers import ConsumerRecord
from sulina.model import Action, SubscriptionType
from sulina.names import TopicName

_TYPES: Final = {
    pb.ConsumerRequest.Exclusive: SubscriptionType.EXCLUSIVE,
    pb.ConsumerRequest.Shared: SubscriptionType.SHARED,
    pb.ConsumerRequest.Failover: SubscriptionType.FAILOVER,
    pb.ConsumerRequest.KeyShared: SubscriptionType.KEY_SHARED,
}
_MOST_FILTERS: Final = 100
"""Maximum per consumer: every key is compared with every filter."""
_MOST_MISDIRECTED: Final = 10_000
_SUBSCRIBE: Final = "/danube.ConsumerService/Subscribe"
_ACK: Final = "/danube.ConsumerService/Ack"
_NACK: Final = "/danube.ConsumerService/Nack"
_RECEIVE: Final = "/danube.ConsumerService/ReceiveMessages"


class ConsumerService:
    """The calls of consumers."""

    def __init__(
        self,
        broker: Broker,
        consumers: Consumers,
        directory: ConsumerDirectory,
        routing: Routing,
        settings: DanubeSettings,
        callers: Callers,
    ) -> None:
        self._broker = broker
        self._consumers = consumers
        self._directory = directory
        self._routing = routing
        self._settings = settings
        self._callers = callers
        self._misdirected: OrderedDict[int, float] = OrderedDict()
        """Consumers of topics that other brokers serve -> since when they call this one."""
        self.stopping = False

    # ---- subscribing ----

    async def subscribe(self, request: pb.ConsumerRequest, context: Context) -> pb.ConsumerResponse:
        """A new subscription starts with messages published after the reply."""
        topic = topic_name(request.topic_name)
        self._callers.check_topic(context, Action.CONSUME, topic, request.subscription)
        record = _record(topic, request)
        await topic_record(self._broker, topic)

        async def here() -> pb.ConsumerResponse:
            number = await self._consumers.subscribe(record, self._callers.limited_as(context))
            self._misdirected.pop(number, None)
            return pb.ConsumerResponse(
                request_id=request.request_id,
                consumer_id=number,
                consumer_name=request.consumer_name,
            )

        return await self._routing.answer(
            topic, context, _SUBSCRIBE, request, pb.ConsumerResponse, here
        )

    # ---- receiving ----

    async def receive_messages(
        self, request: pb.ReceiveRequest, context: Context
    ) -> AsyncGenerator[Sequence[bytes]]:
        """Messages until the stream breaks, the consumer is detached, or its topic moves."""
        number = request.consumer_id
        try:
            record = await self._record(number)
            topic, subscription = TopicName.parse(record.topic), record.subscription
            self._callers.check_topic(context, Action.CONSUME, topic, subscription)
            owner = await self._routing.locations.owner(topic)
            if not owner:

                def send_now(batch: Sequence[bytes]) -> bool:
                    if self._callers.on:  # rights may be revoked while a stream is open
                        self._callers.checked(context, Action.CONSUME, topic, subscription)
                    return context.send_now(batch)

                async with aclosing(self._serve(number, context, send_now)) as messages:
                    yield []  # tells the client that the stream is open
                    async for batch in messages:
                        self._callers.check_topic(context, Action.CONSUME, topic, subscription)
                        yield batch
            elif self._routing.forwards(context) or self._ignores_move(number, context):
                passed = self._routing.forwarder.stream(owner, _RECEIVE, request, context)
                async with aclosing(passed) as forwarded:
                    async for message in forwarded:
                        yield [message]
            raise Retriable(f"the topic is served at {owner}: look it up again")
        except SulinaError as error:
            if not self.stopping:
                await self._broker.clock.sleep(self._settings.reopen_seconds)
            if isinstance(error, Unauthenticated | Denied):
                raise  # retrying would not help
            # Any other status makes some clients stop receiving for good.
            raise Unavailable(str(error)) from None

    async def _record(self, number: int) -> ConsumerRecord:
        """The subscription of a consumer. Raises ``Retriable`` if the number is unknown."""
        record = self._consumers.record_of(number) or await self._directory.record_of(number)
        if record is None:
            raise Retriable(f"consumer {number} is unknown: subscribe again")
        return record

    async def _serve(
        self, number: int, context: Context, send_now: SendNow
    ) -> AsyncGenerator[Sequence[bytes]]:
        consumer = await self._consumers.open(number, self._callers.limited_as(context))
        self._misdirected.pop(number, None)
        try:
            async with aclosing(consumer.messages(send_now)) as messages:
                async for batch in messages:
                    yield batch
        finally:
            self._consumers.closed(number, consumer)

    def _ignores_move(self, number: int, context: Context) -> bool:
        """Whether a client has kept calling this broker long after its topic moved away."""
        if was_forwarded(context):
            return False
        now = self._broker.clock.now()
        since = self._misdirected.setdefault(number, now)
        if len(self._misdirected) > _MOST_MISDIRECTED:
            self._misdirected.popitem(last=False)
        return now - since >= self._settings.forward_after_seconds

    # ---- acknowledging ----

    def ack(
        self, request: pb.AckRequest, context: Context
    ) -> pb.AckResponse | Coroutine[Any, Any, pb.AckResponse]:
        """At once if the topic is open here, as nearly always."""
        where, subscription = request.msg_id, request.subscription_name
        named, offset = where.topic_name, where.topic_offset
        if self._callers.on:
            self._callers.checked(context, Action.CONSUME, topic_name(named), subscription)
        if not self._consumers.ack_again(named, subscription, offset):
            open_here = self._broker.opened(topic_name(named))
            if open_here is None:
                return self._ack_elsewhere(request, context)
            self._consumers.ack_now(open_here, subscription, offset, named)
        return pb.AckResponse(request_id=request.request_id)

    async def _ack_elsewhere(self, request: pb.AckRequest, context: Context) -> pb.AckResponse:
        """Clients never retry it, so it is forwarded to the topic's owner."""
        topic = topic_name(request.msg_id.topic_name)
        self._callers.check_topic(context, Action.CONSUME, topic, request.subscription_name)

        async def here() -> pb.AckResponse:
            offset = request.msg_id.topic_offset
            await self._consumers.ack(topic, request.subscription_name, offset)
            return pb.AckResponse(request_id=request.request_id)

        return await self._routing.answer(
            topic, context, _ACK, request, pb.AckResponse, here, any_client=True
        )

    async def nack(self, request: pb.NackRequest, context: Context) -> pb.NackResponse:
        """Forwarded like :meth:`ack`."""
        topic = topic_name(request.msg_id.topic_name)
        self._callers.check_topic(context, Action.CONSUME, topic, request.subscription_name)

        async def here() -> pb.NackResponse:
            await self._consumers.nack(
                topic,
                request.subscription_name,
                request.msg_id.topic_offset,
                request.delay_ms,
                request.reason,
            )
            return pb.NackResponse(request_id=request.request_id)

        return await self._routing.answer(
            topic, context, _NACK, request, pb.NackResponse, here, any_client=True
        )


def _record(topic: TopicName, request: pb.ConsumerRequest) -> ConsumerRecord:
    kind = _TYPES.get(request.subscription_type)
    if kind is None:
        raise BadRequest(f"subscription type {request.subscription_type} is unknown")
    if len(request.key_filters) > _MOST_FILTERS:
        raise BadRequest(f"a consumer has at most {_MOST_FILTERS} key filters")
    for pattern in request.key_filters:
        label("key filter", pattern)
    label("consumer", request.consumer_name)
    label("subscription", request.subscription)
    # Danube's clients may set filters on any subscription; only KeyShared uses them.
    filters = tuple(request.key_filters) if kind is SubscriptionType.KEY_SHARED else ()
    return ConsumerRecord(str(topic), request.subscription, request.consumer_name, kind, filters)
