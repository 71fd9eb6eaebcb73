"""HealthCheck: makes clients whose topic has moved look it up again. It never fails.

After an error a client makes no further health checks, so it would not learn of later moves.
"""

from __future__ import annotations

from typing import Final

from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.consumer_directory import ConsumerDirectory
from broker_containers.doors.danube.consumers import Consumers
from broker_containers.doors.danube.forwarding import wanted_broker, was_forwarded
from broker_containers.doors.danube.producers import Producers
from broker_containers.doors.danube.routing import Routing
from broker_containers.doors.grpc_shared.callers import Callers, Context
from sulina.errors import NotFound, SulinaError
from sulina.names import TopicName

_SECONDS: Final = 3.0


class HealthService:
    """Replies to health checks."""

    def __init__(
        self,
        producers: Producers,
        consumers: Consumers,
        directory: ConsumerDirectory,
        routing: Routing,
        callers: Callers,
    ) -> None:
        self._producers = producers
        self._consumers = consumers
        self._directory = directory
        self._routing = routing
        self._callers = callers

    async def health_check(
        self, request: pb.HealthCheckRequest, context: Context
    ) -> pb.HealthCheckResponse:
        if not self._callers.known(context):
            well = False  # makes the client reconnect, and get the reason
        elif request.client == pb.HealthCheckRequest.Producer:
            well = await self._producer(request, context)
        else:
            well = await self._consumer(request, context)
        status = pb.HealthCheckResponse.OK if well else pb.HealthCheckResponse.CLOSE
        return pb.HealthCheckResponse(status=status)

    async def _producer(self, request: pb.HealthCheckRequest, context: Context) -> bool:
        if self._producers.known(request.id):
            return True
        other = wanted_broker(context)
        if not other or other == self._routing.locations.own_url or was_forwarded(context):
            return False
        return bool(await self._routing.forwarder.healthy(other, request, _SECONDS, context))

    async def _consumer(self, request: pb.HealthCheckRequest, context: Context) -> bool:
        try:
            record = self._consumers.record_of(request.id)
            if record is None:
                record = await self._directory.record_of(request.id)
            if record is None:
                return False
            topic = TopicName.parse(record.topic)
            owner = await self._routing.locations.owner(topic, for_health_check=True)
            if not owner:
                return await self._routing.locations.exists(topic)
        except NotFound:
            return False
        except SulinaError:
            return True  # unknown: do not disconnect clients for it
        if not self._routing.forwards(context):
            return False
        # Its number is valid on every broker: it may go on unless the owner objects.
        healthy = await self._routing.forwarder.healthy(owner, request, _SECONDS, context)
        return healthy is not False
