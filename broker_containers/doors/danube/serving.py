"""Runs the door for Danube's clients beside a broker's others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube.server import AddService, DanubeServer
from broker_containers.doors.danube.settings import DanubeListen
from broker_containers.doors.schema_gates import schema_gates
from broker_containers.server import BinaryServer


@asynccontextmanager
async def serve_danube(
    broker: Broker,
    binary: BinaryServer,
    listen: DanubeListen,
    services: Sequence[AddService] = (),
) -> AsyncIterator[DanubeServer]:
    """Serve until left; calls under way are finished then. Raises ``Refused`` for the port.

    ``services`` are further ones on the same port, each added by its function.
    """
    async with (
        schema_gates(broker, binary) as schemas,
        DanubeServer(
            broker, listen, services, schemas, binary.authority, binary.requests
        ) as server,
    ):
        binary.grpc_port = server.port
        yield server
