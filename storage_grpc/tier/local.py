"""The cold tier in this process: over an object store, with entries from a source."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from storage_grpc.tier.objects import ObjectReader
from storage_grpc.tier.offload import offload
from storage_grpc.tier.settings import TierSettings
from storage_grpc.tier.tier import EntrySource, OffloadJob, key_of
from sulina.errors import Overloaded
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.metadata.keys.ledger_list import TieredRef
from sulina.objects.store import ObjectStore
from sulina.runtime.seam import Aside


class LocalTier:
    """``Tier`` over ``store``, which stays the caller's to close; ``close`` this before it."""

    ready = True

    def __init__(
        self,
        store: ObjectStore,
        source: EntrySource,
        aside: Aside,
        settings: TierSettings | None = None,
    ) -> None:
        self._store = store
        self._source = source
        self._aside = aside
        self._settings = settings or TierSettings()
        self._objects = ObjectReader(store, aside, self._settings)
        self._turns = asyncio.Semaphore(self._settings.offloads)
        self._waiting = 0

    async def offload(self, job: OffloadJob, source: EntrySource | None = None) -> TieredRef:
        """See ``Tier.offload``; ``source`` is for entries that come from elsewhere."""
        if self._waiting >= self._settings.waiting:
            raise Overloaded(f"{self._waiting} ledgers wait to become objects: try again later")
        self._waiting += 1
        try:
            async with self._turns:
                return await offload(
                    job,
                    source or self._source,
                    self._store,
                    self._objects,
                    self._aside,
                    self._settings,
                )
        finally:
            self._waiting -= 1

    async def read(
        self, head: ObjectHead, offset: int, max_bytes: int, then: ObjectHead | None = None
    ) -> Sequence[bytes]:
        return await self._objects.read(head, offset, max_bytes, then)

    async def read_at(self, head: ObjectHead, time_us: int) -> bytes | None:
        return await self._objects.read_at(head, time_us)

    async def control(self, head: ObjectHead) -> Sequence[bytes]:
        return await self._objects.control(head)

    async def verify(self, head: ObjectHead) -> ObjectSummary:
        return await self._objects.verify(head)

    async def delete(self, heads: Sequence[ObjectHead]) -> None:
        for head in heads:
            self._objects.forget(head)
            await self._store.delete(key_of(head))

    async def close(self) -> None:
        """End what is being fetched; offloads under way are their callers' to end."""
        await self._objects.close()
