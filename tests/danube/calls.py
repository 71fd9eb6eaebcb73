"""Single calls of Danube's protocol, for details that stock clients hide."""

from __future__ import annotations

from typing import Any

import grpc

from broker_containers.doors.danube import danube_pb2 as pb

_SERVICES = {
    method.name: (service.full_name, method)
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


class Calls:
    """A channel to one broker. Use as ``async with``."""

    def __init__(self, url: str, token: str = "", **headers: str) -> None:
        """Every call shows ``token``, if there is one, and has ``headers``."""
        place = url.partition("://")[2]
        shown = {"authorization": f"Bearer {token}"} if token else {}
        self._metadata = tuple({**shown, **headers}.items())
        # A connection of its own, too.
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.aio.insecure_channel(place, options=options)

    async def __aenter__(self) -> Calls:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.channel.close()

    async def __call__(self, method: str, **fields: Any) -> Any:
        """The answer to a unary call."""
        service, described = _SERVICES[method]
        call: Any = self.channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=_kind(described.output_type.name).FromString,
        )
        return await call(
            _kind(described.input_type.name)(**fields), timeout=30, metadata=self._metadata
        )

    def stream(self, consumer: int) -> Any:
        """The messages of a consumer."""
        call: Any = self.channel.unary_stream(
            "/danube.ConsumerService/ReceiveMessages",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=pb.StreamMessage.FromString,
        )
        request = pb.ReceiveRequest(consumer_id=consumer)
        return call(request, timeout=30, metadata=self._metadata)

    async def producer(self, topic: str, name: str = "p", *, reliable: bool = True) -> int:
        """A producer's number."""
        answer = await self(
            "CreateProducer",
            topic_name=topic,
            producer_name=name,
            dispatch_strategy=pb.Reliable if reliable else pb.NonReliable,
        )
        return int(answer.producer_id)

    async def send(self, topic: str, payload: bytes, name: str = "p", **fields: Any) -> Any:
        """One message."""
        return await self(
            "SendMessage",
            msg_id=pb.MsgID(topic_name=topic),
            producer_name=name,
            payload=payload,
            **fields,
        )

    async def subscribe(
        self, topic: str, name: str = "c", *, subscription: str = "s", kind: str = "Exclusive"
    ) -> int:
        """A consumer's number."""
        answer = await self(
            "Subscribe",
            topic_name=topic,
            consumer_name=name,
            subscription=subscription,
            subscription_type=pb.ConsumerRequest.SubscriptionType.Value(kind),
        )
        return int(answer.consumer_id)


def _kind(name: str) -> Any:
    return getattr(pb, name)


async def status_of(call: Any) -> grpc.StatusCode:
    """The status with which a call fails."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
