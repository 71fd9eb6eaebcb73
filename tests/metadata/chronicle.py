"""Writers that count, and a watch that must tell all of it: each number once, and in order.

A writer sets its key to 0, 1, 2 and so on by compare-and-swap, and reads back whenever it can't
know what happened, so that every number is written exactly once, whatever fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sulina.errors import Retriable, UnknownOutcome
from sulina.metadata import cas
from sulina.metadata.store import Event, EventKind, KeyValue, MetadataStore

PATIENCE = 60
"""Seconds after which a test that waits for progress fails."""


class Chronicle:
    """What was written below ``/count/``, and what was told of it."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._stop = False
        self._written: dict[str, int] = {}
        self._told = asyncio.Condition()
        self.events: list[Event] = []

    @asynccontextmanager
    async def running(self, writers: int, pause: float) -> AsyncIterator[Chronicle]:
        """Write and watch during the block; then stop, and check that all of it was told."""
        start = (await self._store.range("/count/")).revision + 1
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch(start))
            counting = [
                group.create_task(self._count(f"/count/{number}", pause))
                for number in range(writers)
            ]
            try:
                yield self
                self._stop = True
                await asyncio.wait(counting)
                await self.told(sum(self._written.values()) - len(self.events))
            finally:
                for task in (watching, *counting):
                    task.cancel()
        self._check()

    async def told(self, more: int) -> None:
        """Wait until ``more`` events than now were told."""
        enough = len(self.events) + more
        async with asyncio.timeout(PATIENCE), self._told:
            await self._told.wait_for(lambda: len(self.events) >= enough)

    def _check(self) -> None:
        revisions = [event.mod_revision for event in self.events]
        assert revisions == sorted(set(revisions))
        assert all(event.kind is EventKind.PUT for event in self.events)
        for key, count in self._written.items():
            told = [int(event.value) for event in self.events if event.key == key]
            assert told == list(range(count))

    async def _watch(self, start: int) -> None:
        watch = self._store.watch("/count/", from_revision=start)
        async for event in watch:
            async with self._told:
                self.events.append(event)
                self._told.notify_all()

    async def _count(self, key: str, pause: float) -> None:
        item: KeyValue | None = None
        self._written[key] = 0
        sure = True
        # What is not sure may still happen after the reading back: only doing it again settles it.
        while not (self._stop and sure):
            number = self._written[key]
            revision = 0 if item is None else item.mod_revision
            try:
                await cas.swap(self._store, key, revision, b"%d" % number)
            except (Retriable, UnknownOutcome):
                sure = False
                await asyncio.sleep(0.05)
            item = await self._read(key)
            if item is not None and int(item.value) == number:
                self._written[key] += 1
                sure = True
            await asyncio.sleep(pause)

    async def _read(self, key: str) -> KeyValue | None:
        while True:
            try:
                return await self._store.get(key)
            except Retriable:
                await asyncio.sleep(0.05)
