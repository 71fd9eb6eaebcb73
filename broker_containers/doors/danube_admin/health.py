"""gRPC's health checks and reflection, on the admin port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from broker_containers.doors.grpc_shared.callers import Context
from broker_containers.doors.grpc_shared.methods import Abort

HEALTH: Final[Any] = health_pb2.DESCRIPTOR.services_by_name["Health"]
REFLECTION: Final[Any] = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
_Response = health_pb2.HealthCheckResponse


class GrpcHealth:
    """Whether services are served: all of ``names``, and the empty name for the server, or none."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {"", *names}
        self._serving = True
        self._changed = asyncio.Event()

    def _of(self, name: str) -> Any:
        if name not in self._names:
            return _Response.SERVICE_UNKNOWN
        return _Response.SERVING if self._serving else _Response.NOT_SERVING

    def check(self, request: health_pb2.HealthCheckRequest, _: Context) -> _Response:
        found = self._of(request.service)
        if found == _Response.SERVICE_UNKNOWN:
            why = f"there is no service {request.service[:200]!r}"
            raise Abort(grpc.StatusCode.NOT_FOUND, why)
        return _Response(status=found)

    async def watch(
        self, request: health_pb2.HealthCheckRequest, _: Context
    ) -> AsyncGenerator[Sequence[bytes]]:
        """The state now, and that the server stops. Does not end by itself."""
        yield [_Response(status=self._of(request.service)).SerializeToString()]
        await self._changed.wait()
        yield [_Response(status=self._of(request.service)).SerializeToString()]
        await asyncio.Event().wait()

    def stop(self) -> None:
        """The server stops: nothing is served any more."""
        self._serving = False
        self._changed.set()


class Reflection:
    """Describes the services to tools such as grpcurl."""

    def __init__(self, names: Iterable[str]) -> None:
        self._answers: Any = reflection.aio.ReflectionServicer(names)

    async def server_reflection_info(
        self, requests: AsyncIterator[Any], context: Context
    ) -> AsyncGenerator[Sequence[bytes]]:
        async for answer in self._answers.ServerReflectionInfo(requests, context):
            yield [answer.SerializeToString()]
