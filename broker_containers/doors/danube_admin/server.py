"""Listens on the Danube admin port: the services, health, reflection, and an orderly end."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from broker_containers.admin import Admin
from broker_containers.doors.danube_admin import danube_admin_pb2 as pb
from broker_containers.doors.danube_admin.absent import Absent
from broker_containers.doors.danube_admin.brokers import BrokerAdmin
from broker_containers.doors.danube_admin.calls import Service, handlers_of
from broker_containers.doors.danube_admin.clusters import ClusterAdmin
from broker_containers.doors.danube_admin.namespaces import NamespaceAdmin
from broker_containers.doors.danube_admin.places import Places
from broker_containers.doors.danube_admin.settings import AdminListen, AdminSettings
from broker_containers.doors.danube_admin.topics import TopicAdmin
from sulina.client.address import Address
from sulina.errors import Refused
from sulina.runtime.seam import Clock

_SERVING: Final = health_pb2.HealthCheckResponse.SERVING


class AdminServer:
    """The door. Use as ``async with``, inside of the broker's own."""

    def __init__(self, admin: Admin, places: Places, clock: Clock, listen: AdminListen) -> None:
        self._listen = listen
        settings = listen.settings
        described = pb.DESCRIPTOR.services_by_name
        services: dict[str, Service] = {
            "BrokerAdmin": BrokerAdmin(admin, places, clock, settings),
            "ClusterAdmin": ClusterAdmin(admin),
            "NamespaceAdmin": NamespaceAdmin(admin, places),
            "TopicAdmin": TopicAdmin(admin, places),
        }
        assert services.keys() == set(described)
        self._server = grpc.aio.server(
            options=_options(settings), maximum_concurrent_rpcs=settings.max_calls
        )
        handlers: list[grpc.GenericRpcHandler] = [
            handlers_of(described[name], service, clock, settings.call_seconds)
            for name, service in services.items()
        ]
        self._server.add_generic_rpc_handlers([*handlers, Absent()])
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names = [one.full_name for one in described.values()]
        reflection.enable_server_reflection(
            (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server
        )
        self.port = listen.port
        """The port in use; the one chosen by the system if 0 was asked for."""

    async def __aenter__(self) -> AdminServer:
        listen = self._listen
        place = str(Address(listen.host or "::", listen.port))
        try:
            await _check_free(listen)
            if listen.certificate is None:
                self.port = self._server.add_insecure_port(place)
            else:
                # Its own file may hold the key as well.
                pair = (listen.key or listen.certificate, listen.certificate)
                credentials = grpc.ssl_server_credentials([pair])
                self.port = self._server.add_secure_port(place, credentials)
        except (RuntimeError, OSError) as error:
            why = getattr(error, "strerror", None) or "gRPC can't have it"
            raise Refused(
                f"can't listen on {place} for Danube's admin tools ({why}): is another broker "
                "running? Choose another port with --admin-port; 0 takes one that is free"
            ) from None
        await self._server.start()
        for name in self._names:
            await self._health.set(name, _SERVING)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Take no new calls, finish those under way (for a short while), close everything."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(self._listen.settings.goodbye_seconds)


async def _check_free(listen: AdminListen) -> None:
    """Raises ``OSError`` with the reason, where gRPC would write it to standard error."""
    if listen.port:
        loop = asyncio.get_running_loop()
        probe = await loop.create_server(asyncio.Protocol, listen.host or None, listen.port)
        probe.close()
        await probe.wait_closed()


def _options(settings: AdminSettings) -> list[tuple[str, int]]:
    return [
        # Two processes must not share a port without knowing.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        # A list of all topics may be long.
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", settings.max_calls),
        ("grpc.max_allowed_incoming_connections", settings.max_connections),
        # How the end of a client is noticed that is just gone.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
    ]
