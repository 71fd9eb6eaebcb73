"""ProducerService: creates producers, and publishes one message per call."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.messages import DanubeRecord, check_message_size, record_of
from broker_containers.doors.danube.partitions import ensure_partition
from broker_containers.doors.danube.producers import Producers
from broker_containers.doors.danube.routing import Routing
from broker_containers.doors.grpc_shared.callers import Callers, Context
from broker_containers.doors.grpc_shared.methods import Later
from broker_containers.doors.grpc_shared.names import label, topic_name
from sulina.errors import Overloaded, SulinaError
from sulina.model import Action, Delivery

_MAX_PENDING_BYTES: Final = 256 << 20
"""Messages of all producers that wait to become durable."""
_CREATE: Final = "/danube.ProducerService/CreateProducer"
_SEND: Final = "/danube.ProducerService/SendMessage"
_DELIVERY: Final = {pb.Reliable: Delivery.RELIABLE, pb.NonReliable: Delivery.NON_RELIABLE}


class ProducerService:
    """The calls of producers."""

    def __init__(
        self,
        broker: Broker,
        producers: Producers,
        routing: Routing,
        callers: Callers,
    ) -> None:
        self._broker = broker
        self._producers = producers
        self._routing = routing
        self._callers = callers
        self._pending_bytes = 0

    async def create_producer(
        self, request: pb.ProducerRequest, context: Context
    ) -> pb.ProducerResponse:
        """Idempotent for the same producer name; creates the topic if it does not exist."""
        topic = topic_name(request.topic_name)
        self._callers.check_topic(context, Action.PRODUCE, topic)
        label("producer", request.producer_name)
        delivery = _DELIVERY.get(request.dispatch_strategy, Delivery.RELIABLE)
        access = self._callers.caller(context).access
        await ensure_partition(self._broker, access, topic, delivery)
        await self._broker.describe(topic, create=True, delivery=delivery)

        async def here() -> pb.ProducerResponse:
            number = await self._producers.create(
                topic,
                request.producer_name,
                delivery,
                request.schema_ref.subject,
                exclusive=request.producer_access_mode == pb.Exclusive,
                principal=self._callers.limited_as(context),
            )
            return pb.ProducerResponse(
                request_id=request.request_id,
                producer_id=number,
                producer_name=request.producer_name,
            )

        return await self._routing.answer(
            topic, context, _CREATE, request, pb.ProducerResponse, here
        )

    def send_message(
        self, request: pb.StreamMessage, context: Context
    ) -> Later | Coroutine[Any, Any, pb.MessageResponse]:
        """Replies once the message is durable, if the topic is reliable.

        Without a task if the producer is attached here, as nearly always.
        """
        topic = request.msg_id.topic_name
        attached = self._producers.attached(topic, request.producer_name)
        if attached is None or not attached.takes(request.schema_id, request.schema_version):
            return self._send_waiting(request, context)
        if self._callers.on:
            self._callers.checked(context, Action.PRODUCE, topic_name(topic))
        size = self._reserve(request)
        answer = _Sending(self, size, pb.MessageResponse(request_id=request.request_id))
        try:
            attached.send_now(record_of(request, size, self._broker.clock), answer.settle)
        except BaseException:
            self.release(size)
            raise
        return answer

    def _reserve(self, request: pb.StreamMessage) -> int:
        """Count a message as pending; returns its size. Raises ``TooLarge`` and ``Overloaded``."""
        size = check_message_size(request.ByteSize())
        if self._pending_bytes + size > _MAX_PENDING_BYTES:
            raise Overloaded("too many messages are waiting to become durable: try again")
        self._pending_bytes += size
        return size

    def release(self, size: int) -> None:
        """A message is no longer pending."""
        self._pending_bytes -= size

    async def _send_waiting(
        self, request: pb.StreamMessage, context: Context
    ) -> pb.MessageResponse:
        """Publish for a producer that is not attached here, or whose schema must be checked."""
        topic = topic_name(request.msg_id.topic_name)
        self._callers.check_topic(context, Action.PRODUCE, topic)
        size = self._reserve(request)
        try:
            record = record_of(request, size, self._broker.clock)
            attached = self._producers.attached(request.msg_id.topic_name, request.producer_name)
            if attached is None:
                return await self._send_first(request, record, context)
            await attached.send(record)
            return pb.MessageResponse(request_id=request.request_id)
        finally:
            self.release(size)

    async def _send_first(
        self, request: pb.StreamMessage, record: DanubeRecord, context: Context
    ) -> pb.MessageResponse:
        """Publish for a producer that is not attached to this broker, or no longer."""
        topic = topic_name(request.msg_id.topic_name)
        name = label("producer", request.producer_name)

        async def here() -> pb.MessageResponse:
            principal = self._callers.limited_as(context)
            await (await self._producers.at(topic, name, principal)).send(record)
            return pb.MessageResponse(request_id=request.request_id)

        return await self._routing.answer(topic, context, _SEND, request, pb.MessageResponse, here)


class _Sending(Later):
    """The answer to a message that is being published."""

    __slots__ = ("_service", "_size")

    def __init__(self, service: ProducerService, size: int, answer: pb.MessageResponse) -> None:
        super().__init__(answer)
        self._service = service
        self._size = size

    def settle(self, error: SulinaError | None) -> None:
        self._service.release(self._size)
        super().settle(error)
