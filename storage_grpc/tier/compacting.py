"""Makes one object of others that has only the newest record of each key.

First the keys of these objects, and of those after them, are read: a record is left out if a later
one has its key. Then the objects are read again, and what stays is written. Both passes take one
row group at a time. Memory is bounded by what ``sulina.lake.newest`` holds of the keys, one byte
for each offset of the objects, and a few row groups, whatever the number of keys, of records and of
objects is.

An interrupted compaction starts again; the same objects give the same result.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from storage_grpc.tier.replacing import Joining
from storage_grpc.tier.tier import SourceObject
from sulina.lake.decoder import Footer
from sulina.lake.key_compaction import KeyCompaction
from sulina.lake.key_digests import SEED_SIZE, KeyHasher
from sulina.lake.newest import MemorySpill, NewestOfKeys, Spill
from sulina.lake.schema import KEY, OBJECT_SCHEMA, OFFSET
from sulina.lake.thinning import thin_frames
from sulina.runtime.real_random import real_random
from sulina.runtime.spill_files import SpillFiles

PARTITION_RECORDS: Final = 1 << 20
"""Keys are divided into partitions of about this many records."""
_MOST_PARTITIONS: Final = 256
"""Each is a file while keys are collected."""


class Compacting(Joining):
    """Encodes the newest record of each key. Keys are kept in files of the machine's folder for
    temporary files (``TMPDIR``), 24 bytes for each record, if there are more than a million."""

    _kept: KeyCompaction | None = None

    async def _prepare(self) -> None:
        job = self._job
        self._left_out = 0
        sources = *job.sources, *job.later
        newest = keys_for(await self._count(sources))
        try:
            # Footers are read again: together those of many objects are large.
            async for source, footer in self._footers(sources):
                async for rows in self._objects.rows(source.head, footer, (OFFSET, KEY)):
                    columns = (rows.column(name).combine_chunks() for name in (OFFSET, KEY))
                    await self._run_blocking(partial(newest.add, *columns))
            span = job.head.first_offset, job.head.last_offset
            decide = partial(KeyCompaction, newest, *span, job.tombstones_before_us)
            self._kept = await self._run_blocking(decide)
        finally:
            newest.close()

    async def _count(self, sources: Sequence[SourceObject]) -> int:
        return sum([footer.summary.records async for _, footer in self._footers(sources)])

    async def _footers(
        self, sources: Sequence[SourceObject]
    ) -> AsyncGenerator[tuple[SourceObject, Footer]]:
        reached = self._job.head.first_offset
        for source in sources:
            footer = await self._footer(source, reached)
            reached = footer.summary.last_offset + 1
            yield source, footer

    async def _frames(self, source: SourceObject, footer: Footer) -> AsyncGenerator[list[bytes]]:
        async for rows in self._objects.rows(source.head, footer, OBJECT_SCHEMA.names):
            frames = await self._run_blocking(partial(self._thinned, rows))
            if frames:
                yield frames

    def _thinned(self, rows: pa.Table) -> list[bytes]:
        assert self._kept is not None
        frames, count = thin_frames(rows, self._kept.kept(rows))
        self._left_out += len(rows) - count
        return frames


def keys_for(records: int) -> NewestOfKeys:
    """Finds the newest records of keys among so many: in files, unless there are few."""
    seed = real_random().getrandbits(8 * SEED_SIZE).to_bytes(SEED_SIZE, "little")
    wanted = min(max(records // PARTITION_RECORDS, 1), _MOST_PARTITIONS)
    partitions = 1 << (wanted - 1).bit_length()
    spill: Spill = MemorySpill() if partitions == 1 else SpillFiles()
    return NewestOfKeys(KeyHasher(seed), spill, partitions)
