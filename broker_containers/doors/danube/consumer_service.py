"""ConsumerService: subscriptions, streams of messages, acknowledgements.

A stream that can't go on is ended as UNAVAILABLE, and not at once: that makes every stock client
come again, and the pause keeps those within bounds that do so without one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.consumer_directory import ConsumerDirectory
from broker_containers.doors.danube.consumers import Consumers
from broker_containers.doors.danube.error_statuses import Context
from broker_containers.doors.danube.forwarding import was_passed_on
from broker_containers.doors.danube.routing import Routing
from broker_containers.doors.danube.rpc_handlers import Stream, Unary
from broker_containers.doors.danube.settings import DanubeSettings
from broker_containers.doors.danube.topic_locations import topic_record
from broker_containers.doors.grpc_shared.callers import Callers
from broker_containers.doors.grpc_shared.names import BadRequest, label, topic_name
from broker_containers.security.errors import Denied, Unauthenticated
from sulina.errors import Retriable, SulinaError, Unavailable
from sulina.metadata.keys.auth import Action
from sulina.metadata.keys.danube_consumers import ConsumerRecord
from sulina.model import SubscriptionType
from sulina.names import TopicName

_TYPES: Final = {
    pb.ConsumerRequest.Exclusive: SubscriptionType.EXCLUSIVE,
    pb.ConsumerRequest.Shared: SubscriptionType.SHARED,
    pb.ConsumerRequest.Failover: SubscriptionType.FAILOVER,
    pb.ConsumerRequest.KeyShared: SubscriptionType.KEY_SHARED,
}
_MOST_FILTERS: Final = 100
"""Every key is compared with every filter."""
_MOST_ASTRAY: Final = 10_000
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
        self._astray: OrderedDict[int, float] = OrderedDict()
        """Consumers of topics that are elsewhere -> since when they ask here."""
        self.stopping = False

    def calls(self) -> Mapping[str, Unary]:
        return {"Subscribe": self.subscribe, "Ack": self.ack, "Nack": self.nack}

    def streams(self) -> Mapping[str, Stream]:
        return {"ReceiveMessages": self.receive}

    # ---- subscribing ----

    async def subscribe(self, request: pb.ConsumerRequest, context: Context) -> pb.ConsumerResponse:
        """A new subscription begins with what is published after the answer."""
        topic = topic_name(request.topic_name)
        self._callers.check_topic(context, Action.CONSUME, topic)
        record = _record(topic, request)
        await topic_record(self._broker, topic)

        async def here() -> pb.ConsumerResponse:
            number = await self._consumers.subscribe(record)
            self._astray.pop(number, None)
            return pb.ConsumerResponse(
                request_id=request.request_id,
                consumer_id=number,
                consumer_name=request.consumer_name,
            )

        return await self._routing.answer(
            topic, context, _SUBSCRIBE, request, pb.ConsumerResponse, here
        )

    # ---- receiving ----

    async def receive(self, request: pb.ReceiveRequest, context: Context) -> AsyncGenerator[bytes]:
        """Messages until the stream breaks, or the consumer or its topic is gone from here."""
        number = request.consumer_id
        try:
            topic = await self._topic(number)
            self._callers.check_topic(context, Action.CONSUME, topic)
            owner = await self._routing.locations.owner(topic)
            if not owner:
                async with aclosing(self._serve(number)) as messages:
                    async for message in messages:
                        # Rights end also while a stream goes on.
                        self._callers.check_topic(context, Action.CONSUME, topic)
                        yield message
            elif self._routing.passes_on(context) or self._is_lost(number, context):
                passed = self._routing.forwarder.stream(owner, _RECEIVE, request, context)
                async with aclosing(passed) as messages:
                    async for message in messages:
                        yield message
            raise Retriable(f"the topic is served at {owner}: look it up again")
        except SulinaError as error:
            if not self.stopping:
                await self._broker.clock.sleep(self._settings.reopen_seconds)
            if isinstance(error, Unauthenticated | Denied):
                raise  # there is no sense in coming again
            # Whatever it was: any other status ends the receiving of some clients for good.
            raise Unavailable(str(error)) from None

    async def _topic(self, number: int) -> TopicName:
        """What a consumer consumes. Raises ``Retriable`` if nobody knows it."""
        topic = self._consumers.topic_of(number) or await self._directory.topic_of(number)
        if topic is None:
            raise Retriable(f"consumer {number} is not known: subscribe again")
        return topic

    async def _serve(self, number: int) -> AsyncGenerator[bytes]:
        end = await self._consumers.open(number)
        self._astray.pop(number, None)
        try:
            async with aclosing(end.messages()) as messages:
                async for message in messages:
                    yield message.SerializeToString()
        finally:
            self._consumers.closed(number, end)

    def _is_lost(self, number: int, context: Context) -> bool:
        """Whether a client should know by now that its topic is elsewhere, and does not."""
        if was_passed_on(context):
            return False
        now = self._broker.clock.now()
        since = self._astray.setdefault(number, now)
        if len(self._astray) > _MOST_ASTRAY:
            self._astray.popitem(last=False)
        return now - since >= self._settings.forward_after_seconds

    # ---- acknowledging ----

    async def ack(self, request: pb.AckRequest, context: Context) -> pb.AckResponse:
        """Never repeated by clients, so it is passed on to wherever the topic is."""
        topic = topic_name(request.msg_id.topic_name)
        self._callers.check_topic(context, Action.CONSUME, topic)

        async def here() -> pb.AckResponse:
            offset = request.msg_id.topic_offset
            await self._consumers.ack(topic, request.subscription_name, offset)
            return pb.AckResponse(request_id=request.request_id)

        return await self._routing.answer(
            topic, context, _ACK, request, pb.AckResponse, here, any_client=True
        )

    async def nack(self, request: pb.NackRequest, context: Context) -> pb.NackResponse:
        """As :meth:`ack`."""
        topic = topic_name(request.msg_id.topic_name)
        self._callers.check_topic(context, Action.CONSUME, topic)

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
        raise BadRequest(f"subscription type {request.subscription_type} is not known here")
    if len(request.key_filters) > _MOST_FILTERS:
        raise BadRequest(f"a consumer has at most {_MOST_FILTERS} key filters")
    for pattern in request.key_filters:
        label("key filter", pattern)
    label("consumer", request.consumer_name)
    label("subscription", request.subscription)
    # Danube's clients may set filters for any subscription; they count for KeyShared alone.
    filters = tuple(request.key_filters) if kind is SubscriptionType.KEY_SHARED else ()
    return ConsumerRecord(str(topic), request.subscription, request.consumer_name, kind, filters)
