"""Runs the Danube admin door of a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube_admin.places import Places
from broker_containers.doors.danube_admin.server import AdminServer
from broker_containers.doors.danube_admin.settings import AdminListen
from broker_containers.doors.schema_gates import schema_gates
from broker_containers.server import BinaryServer


@asynccontextmanager
async def serve_danube_admin(
    broker: Broker, binary: BinaryServer, listen: AdminListen
) -> AsyncIterator[AdminServer]:
    """Serve until left; calls under way are finished then. Raises ``Refused`` for the port."""
    async with (
        schema_gates(broker, binary) as schemas,
        AdminServer(
            binary.admin,
            Places(binary.admin),
            broker.clock,
            listen,
            schemas.registry,
            binary.authority,
            binary.requests,
        ) as server,
    ):
        binary.danube_admin_port = server.port
        yield server
