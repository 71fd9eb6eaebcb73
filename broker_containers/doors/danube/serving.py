"""Runs the door for Danube's clients beside a broker's others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from broker_containers.broker import Broker
from broker_containers.doors.danube.server import AddService, DanubeServer
from broker_containers.doors.danube.settings import DanubeListen
from broker_containers.schemas.gates import SchemaGates
from broker_containers.schemas.registry import SchemaRegistry
from broker_containers.server import BinaryServer
from sulina.runtime.protoc import Protoc


@asynccontextmanager
async def serve_danube(
    broker: Broker,
    binary: BinaryServer,
    listen: DanubeListen,
    services: Sequence[AddService] = (),
    schemas: SchemaGates | None = None,
) -> AsyncIterator[DanubeServer]:
    """Serve until left; calls under way are finished then. Raises ``Refused`` for the port.

    ``services`` are further ones on the same port, each added by its function. Without ``schemas``
    the door has a schema registry of its own, over the broker's metadata store.
    """
    async with AsyncExitStack() as stack:
        if schemas is None:
            compiler = Protoc(broker.clock).compile
            registry = SchemaRegistry(broker.store, broker.clock, compiler)
            schemas = await stack.enter_async_context(SchemaGates(registry, broker.store))
        server = await stack.enter_async_context(DanubeServer(broker, listen, services, schemas))
        binary.grpc_port = server.port
        yield server
