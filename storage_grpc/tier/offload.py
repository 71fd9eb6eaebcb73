"""Makes the object of a closed ledger from its entries, which are read while it is encoded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from storage_grpc.entries import Entry
from storage_grpc.tier.objects import ObjectReader
from storage_grpc.tier.tier import EntrySource, Offloaded, OffloadJob
from storage_grpc.tier.writing import Encoding, table_of, write_object
from sulina.errors import CorruptEntry, StorageFailed
from sulina.lake.encoder import EncoderSettings, LedgerEncoder
from sulina.objects.store import ObjectStore
from sulina.runtime.seam import RunBlocking

_READ_BYTES = 4 << 20
"""Entries read at once."""


async def offload(
    job: OffloadJob,
    source: EntrySource,
    store: ObjectStore,
    objects: ObjectReader,
    run_blocking: RunBlocking,
    row_group_bytes: int,
) -> Offloaded:
    """See ``Tier.offload``. May be cancelled at any time."""

    def start() -> Encoding:
        return _Encoding(job, source, run_blocking, row_group_bytes)

    return await write_object(job.head, start, store, objects)


class _Encoding(Encoding):
    """Encodes an object as its bytes are consumed; memory is bounded by a row group."""

    def __init__(
        self, job: OffloadJob, source: EntrySource, run_blocking: RunBlocking, row_group_bytes: int
    ) -> None:
        super().__init__()
        self._job = job
        self._source = source
        self._run_blocking = run_blocking
        self._row_group_bytes = row_group_bytes

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The bytes, in order. Raises ``StorageFailed`` if the entries end at another offset."""
        job = self._job
        table = await self._run_blocking(partial(table_of, job.head, job.schemas))
        encoder = LedgerEncoder(job.head, EncoderSettings(self._row_group_bytes), table)
        async for entries in self._entries():
            frames = [entry.payload for entry in entries]
            for chunk in await self._run_blocking(partial(encoder.add, frames)):
                yield chunk
        if job.closing:
            for chunk in encoder.add([job.closing]):
                yield chunk
        rest, summary = await self._run_blocking(encoder.finish)
        if summary.last_offset != job.last_offset:
            raise StorageFailed(
                f"the entries of ledger {job.head.ledger} end at offset {summary.last_offset} and "
                f"not at {job.last_offset}: it can't be offloaded"
            )
        for chunk in rest:
            yield chunk
        self.summary = summary
        self.rejected = encoder.rejected

    async def _entries(self) -> AsyncGenerator[list[Entry]]:
        """All entries; the next batch is read while the previous one is encoded."""
        job = self._job
        reading = self._start(0)
        try:
            at = 0
            while at <= job.last_entry:
                entries = await reading
                at += len(entries)
                if at <= job.last_entry:
                    reading = self._start(at)
                yield entries
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    def _start(self, first: int) -> asyncio.Task[list[Entry]]:
        job = self._job
        return asyncio.create_task(
            self._read(first, job.last_entry - first + 1), name=f"offload-{job.head.ledger}"
        )

    async def _read(self, first: int, most: int) -> list[Entry]:
        ledger = self._job.head.ledger
        found = await self._source.read(ledger, first, max_entries=most, max_bytes=_READ_BYTES)
        if not found or found[0].entry != first or len(found) > most:
            raise CorruptEntry(f"a read of entry {first} of ledger {ledger} returned other entries")
        return found
