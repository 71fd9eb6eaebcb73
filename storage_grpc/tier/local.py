"""The cold tier over an object store: what storage nodes and single brokers use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Protocol

from storage_grpc.tier.compacting import Compacting
from storage_grpc.tier.erasing import count_erasable, erase_from_objects
from storage_grpc.tier.objects import ObjectReader
from storage_grpc.tier.offload import offload
from storage_grpc.tier.replacing import Joining, replace_objects
from storage_grpc.tier.tier import (
    CACHE_BYTES,
    EntrySource,
    Offloaded,
    OffloadJob,
    ReplaceJob,
    Rewrite,
    key_of,
)
from sulina.errors import AlreadyExists, Overloaded
from sulina.lake.layout import RemovedMark, notice_key, removed_key
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.metadata.keys.erasures import Ranges
from sulina.names import TopicName
from sulina.objects.keeping import Keeping, KeepsDeleted
from sulina.objects.store import ObjectStore
from sulina.runtime.seam import RunBlocking

_MAX_OFFLOADS = 2
"""Ledgers that are offloaded at the same time."""
_MAX_WAITING = 64
"""Offloads running or waiting; further ones fail with ``Overloaded``."""
_MAX_REPLACING = 8
"""The same for replacements, of which one runs."""


class Helper(Protocol):
    """Does the work of a tier in another process; ``storage_grpc.tier.helper``."""

    async def replace(self, job: ReplaceJob) -> Offloaded:
        """See ``Tier.replace``."""
        ...

    async def count_erasable(
        self, head: ObjectHead, key_digests: Sequence[str], offsets: Ranges
    ) -> int:
        """See ``Tier.count_erasable``."""
        ...

    async def close(self) -> None:
        """Stop what is under way."""
        ...


class LocalTier:
    """``Tier`` over ``store``, which the caller closes; ``close`` this first."""

    ready = True

    def __init__(
        self,
        store: ObjectStore,
        source: EntrySource,
        run_blocking: RunBlocking,
        *,
        cache_bytes: int = CACHE_BYTES,
        row_group_bytes: int = 16 << 20,
        helper: Helper | None = None,
    ) -> None:
        """``cache_bytes`` limits the frames kept in memory for replays, ``row_group_bytes`` the
        frames in a row group: what a replay fetches at once. ``helper`` replaces objects in another
        process; it is closed with this."""
        self._store = store
        self._source = source
        self._run_blocking = run_blocking
        self._row_group_bytes = row_group_bytes
        self._objects = ObjectReader(store, run_blocking, cache_bytes)
        self._helper = helper
        self._turns = asyncio.Semaphore(_MAX_OFFLOADS)
        self._waiting = 0
        self._turn = asyncio.Semaphore(1)
        self._replacing = 0

    async def offload(self, job: OffloadJob, source: EntrySource | None = None) -> Offloaded:
        """See ``Tier.offload``. ``source`` replaces the tier's own source of entries."""
        if self._waiting >= _MAX_WAITING:
            raise Overloaded(f"{self._waiting} ledgers wait to be offloaded: try again later")
        self._waiting += 1
        try:
            async with self._turns:
                return await offload(
                    job,
                    source or self._source,
                    self._store,
                    self._objects,
                    self._run_blocking,
                    self._row_group_bytes,
                )
        finally:
            self._waiting -= 1

    async def replace(self, job: ReplaceJob) -> Offloaded:
        """See ``Tier.replace``. One at a time, beside the offloads."""
        if self._replacing >= _MAX_REPLACING:
            raise Overloaded(f"{self._replacing} replacements wait here: try again later")
        self._replacing += 1
        try:
            async with self._turn:
                if self._helper is not None:
                    made = await self._helper.replace(job)
                    self._objects.forget(job.head)  # what an earlier object of that name had
                    return made
                parts = self._store, self._objects, self._run_blocking, self._row_group_bytes
                if job.rewrite in (Rewrite.ERASE, Rewrite.ERASE_OFFSETS):
                    return await erase_from_objects(job, *parts)
                kind = Compacting if job.rewrite is Rewrite.COMPACT else Joining
                return await replace_objects(job, *parts, kind)
        finally:
            self._replacing -= 1

    async def count_erasable(
        self, head: ObjectHead, key_digests: Sequence[str], offsets: Ranges = ()
    ) -> int:
        """See ``Tier.count_erasable``."""
        if self._helper is not None:
            return await self._helper.count_erasable(head, key_digests, offsets)
        parts = self._objects, self._run_blocking
        return await count_erasable(head, key_digests, offsets, *parts)

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

    async def mark_removed(
        self, topic: TopicName, mark: RemovedMark, former: Sequence[RemovedMark]
    ) -> None:
        with suppress(AlreadyExists):
            await self._store.put(removed_key(topic, mark), _nothing())
        for each in former:
            if each.number < mark.number:  # the highest one counts
                await self._store.delete(removed_key(topic, each))

    async def keeping(self) -> Keeping:
        return await self._store.keeping() if isinstance(self._store, KeepsDeleted) else Keeping()

    async def delete(self, heads: Sequence[ObjectHead], notices: Sequence[ObjectHead] = ()) -> None:
        for head in heads:
            self._objects.forget(head)
            await self._store.delete(key_of(head))
        for head in notices:
            await self._store.delete(notice_key(head.topic, head.ledger, head.generation))

    async def close(self) -> None:
        """Cancel pending fetches; callers cancel their own offloads."""
        await self._objects.close()
        if self._helper is not None:
            await self._helper.close()


async def _nothing() -> AsyncGenerator[bytes]:
    """The content of a mark: stores differ in whether they keep empty objects, so it has a byte."""
    yield b"\n"
