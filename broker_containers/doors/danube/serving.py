"""Runs the door for Danube's clients beside a broker's others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from broker_containers.broker import Broker
from broker_containers.doors.danube.server import AddService, DanubeServer
from broker_containers.doors.danube.settings import DanubeListen
from broker_containers.schemas.gates import SchemaGates
from broker_containers.schemas.methods import schema_methods
from broker_containers.schemas.opening import open_registry
from broker_containers.server import BinaryServer


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
    the door opens the schema registry over the broker's metadata store, and all doors offer it.
    """
    async with AsyncExitStack() as stack:
        if schemas is None:
            registry = open_registry(broker.store, broker.clock)
            binary.admin.offer(schema_methods(registry))
            schemas = await stack.enter_async_context(SchemaGates(registry, broker.store))
        server = await stack.enter_async_context(DanubeServer(broker, listen, services, schemas))
        binary.grpc_port = server.port
        yield server
