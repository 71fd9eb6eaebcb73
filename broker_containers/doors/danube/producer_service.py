"""ProducerService: producers come, and publish one message a call."""

from __future__ import annotations

from collections.abc import Mapping

from broker_containers.broker import Broker
from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.calls import Unary
from broker_containers.doors.danube.forwarding import Forwarder, wanted_broker, was_passed_on
from broker_containers.doors.danube.identity import producer_number
from broker_containers.doors.danube.messages import record_of
from broker_containers.doors.danube.partitions import make_room
from broker_containers.doors.danube.places import Places
from broker_containers.doors.danube.producers import Producers
from broker_containers.doors.danube.settings import DanubeSettings
from broker_containers.doors.danube.statuses import Context, topic_name
from sulina.errors import Overloaded, Retriable, TooLarge
from sulina.model import Delivery

_DELIVERY = {pb.Reliable: Delivery.RELIABLE, pb.NonReliable: Delivery.NON_RELIABLE}


class ProducerService:
    """The calls of producers."""

    def __init__(
        self,
        broker: Broker,
        producers: Producers,
        places: Places,
        forwarder: Forwarder,
        settings: DanubeSettings,
    ) -> None:
        self._broker = broker
        self._producers = producers
        self._places = places
        self._forwarder = forwarder
        self._settings = settings
        self._pending_bytes = 0

    def calls(self) -> Mapping[str, Unary]:
        return {"CreateProducer": self.create, "SendMessage": self.send}

    async def create(self, request: pb.ProducerRequest, context: Context) -> pb.ProducerResponse:
        """The same producer again is the same producer; its topic is made if it is missing."""
        topic = topic_name(request.topic_name)
        delivery = _DELIVERY.get(request.dispatch_strategy, Delivery.RELIABLE)
        await make_room(self._broker, topic, delivery)
        await self._broker.describe(topic, create=True, delivery=delivery)
        owner = await self._places.owner(topic)
        if owner:
            self._check_passing(owner, context)
            method = "/danube.ProducerService/CreateProducer"
            return await self._forwarder.unary(owner, method, request, pb.ProducerResponse, context)
        number = await self._producers.create(
            topic,
            request.producer_name,
            delivery,
            exclusive=request.producer_access_mode == pb.Exclusive,
        )
        return pb.ProducerResponse(
            request_id=request.request_id,
            producer_id=number,
            producer_name=request.producer_name,
        )

    async def send(self, request: pb.StreamMessage, context: Context) -> pb.MessageResponse:
        """Answered when the message is durable, if the topic is reliable."""
        size = request.ByteSize()
        if size > self._settings.max_message_bytes:
            limit = self._settings.max_message_bytes
            raise TooLarge(
                f"a message of {size} bytes, attributes included, is over the limit of {limit}: "
                "consumers could not receive it"
            )
        if self._pending_bytes + size > self._settings.max_pending_bytes:
            raise Overloaded("too many messages wait to become durable: try again")
        self._pending_bytes += size
        try:
            return await self._send(request, size, context)
        finally:
            self._pending_bytes -= size

    async def _send(
        self, request: pb.StreamMessage, size: int, context: Context
    ) -> pb.MessageResponse:
        topic = topic_name(request.msg_id.topic_name)
        name = request.producer_name
        if not self._producers.known(producer_number(str(topic), name)):
            owner = await self._places.owner(topic)
            if owner:
                self._check_passing(owner, context)
                method = "/danube.ProducerService/SendMessage"
                return await self._forwarder.unary(
                    owner, method, request, pb.MessageResponse, context
                )
        end = await self._producers.at(topic, name)
        await end.send(record_of(request, size, self._broker.clock.wall_us()))
        return pb.MessageResponse(request_id=request.request_id)

    def _check_passing(self, owner: str, context: Context) -> None:
        """Raise ``Retriable`` for clients that can go to the owner themselves."""
        if was_passed_on(context) or not (self._places.proxy_url or wanted_broker(context)):
            raise Retriable(f"the topic is served at {owner}: look it up again")
