"""Listens on the Danube admin port: the services, health checks and reflection."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NoReturn

import grpc

from broker_containers.doors.danube_admin import danube_admin_pb2 as pb
from broker_containers.doors.danube_admin.brokers import BrokerAdmin
from broker_containers.doors.danube_admin.cluster_map import ClusterMap
from broker_containers.doors.danube_admin.health import (
    HEALTH,
    REFLECTION,
    GrpcHealth,
    Reflection,
)
from broker_containers.doors.danube_admin.namespaces import ClusterAdmin, NamespaceAdmin
from broker_containers.doors.danube_admin.security import SecurityAdmin
from broker_containers.doors.danube_admin.settings import AdminListen
from broker_containers.doors.danube_admin.topics import TopicAdmin
from broker_containers.doors.danube_schema.service import NAME as SCHEMA_SERVICE
from broker_containers.doors.danube_schema.service import schema_methods
from broker_containers.doors.grpc_shared.callers import Callers
from broker_containers.doors.grpc_shared.calls import (
    AdminService,
    CallGuard,
    admin_handlers,
    handlers_of,
    methods_of,
)
from broker_containers.doors.grpc_shared.gate import CallGate, OpenMethod
from broker_containers.doors.grpc_shared.methods import Abort, Method
from broker_containers.doors.grpc_shared.server import GrpcLimits, GrpcServer
from broker_containers.doors.grpc_shared.statuses import FOR_TOOLS
from broker_containers.doors.http2.limits import Http2Limits
from broker_containers.doors.services import Services

_NO_RAFT: Final = (
    "Sulina's brokers join a cluster when they start and leave it when they stop, so there is no "
    "Raft group to change: start one with `sulina broker run`, or drain one with UnloadBroker"
)
_NOT_SERVED: Final = {
    ("danube_admin.ClusterAdmin", name): _NO_RAFT
    for name in ("AddNode", "PromoteNode", "RemoveNode")
}
_OPEN_METHODS: Final = {
    f"/{HEALTH.full_name}/{name}": OpenMethod(waiting=16, running=16) for name in ("Check", "Watch")
}


class AdminServer:
    """The Danube admin door. Use as ``async with``, inside that of the broker."""

    def __init__(self, services: Services, listen: AdminListen) -> None:
        """The schema registry is served on the same port."""
        self._listen = listen
        admin, clock = services.operations.client, services.broker.clock
        places, registry = ClusterMap(services.operations), services.schemas.registry
        callers = Callers(services.authority, services.audit, "danube_admin")
        guard = CallGuard(callers, services.operations, services.requests)
        settings = listen.settings
        described = pb.DESCRIPTOR.services_by_name
        admin_services: dict[str, AdminService] = {
            "BrokerAdmin": BrokerAdmin(admin, places, clock, settings),
            "ClusterAdmin": ClusterAdmin(admin),
            "NamespaceAdmin": NamespaceAdmin(admin, places),
            "TopicAdmin": TopicAdmin(admin, places, registry),
            "SecurityAdmin": SecurityAdmin(admin),
        }
        assert admin_services.keys() == set(described)
        limits = GrpcLimits(
            max_connections=settings.max_connections,
            max_calls=settings.max_calls,
            max_message_bytes=settings.max_message_bytes,
            keepalive_seconds=30.0,
            http2=Http2Limits(max_streams=max(settings.max_calls, 32)),
        )
        gate = CallGate(callers, services.throttle, _OPEN_METHODS)
        self.grpc = GrpcServer(services, "danube_admin", gate, limits)
        for name, service in admin_services.items():
            seconds = settings.call_seconds
            self.grpc.add(admin_handlers(described[name], service, clock, seconds, guard))
        self.grpc.add(schema_methods(services.schemas, guard, settings.call_seconds))
        names = [*(one.full_name for one in described.values()), SCHEMA_SERVICE]
        self._health = GrpcHealth(names)
        reflection = Reflection((*names, HEALTH.full_name, REFLECTION.full_name))
        for each, served in ((HEALTH, self._health), (REFLECTION, reflection)):
            found = methods_of(each, served)
            self.grpc.add(handlers_of(each, found, services.requests, FOR_TOOLS))
        self.grpc.add(_not_served(services))
        self.port = listen.port
        """The port in use; the one chosen by the system if 0 was asked for."""

    async def __aenter__(self) -> AdminServer:
        listen = self._listen
        self.port = await self.grpc.open(
            listen.host, listen.port, listen.tls, "Danube's admin tools", "--admin-port"
        )
        await self.grpc.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop accepting calls, finish those under way within a short time, close everything."""
        self._health.stop()
        await self.grpc.close(self._listen.settings.goodbye_seconds)


def _not_served(services: Services) -> Iterator[Method]:
    """What Danube has and Sulina does not: refused with the reason."""
    for (service, name), reason in _NOT_SERVED.items():
        refuse = partial(_refuse, reason)
        answered = services.requests.of(service, name)
        yield Method(service, name, refuse, bytes, answered, FOR_TOOLS)


def _refuse(reason: str, _: bytes, __: object) -> NoReturn:
    raise Abort(grpc.StatusCode.UNIMPLEMENTED, reason)
