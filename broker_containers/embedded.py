"""A whole cluster in one process: metadata, journal, broker and doors over one data folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from broker_containers.broker import Broker
from broker_containers.orphans import delete_orphans
from broker_containers.server import BinaryServer, Listen
from broker_containers.settings import BrokerSettings
from storage_grpc.journal.settings import JournalSettings
from storage_grpc.journal.store import JournalStore
from storage_grpc.ledgers import EmbeddedLedgers
from sulina.metadata.embedded import EmbeddedStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_disk import RealDisk
from sulina.runtime.real_random import real_random


@asynccontextmanager
async def run_embedded(
    folder: Path,
    listen: Listen,
    settings: BrokerSettings | None = None,
    journal: JournalSettings | None = None,
) -> AsyncIterator[BinaryServer]:
    """Open or create the data under ``folder`` and serve it.

    On leaving, clients are told, cursors are stored and everything is closed cleanly. Raises
    ``Refused`` if another process uses the folder or the port.
    """
    clock = RealClock()
    metadata_disk = RealDisk(folder / "metadata")
    try:
        store = await EmbeddedStore.open(clock, metadata_disk)
        journal_disk = RealDisk(folder / "journal")
        try:
            entries = await JournalStore.open(
                journal_disk, clock, journal or JournalSettings(), real_random()
            )
            await delete_orphans(entries, store)
            broker = Broker(EmbeddedLedgers(entries), store, clock, settings or BrokerSettings())
            try:
                async with BinaryServer(broker, listen) as server, broker:
                    server.recovery = entries.recovery
                    yield server
                    server.stop_listening()
            finally:
                await entries.close()
                await store.close()
        finally:
            await journal_disk.close()
    finally:
        await metadata_disk.close()
