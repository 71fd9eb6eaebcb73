"""The schema registry of a broker, one for all its doors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_containers.broker.broker import Broker
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.schemas.methods import schema_methods
from broker_containers.schemas.opening import open_registry
from broker_containers.server import BinaryServer


@asynccontextmanager
async def schema_gates(broker: Broker, binary: BinaryServer) -> AsyncIterator[SchemaChecks]:
    """What decides about the schemas of messages, from now until left, at every door.

    Opens the registry over the broker's metadata store if nobody has; enter it before the doors
    take producers. Its methods are offered to administrators.
    """
    if binary.schemas is not None:
        yield binary.schemas
        return
    registry = open_registry(broker.store, broker.clock)
    binary.admin.offer(schema_methods(registry))
    async with SchemaChecks(registry, broker.store) as gates:
        binary.schemas = gates
        try:
            yield gates
        finally:
            binary.schemas = None
