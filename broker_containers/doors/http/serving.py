"""Runs the HTTP door of a broker over whatever storage it has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_containers.broker.broker import Broker
from broker_containers.doors.http import parts
from broker_containers.doors.http.health import Health
from broker_containers.doors.http.server import HttpServer
from broker_containers.doors.schema_gates import schema_gates
from broker_containers.metrics.collectors import storage as storage_metrics
from broker_containers.metrics.collectors.broker import BrokerMetrics
from broker_containers.metrics.collectors.schemas import of_schemas
from broker_containers.metrics.exposition import Write
from broker_containers.server import BinaryServer, Listen
from storage_grpc.journal import JournalStore
from storage_grpc.quorum.nodes import Nodes
from storage_grpc.quorum.settings import QuorumSettings


@asynccontextmanager
async def serve_http(
    broker: Broker,
    binary: BinaryServer,
    listen: Listen,
    storage: JournalStore | tuple[Nodes, QuorumSettings],
    *more: Write,
) -> AsyncIterator[HttpServer]:
    """Serve until left; requests under way are finished then. Raises ``Refused`` for the port.

    ``more`` are metrics besides those of the broker and its storage.
    """
    metrics = BrokerMetrics(broker, broker.settings.http.metrics_topics)
    for write in more:
        metrics.add(write)
    metrics.add(binary.requests.write)
    metrics.add_connections({"binary": lambda: binary.connections})
    if isinstance(storage, JournalStore):
        check = parts.journal(storage)
        metrics.add(storage_metrics.of_journal(storage))
    else:
        check = parts.storage_nodes(*storage)
        metrics.add(storage_metrics.of_nodes(*storage))
    needed = {"metadata": parts.metadata(broker.store), "storage": check}
    health = Health(broker.settings.broker_id, broker.clock, needed)
    async with (
        schema_gates(broker, binary) as schemas,
        metrics,
        HttpServer(broker, binary, listen, health, metrics) as server,
    ):
        metrics.add(of_schemas(schemas))
        binary.http_port = server.port
        yield server
