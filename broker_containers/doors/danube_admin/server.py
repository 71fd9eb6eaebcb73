"""Listens on the Danube admin port: the services, health checks and reflection."""

from __future__ import annotations

from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from broker_containers.doors.danube_admin import danube_admin_pb2 as pb
from broker_containers.doors.danube_admin.brokers import BrokerAdmin
from broker_containers.doors.danube_admin.cluster_map import ClusterMap
from broker_containers.doors.danube_admin.namespaces import ClusterAdmin, NamespaceAdmin
from broker_containers.doors.danube_admin.security import SecurityAdmin
from broker_containers.doors.danube_admin.settings import AdminListen, AdminSettings
from broker_containers.doors.danube_admin.topics import TopicAdmin
from broker_containers.doors.danube_schema.service import NAME as SCHEMA_SERVICE
from broker_containers.doors.danube_schema.service import add_to
from broker_containers.doors.grpc_shared.callers import Callers, Context
from broker_containers.doors.grpc_shared.calls import AdminService, CallGuard, admin_handlers
from broker_containers.doors.grpc_shared.gate import CallGate, OpenMethod
from broker_containers.doors.grpc_shared.port import UNKNOWN_CALLERS, open_port
from broker_containers.doors.services import Services

_NO_RAFT: Final = (
    "Sulina's brokers join a cluster when they start and leave it when they stop, so there is no "
    "Raft group to change: start one with `sulina broker run`, or drain one with UnloadBroker"
)
_NOT_SERVED: Final = {
    "/danube_admin.ClusterAdmin/AddNode": _NO_RAFT,
    "/danube_admin.ClusterAdmin/PromoteNode": _NO_RAFT,
    "/danube_admin.ClusterAdmin/RemoveNode": _NO_RAFT,
}
_OPEN_METHODS: Final = {
    f"/{health.SERVICE_NAME}/Check": OpenMethod(waiting=16, running=16),
    f"/{health.SERVICE_NAME}/Watch": OpenMethod(waiting=16, running=16),
}
_SERVING: Final = health_pb2.HealthCheckResponse.SERVING


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
        self._server = grpc.aio.server(
            interceptors=[CallGate(callers, services.throttle, clock, _OPEN_METHODS)],
            options=_options(settings),
            maximum_concurrent_rpcs=settings.max_calls,
        )
        handlers: list[grpc.GenericRpcHandler] = [
            admin_handlers(described[name], service, clock, settings.call_seconds, guard)
            for name, service in admin_services.items()
        ]
        self._server.add_generic_rpc_handlers([*handlers, NotServed()])
        add_to(self._server, services.schemas, guard, settings.call_seconds)
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names = [*(one.full_name for one in described.values()), SCHEMA_SERVICE]
        reflection.enable_server_reflection(
            (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server
        )
        self.port = listen.port
        """The port in use; the one chosen by the system if 0 was asked for."""

    async def __aenter__(self) -> AdminServer:
        listen = self._listen
        self.port = await open_port(
            self._server,
            listen.host,
            listen.port,
            listen.certificate,
            listen.key,
            "Danube's admin tools",
            "--admin-port",
        )
        await self._server.start()
        for name in self._names:
            await self._health.set(name, _SERVING)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop accepting calls, finish those under way within a short time, close everything."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(self._listen.settings.goodbye_seconds)


def _options(settings: AdminSettings) -> list[tuple[str, int]]:
    return [
        # Two processes must not share a port unnoticed.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        # A list of all topics may be long.
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", settings.max_calls),
        ("grpc.max_allowed_incoming_connections", settings.max_connections),
        *UNKNOWN_CALLERS,
        # Detects clients that are gone without closing their connection.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
    ]


class NotServed(grpc.GenericRpcHandler):
    """Refuses what Danube has and Sulina does not, with the reason. Add it after the services."""

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        reason = _NOT_SERVED.get(handler_call_details.method)
        if reason is None:
            return None

        async def refuse(_: bytes, context: Context) -> bytes:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, reason)

        return grpc.unary_unary_rpc_method_handler(refuse)
