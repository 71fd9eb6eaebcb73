"""Listens on the port for Danube's clients and assembles their services."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker_containers.doors.danube import danube_edge_pb2 as edge_pb
from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.consumer_directory import ConsumerDirectory
from broker_containers.doors.danube.consumer_service import ConsumerService
from broker_containers.doors.danube.consumers import Consumers
from broker_containers.doors.danube.discovery import AuthService, Discovery, StorageService
from broker_containers.doors.danube.edge_service import EdgeService
from broker_containers.doors.danube.forwarding import Forwarder, PeerCertificates
from broker_containers.doors.danube.health_service import HealthService
from broker_containers.doors.danube.moving_clients import clients_moved
from broker_containers.doors.danube.producer_service import ProducerService
from broker_containers.doors.danube.producers import Producers
from broker_containers.doors.danube.routing import Routing
from broker_containers.doors.danube.settings import MAX_MESSAGE_BYTES, DanubeListen
from broker_containers.doors.danube.topic_locations import TopicLocations
from broker_containers.doors.danube_schema.service import schema_methods
from broker_containers.doors.grpc_shared.callers import Callers
from broker_containers.doors.grpc_shared.calls import CallGuard, handlers_of, methods_of
from broker_containers.doors.grpc_shared.gate import CallGate, OpenMethod
from broker_containers.doors.grpc_shared.server import GrpcLimits, GrpcServer
from broker_containers.doors.grpc_shared.statuses import FOR_CLIENTS
from broker_containers.doors.services import Services
from sulina.client.address import Address
from sulina.errors import Retriable

_LIMITS: Final = GrpcLimits(max_message_bytes=MAX_MESSAGE_BYTES)
_OPEN_METHODS: Final = {"/danube.AuthService/Authenticate": OpenMethod(waiting=1, running=16)}
_ANSWERS: Final = {
    # Makes the client reconnect, and get the reason.
    "/danube.HealthCheck/HealthCheck": pb.HealthCheckResponse(status=pb.HealthCheckResponse.CLOSE)
}


class DanubeServer:
    """The Danube door. Use as ``async with`` while the broker runs."""

    def __init__(self, services: Services, listen: DanubeListen) -> None:
        """The schema registry is served on the same port."""
        self._broker = broker = services.broker
        self._listen = listen
        self._schemas = services.schemas
        self._requests = services.requests
        self._callers = callers = Callers(services.authority, services.audit, "danube")
        gate = CallGate(callers, services.throttle, _OPEN_METHODS, _ANSWERS, FOR_CLIENTS)
        self.grpc = GrpcServer(services, "danube", gate, _LIMITS)
        guard = CallGuard(callers, services.operations, self._requests)
        self.grpc.add(schema_methods(services.schemas, guard))
        others = services.other_brokers
        peers = PeerCertificates(listen.peer_authorities, listen.shared_name)
        self._forwarder = Forwarder(list if others is None else others.danube_urls, callers, peers)
        self._directory = ConsumerDirectory(broker.store, broker.clock)
        self._producers = Producers(broker, listen.settings, services.schemas)
        self._locations: TopicLocations | None = None
        self._consumers: Consumers | None = None
        self._consuming: ConsumerService | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self.port = listen.port
        """The port in use; the one that the system chose if ``listen`` has 0."""
        self.url = listen.advertise
        """Where clients and other brokers reach it."""

    async def __aenter__(self) -> DanubeServer:
        """Raises ``Refused`` if the port is taken."""
        listen = self._listen
        self.port = await self.grpc.open(
            listen.host, listen.port, listen.tls, "Danube's clients", "--grpc-port"
        )
        if not self.url:
            host = listen.advertise_host or listen.host
            self.url = f"{listen.scheme}://{Address(host, self.port)}"
        self._add_services()
        await self.grpc.start()
        self._sweeper = asyncio.create_task(self._sweep())
        return self

    def _add_services(self) -> None:
        broker, settings, forwarder = self._broker, self._listen.settings, self._forwarder
        directory, producers = self._directory, self._producers
        shared = self._listen.shared_name
        shared_url = f"{self._listen.scheme}://{Address(shared, self.port)}" if shared else ""
        locations = TopicLocations(broker, self.url, self._listen.proxy_url, shared, shared_url)
        consumers = Consumers(broker, directory, self.url, settings)
        routing = Routing(locations, forwarder, broker.clock)
        callers = self._callers
        health = HealthService(producers, consumers, directory, routing, callers)
        consuming = ConsumerService(broker, consumers, directory, routing, settings, callers)
        members = {
            "ProducerService": ProducerService(broker, producers, routing, callers),
            "Discovery": Discovery(broker, locations, callers),
            "HealthCheck": health,
            "StorageService": StorageService(broker, callers),
            "AuthService": AuthService(callers),
            "ConsumerService": consuming,
            "EdgeReplicatorService": EdgeService(broker, self._schemas, routing, callers),
        }
        services = {
            **pb.DESCRIPTOR.services_by_name,
            **edge_pb.DESCRIPTOR.services_by_name,
        }
        for name, described in services.items():
            methods = methods_of(described, members[name])
            self.grpc.add(handlers_of(described, methods, self._requests, FOR_CLIENTS))
        self._locations, self._consumers, self._consuming = locations, consumers, consuming

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def clients_moved(self, seconds: float, others: Callable[[], bool]) -> None:
        """Call it when other brokers have taken over the topics, before ``close``: waits until
        clients have been told where their topics are; see ``moving_clients``.

        Where all brokers share an address, the next connection of a client leads to another one.
        """
        found = self._locations
        if found is not None and self._consumers is not None and not found.proxy_url:
            await clients_moved(
                self._broker.clock,
                lambda: found.asked,
                attached=len(self._producers) + len(self._consumers),
                quiet_seconds=self._listen.settings.quiet_seconds,
                seconds=seconds,
                others=others,
            )

    async def close(self) -> None:
        """End all streams, wait a short while for calls in progress, detach all clients."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait((self._sweeper,))
        if self._consuming is not None and self._consumers is not None:
            self._consuming.stopping = True
            self._consumers.close(Retriable("the broker is stopping: look the topic up again"))
        await self.grpc.close(self._listen.settings.goodbye_seconds)
        await self._producers.close()
        await self._forwarder.close()
        await self._directory.close()

    async def _sweep(self) -> None:
        while True:
            await self._broker.clock.sleep(self._listen.settings.sweep_seconds)
            self._producers.sweep()
            if self._consumers is not None:
                await self._consumers.sweep()
