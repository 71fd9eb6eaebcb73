"""What the contract suite needs of a metadata store under test, and the stores there are.

A new implementation joins the suite with a function here and its name in ``HARNESSES``; one that
needs a running server gets it from a fixture, as ``on_etcd`` does.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sulina.metadata.batching import BatchingStore
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.etcd import EtcdStore
from sulina.metadata.etcd.server import EtcdServers
from sulina.metadata.lease import Lease
from sulina.metadata.store import Event, MetadataStore, Watch
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_disk import RealDisk
from tests.metadata.manual_clock import ManualClock

PATIENCE = 20
"""Seconds after which a test that waits for something fails."""


@dataclass
class Harness:
    """A store, and a way to let time pass for its leases.

    For a store on this clock time passes at once. For a server it passes for the holders of leases
    at once, and for the server itself as it does: wait for what it is to do then.
    """

    store: MetadataStore
    pass_time: Callable[[float], Awaitable[None]]
    ttl: int = 5
    """Seconds that a lease may have which a test lets run out."""


@asynccontextmanager
async def in_memory(folder: Path) -> AsyncIterator[Harness]:
    clock = ManualClock()
    store = await EmbeddedStore.open(clock)
    yield Harness(store, clock.advance)
    await store.close()


@asynccontextmanager
async def on_memory_disk(folder: Path) -> AsyncIterator[Harness]:
    clock = ManualClock()
    # A log so short that snapshots happen all the time.
    store = await EmbeddedStore.open(clock, MemoryDisk(), max_log_bytes=2_000)
    yield Harness(store, clock.advance)
    await store.close()


@asynccontextmanager
async def on_real_disk(folder: Path) -> AsyncIterator[Harness]:
    clock = ManualClock()
    disk = RealDisk(folder)
    store = await EmbeddedStore.open(clock, disk)
    yield Harness(store, clock.advance)
    await store.close()
    await disk.close()


@asynccontextmanager
async def put_together(folder: Path) -> AsyncIterator[Harness]:
    async with in_memory(folder) as inner:
        yield Harness(BatchingStore(inner.store), inner.pass_time)


class SkippingClock(RealClock):
    """The machine's clock, and a way to skip ahead for whoever reads it."""

    __slots__ = ("_skipped",)

    def __init__(self) -> None:
        self._skipped = 0.0

    def now(self) -> float:
        return super().now() + self._skipped

    async def skip(self, seconds: float) -> None:
        self._skipped += seconds


class RecordingStore(EtcdStore):
    """Remembers its leases, so that none runs out in the middle of another test."""

    def remember(self, granted: list[Lease]) -> None:
        self._granted = granted

    async def grant(self, ttl_seconds: int) -> Lease:
        lease = await super().grant(ttl_seconds)
        self._granted.append(lease)
        return lease


_roots = itertools.count(1)


@asynccontextmanager
async def on_etcd(servers: EtcdServers) -> AsyncIterator[Harness]:
    clock = SkippingClock()
    settings = replace(servers.settings, root=f"/contract/{next(_roots)}")
    store = await RecordingStore.open(settings, clock)
    granted: list[Lease] = []
    store.remember(granted)
    yield Harness(store, clock.skip, ttl=2)
    await store.close()
    after = await EtcdStore.open(settings, clock)
    for lease in granted:
        await after.revoke_lease(lease.id)
    await after.close()


HARNESSES: dict[str, Callable[[Path], AbstractAsyncContextManager[Harness]]] = {
    "in-memory": in_memory,
    "memory-disk": on_memory_disk,
    "real-disk": on_real_disk,
    "put-together": put_together,
}


async def take(watch: Watch, count: int) -> list[Event]:
    """The next ``count`` events of a watch."""
    async with asyncio.timeout(PATIENCE):
        return [await anext(watch) for _ in range(count)]
