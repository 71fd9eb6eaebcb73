"""A single broker in one process, with its own journal or over storage nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from broker_containers.assembly.running import (
    DoorSettings,
    LedgerStorage,
    RunningBroker,
    open_broker,
    storage_on,
)
from broker_containers.assembly.services import build_services
from broker_containers.audit.trail import AuditSettings
from broker_containers.broker.broker import Broker
from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.http.health import journal_check
from broker_containers.doors.listen import Addresses
from broker_containers.metrics.collectors.danube import of_single_broker
from broker_containers.operations.settings import SettingHandlers
from broker_containers.operations.single_broker import SingleBrokerHandlers
from broker_containers.security.settings import AuthSettings
from broker_containers.settings.apply import single_broker_config
from broker_containers.topic_log.cleanup import delete_orphans
from storage_grpc.journal import JournalSettings, JournalStore
from storage_grpc.journal.metrics import of_journal
from storage_grpc.ledgers import EmbeddedLedgers
from storage_grpc.quorum.settings import QuorumSettings
from storage_grpc.tier.opening import open_tier
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.store import MetadataStore
from sulina.metrics.exposition import Exposition
from sulina.metrics.machine import of_disk
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_disk import RealDisk
from sulina.runtime.real_random import real_random
from sulina.runtime.seam import Clock


@asynccontextmanager
async def run_embedded(
    folder: Path,
    doors: DoorSettings,
    settings: BrokerSettings | None = None,
    journal: JournalSettings | None = None,
    auth: AuthSettings | None = None,
    tier: str | None = None,
    audit: AuditSettings | None = None,
) -> AsyncIterator[RunningBroker]:
    """Open or create the data under ``folder`` and serve it: broker, journal and metadata.

    With ``auth``, clients need tokens; with ``audit``, an audit trail is written. On leaving,
    clients are notified, cursors are stored and everything is closed cleanly. Raises ``Refused`` if
    another process uses the folder or a port.
    """
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(_metadata(folder))
        disk = await stack.enter_async_context(_disk(folder / "journal"))
        clock, random = RealClock(), real_random()
        entries = await JournalStore.open(disk, clock, journal or JournalSettings(), random)
        stack.push_async_callback(entries.close)
        await delete_orphans(entries, store)
        ledgers, objects = EmbeddedLedgers(entries), None
        if tier:
            objects = await stack.enter_async_context(
                open_tier(tier, ledgers, clock, real_random())
            )
        journal_metrics, disk_metrics = of_journal(entries), of_disk(folder)

        def metrics(text: Exposition) -> None:
            journal_metrics(text)
            disk_metrics(text)

        storage = LedgerStorage(
            ledgers,
            journal_check(entries),
            metrics,
            objects,
            entries.recovery,
            folder,
        )
        yield await stack.enter_async_context(
            single_broker(doors, store, storage, clock, settings, auth, audit)
        )


@asynccontextmanager
async def run_on_storage_nodes(
    folder: Path,
    doors: DoorSettings,
    places: Sequence[str],
    settings: BrokerSettings | None = None,
    quorum: QuorumSettings | None = None,
    auth: AuthSettings | None = None,
    audit: AuditSettings | None = None,
) -> AsyncIterator[RunningBroker]:
    """Run a broker whose ledgers are replicated over storage nodes (``name=host:port`` each).

    Its metadata is under ``folder``. Waits until an ack quorum of the nodes answers, and raises
    ``Unavailable`` if that takes too long. Otherwise the same as ``run_embedded``.
    """
    # gRPC takes a while to load, and only this function needs it.
    from storage_grpc.remote import RemoteNodes

    clock = RealClock()
    async with _metadata(folder) as store, RemoteNodes(places, clock, real_random()) as nodes:
        storage = await storage_on(nodes, store, clock, quorum or QuorumSettings())
        async with single_broker(doors, store, storage, clock, settings, auth, audit) as running:
            yield running


@asynccontextmanager
async def single_broker(
    doors: DoorSettings,
    store: MetadataStore,
    storage: LedgerStorage,
    clock: Clock,
    settings: BrokerSettings | None = None,
    auth: AuthSettings | None = None,
    audit: AuditSettings | None = None,
) -> AsyncIterator[RunningBroker]:
    """Run a broker that serves all topics of ``store``. Raises ``Refused`` if a port is taken."""
    broker = Broker(storage.ledgers, store, clock, settings or BrokerSettings(), tier=storage.tier)
    addresses = Addresses(doors.binary.host, doors.binary.tls is not None)
    handlers = [SingleBrokerHandlers(broker, addresses)]
    services = build_services(broker, addresses, handlers, auth, audit=audit)
    async with single_broker_config(broker) as config:
        services.operations.serve(SettingHandlers(config))
        async with open_broker(services, doors, storage, of_single_broker()) as running:
            yield running


@asynccontextmanager
async def _metadata(folder: Path) -> AsyncIterator[EmbeddedStore]:
    async with _disk(folder / "metadata") as disk:
        store = await EmbeddedStore.open(RealClock(), disk)
        try:
            yield store
        finally:
            await store.close()


@asynccontextmanager
async def _disk(folder: Path) -> AsyncIterator[RealDisk]:
    disk = RealDisk(folder)
    try:
        yield disk
    finally:
        await disk.close()
