"""What the contract suite needs of a metadata store under test, and the stores there are.

A new implementation joins the suite with a function here and its name in ``HARNESSES``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.store import Event, MetadataStore, Watch
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_disk import RealDisk
from tests.metadata.manual_clock import ManualClock

PATIENCE = 20
"""Seconds after which a test that waits for something fails."""


@dataclass
class Harness:
    """A store, and a way to let time pass for its leases."""

    store: MetadataStore
    pass_time: Callable[[float], Awaitable[None]]


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


HARNESSES: dict[str, Callable[[Path], AbstractAsyncContextManager[Harness]]] = {
    "in-memory": in_memory,
    "memory-disk": on_memory_disk,
    "real-disk": on_real_disk,
}


async def take(watch: Watch, count: int) -> list[Event]:
    """The next ``count`` events of a watch."""
    async with asyncio.timeout(PATIENCE):
        return [await anext(watch) for _ in range(count)]
