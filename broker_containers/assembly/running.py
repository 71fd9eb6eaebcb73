"""Opens a broker over its services: first everything shared, then the doors, then the ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from broker_containers.broker.broker import Broker
from broker_containers.doors.binary.server import BinaryServer
from broker_containers.doors.danube.settings import DanubeListen
from broker_containers.doors.danube_admin.settings import AdminListen
from broker_containers.doors.http.health import Check, Health, metadata_check, storage_nodes_check
from broker_containers.doors.listen import Addresses, Listen
from broker_containers.doors.services import Services
from broker_containers.metrics.collectors import storage as storage_metrics
from broker_containers.metrics.collectors.broker import BrokerMetrics, of_quotas, of_schemas
from broker_containers.operations.storage import StorageHandlers
from storage_grpc.journal.recover import RecoveryReport
from storage_grpc.ledgers import Ledgers
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.settings import QuorumSettings
from storage_grpc.tier.tier import Tier
from sulina.metadata.store import MetadataStore
from sulina.metrics.exposition import Write
from sulina.metrics.machine import of_machine
from sulina.runtime.machine_watch import MachineWatch
from sulina.runtime.seam import Clock

_STORAGE_NODES_SECONDS = 15.0
"""How long a start waits for enough storage nodes."""

if TYPE_CHECKING:
    from broker_containers.doors.danube.server import DanubeServer
    from broker_containers.doors.danube_admin.server import AdminServer
    from broker_containers.doors.http.server import HttpServer
    from storage_grpc.remote import RemoteNodes


@dataclass(frozen=True, slots=True)
class LedgerStorage:
    """Where a broker keeps messages, and how the HTTP door reports on it."""

    ledgers: Ledgers
    ready: Check
    """The readiness check."""
    metrics: Write
    tier: Tier | None = None
    recovery: RecoveryReport | None = None
    """What the journal found when it was opened, if it is in this process."""
    folder: Path | None = None
    """Where messages are, if they are on this machine."""
    nodes: RemoteNodes | None = None
    quorum: QuorumSettings | None = None


async def storage_on(
    nodes: RemoteNodes, store: MetadataStore, clock: Clock, quorum: QuorumSettings
) -> LedgerStorage:
    """Ledgers replicated over storage nodes. Waits until an ack quorum of them answers, and raises
    ``Unavailable`` if that takes too long."""
    from storage_grpc.tier.remote import RemoteTier

    who = "an ack quorum of storage nodes"
    await nodes.ready_within(_STORAGE_NODES_SECONDS, quorum.ack_quorum, who)
    return LedgerStorage(
        QuorumLedgers(nodes, store, clock, quorum, near=nodes.near),
        storage_nodes_check(nodes, quorum, nodes.unhealthy),
        storage_metrics.of_nodes(nodes, quorum),
        RemoteTier(nodes, store, clock),
        nodes=nodes,
        quorum=quorum,
    )


@dataclass(frozen=True, slots=True)
class DoorSettings:
    """Where each door listens; a door without an entry is not opened."""

    binary: Listen
    http: Listen | None = None
    danube_admin: AdminListen | None = None
    danube: DanubeListen | None = None
    certificates: tuple[Path, ...] = ()
    """Certificates in files, of which the broker says when they expire."""


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker whose ports are open."""

    services: Services
    binary: BinaryServer
    http: HttpServer | None = None
    danube_admin: AdminServer | None = None
    danube: DanubeServer | None = None
    recovery: RecoveryReport | None = None
    """What the journal found when it was opened, if it is in this process."""

    @property
    def broker(self) -> Broker:
        return self.services.broker

    @property
    def addresses(self) -> Addresses:
        """Where its doors are reached."""
        return self.services.addresses


@asynccontextmanager
async def open_broker(
    services: Services, doors: DoorSettings, storage: LedgerStorage, *metrics: Write
) -> AsyncIterator[RunningBroker]:
    """Serve until left. ``metrics`` are added to those of the broker and its storage.

    Leaving stops listening, waits briefly for requests in progress, notifies clients, stores
    cursors and closes all connections. Raises ``Refused`` if a port is taken.
    """
    broker, addresses = services.broker, services.addresses
    services.operations.serve(
        StorageHandlers(broker.store, broker.clock, storage.nodes, storage.quorum, storage.folder)
    )
    async with AsyncExitStack() as stack:
        watch = await stack.enter_async_context(MachineWatch(broker.clock, doors.certificates))
        await stack.enter_async_context(services.authority)
        await stack.enter_async_context(services.schemas)
        binary = BinaryServer(services, doors.binary)
        # Closed after the broker, which notifies its clients over these connections.
        stack.push_async_callback(binary.close)
        await stack.enter_async_context(broker)
        stack.push_async_callback(services.publisher.close)
        await stack.enter_async_context(services.audit)
        await stack.enter_async_context(services.sampler)
        await stack.enter_async_context(services.tables)
        http = _http_door(services, doors.http, storage, metrics, binary, watch)
        danube_admin = _danube_admin_door(services, doors.danube_admin)
        danube = _danube_door(services, doors.danube)

        await binary.open()
        addresses.port = binary.port
        if http is not None:
            addresses.http_port = (await stack.enter_async_context(http)).port
        if danube_admin is not None:
            await stack.enter_async_context(danube_admin)
            addresses.danube_admin_port = danube_admin.port
        if danube is not None:
            await stack.enter_async_context(danube)
            addresses.grpc_port, addresses.grpc_url = danube.port, danube.url
        yield RunningBroker(services, binary, http, danube_admin, danube, storage.recovery)
        binary.stop_listening()


# These import when called: the libraries take a while to load, and not every broker needs them.


def _http_door(
    services: Services,
    listen: Listen | None,
    storage: LedgerStorage,
    metrics: Sequence[Write],
    binary: BinaryServer,
    watch: MachineWatch,
) -> HttpServer | None:
    if listen is None:
        return None
    from broker_containers.doors.http.server import HttpServer

    broker = services.broker
    collected = BrokerMetrics(broker, broker.settings.http.metrics_topics)
    schemas, audit = of_schemas(services.schemas), services.audit.write_metrics
    own = services.requests.write, storage.metrics, schemas, audit, services.tables.write_metrics
    for write in (*metrics, *own, of_quotas(broker.quotas), of_machine(watch, broker.clock)):
        collected.add(write)
    collected.add_connections({"binary": lambda: binary.connections})
    needed = {
        "metadata": metadata_check(broker.store),
        "storage": storage.ready,
        "descriptors": watch.check_descriptors,
        "certificates": watch.check_certificates,
    }
    health = Health(broker.settings.broker_id, broker.clock, needed)
    services.overview.parts, services.overview.folder = health.parts, storage.folder
    return HttpServer(services, listen, health, collected)


def _danube_admin_door(services: Services, listen: AdminListen | None) -> AdminServer | None:
    if listen is None:
        return None
    from broker_containers.doors.danube_admin.server import AdminServer

    return AdminServer(services, listen)


def _danube_door(services: Services, listen: DanubeListen | None) -> DanubeServer | None:
    if listen is None:
        return None
    from broker_containers.doors.danube.server import DanubeServer

    return DanubeServer(services, listen)
