"""Writes the object of a closed ledger: encode, put if absent, read back, verify.

An offload succeeds only when every byte was read back and the records have the digest computed from
the ledger's entries. An existing object is verified against the same digest: another node may have
written it, or the answer to our own write was lost. Nothing is ever deleted here, not even an
object that turns out to be wrong, because it may belong to something else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from functools import partial

from storage_grpc.entries import Entry
from storage_grpc.tier.objects import ObjectReader
from storage_grpc.tier.tier import EntrySource, Offloaded, OffloadJob, key_of
from sulina.errors import AlreadyExists, CorruptEntry, Refused, StorageFailed
from sulina.lake.encoder import EncoderSettings, LedgerEncoder
from sulina.lake.summary import ObjectSummary
from sulina.lake.typed.table import TableSchema, table_schema
from sulina.metadata.keys.ledger_list import TieredRef
from sulina.objects.store import ObjectStore
from sulina.runtime.seam import RunBlocking

_log = logging.getLogger(__name__)
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
    encoding = _Encoding(job, source, run_blocking, row_group_bytes)
    chunks = encoding.chunks()
    try:
        await store.put(key_of(job.head), chunks)
    except AlreadyExists:
        if encoding.summary is None:
            encoding = _Encoding(job, source, run_blocking, row_group_bytes)
            async for _ in encoding.chunks():
                pass
    finally:
        await chunks.aclose()
    ours = encoding.summary
    assert ours is not None, "the store takes an object to its end"
    there = await objects.verify(job.head)
    if _content(there) != _content(ours):
        raise AlreadyExists(
            f"the object {key_of(job.head)} holds other records than ledger {job.head.ledger} of "
            f"{job.head.topic}: does the bucket belong to another cluster? Nothing was deleted; "
            "use another prefix, or move the object away"
        )
    return Offloaded(TieredRef(there.size, there.digest), encoding.rejected)


def _content(summary: ObjectSummary) -> tuple[object, ...]:
    return (
        summary.topic,
        summary.ledger,
        summary.first_offset,
        summary.last_offset,
        summary.digest,
    )


def _table(job: OffloadJob) -> TableSchema | None:
    """The table of the payloads; None if there is none, or its schema cannot be read.

    A ledger must become an object whatever its schema is: readers can decode payloads later.
    """
    try:
        return table_schema(job.schemas)
    except Refused as error:
        _log.warning("the object of ledger %d gets no typed columns: %s", job.head.ledger, error)
        return None


class _Encoding:
    """Encodes an object as its bytes are consumed; memory is bounded by a row group."""

    def __init__(
        self, job: OffloadJob, source: EntrySource, run_blocking: RunBlocking, row_group_bytes: int
    ) -> None:
        self.summary: ObjectSummary | None = None
        """Summary of the object, once all of it was consumed."""
        self.rejected = 0
        """Payloads that do not fit their schema."""
        self._job = job
        self._source = source
        self._run_blocking = run_blocking
        self._row_group_bytes = row_group_bytes

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The bytes, in order. Raises ``StorageFailed`` if the entries end at another offset."""
        job = self._job
        table = await self._run_blocking(partial(_table, job))
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
