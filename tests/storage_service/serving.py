"""Storage nodes in the test process, behind a real gRPC server on the loopback."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from storage_grpc.entries import EntryStore
from storage_grpc.journal import JournalSettings, JournalStore
from storage_grpc.loss_record import LossRecord
from storage_grpc.memory_store import MemoryEntryStore
from storage_grpc.remote.link import Link
from storage_grpc.remote.node import RemoteNode
from storage_grpc.remote.settings import RemoteSettings
from storage_grpc.service.server import Identity, StorageServer
from storage_grpc.service.tls import ServerTls
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock

INCARNATION = "0123456789abcdef" * 2
SMALL = JournalSettings(
    file_bytes=1 << 20,
    reserve_bytes=64 << 10,
    group_bytes=64 << 10,
    max_pending_bytes=8 << 20,
    max_entry_bytes=1 << 20,
)
"""So small that a few entries take several files."""
QUICK = RemoteSettings(
    first_backoff=0.02,
    last_backoff=0.1,
    check_seconds=0.05,
    first_avoid=0.1,
)
"""A client with short pauses between attempts and checks."""


async def open_journal(disk: MemoryDisk, settings: JournalSettings = SMALL) -> JournalStore:
    return await JournalStore.open(disk, RealClock(), settings, random.Random(1))


@asynccontextmanager
async def serving(
    store: EntryStore | None = None,
    *,
    port: int = 0,
    id: str = "storage-1",
    incarnation: str = INCARNATION,
    may_have_lost: bool = False,
    life: str = "",
    max_entry_bytes: int = 64 << 20,
    stop_seconds: float = 5.0,
    tls: ServerTls | None = None,
) -> AsyncIterator[StorageServer]:
    """A server over ``store``, by default an empty one in memory; stopped on exit."""
    identity = Identity(
        id, incarnation, LossRecord(may_have_lost=may_have_lost, life=life), max_entry_bytes
    )
    server = StorageServer(identity, MemoryEntryStore() if store is None else store, tls=tls)
    await server.start("127.0.0.1", port)
    try:
        yield server
    finally:
        await server.stop(stop_seconds)


@asynccontextmanager
async def linked(port: int, settings: RemoteSettings = QUICK) -> AsyncIterator[Link]:
    """A connection to a port of this machine."""
    link = Link(f"127.0.0.1:{port}", settings)
    try:
        yield link
    finally:
        await link.close()


@asynccontextmanager
async def remote(port: int, settings: RemoteSettings = QUICK) -> AsyncIterator[RemoteNode]:
    """The node that listens on a port of this machine."""
    async with linked(port, settings) as link:
        node = RemoteNode(link, await link.hello(5), settings, RealClock())
        try:
            yield node
        finally:
            await node.close()
