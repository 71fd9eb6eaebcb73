"""Makes one object of others in which some records have no content any more: by key or by offset.

Offsets, sequences and publish times stay, and so does everything else: the digest of all other
records is computed before, and again from the bytes of the new object as they were read back. An
object is only returned if both are the same.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from storage_grpc.tier.objects import ObjectReader
from storage_grpc.tier.replacing import Joining, replace_objects
from storage_grpc.tier.tier import Offloaded, ReplaceJob, SourceObject, key_of
from sulina.errors import CorruptEntry, NotFound, Refused
from sulina.lake.buffers import integers
from sulina.lake.decoder import Footer
from sulina.lake.digest import Digest
from sulina.lake.erasing import ERASABLE, digest_of_others, erasable, erase_records
from sulina.lake.rebuild import rebuild_frames
from sulina.lake.schema import KEY, OBJECT_SCHEMA, OFFSET
from sulina.lake.summary import ObjectHead
from sulina.metadata.keys.erasures import Ranges
from sulina.objects.store import ObjectStore
from sulina.runtime.seam import RunBlocking

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Erasing(Joining):
    """Encodes the records of several objects, some of them without their content."""

    async def _prepare(self) -> None:
        self._keys = frozenset(self._job.key_digests)
        when = _EPOCH + timedelta(microseconds=self._job.erased_us)
        self._when = when.isoformat(timespec="seconds").replace("+00:00", "Z")
        self.others = Digest()
        """Of the records that stay."""
        self.erased: list[NDArray[np.int64]] = []
        """The offsets of those that do not."""

    async def _frames(self, source: SourceObject, footer: Footer) -> AsyncGenerator[list[bytes]]:
        async for rows in self._objects.rows(source.head, footer, OBJECT_SCHEMA.names):
            yield await self._run_blocking(partial(self._without, rows))

    def _without(self, rows: pa.Table) -> list[bytes]:
        erased = erasable(rows, self._keys, self._job.offsets)
        digest_of_others(self.others, rows, erased)
        frames = rebuild_frames(rows)
        if not erased.any():
            return frames
        self.erased.append(integers(rows.column(OFFSET).combine_chunks())[erased])
        return erase_records(frames, erased, self._when)


async def erase_from_objects(
    job: ReplaceJob,
    store: ObjectStore,
    objects: ObjectReader,
    run_blocking: RunBlocking,
    row_group_bytes: int,
) -> Offloaded:
    """See ``Tier.replace``. Raises ``NotFound`` if no record is to be erased."""
    begun: list[Erasing] = []

    def joining(*parts: object) -> Erasing:
        begun.append(Erasing(*parts))  # type: ignore[arg-type]
        return begun[-1]

    if not job.key_digests and not job.offsets:
        raise Refused("an erasure needs keys or offsets")
    made = await replace_objects(job, store, objects, run_blocking, row_group_bytes, joining)
    erased = np.concatenate([*begun[-1].erased, np.zeros(0, np.int64)])
    if not len(erased):
        raise NotFound(
            f"no record from offset {job.head.first_offset} to {job.head.last_offset} is to be "
            "erased"
        )
    after = await _digest_without(job.head, erased, objects, run_blocking)
    if after != begun[-1].others.text():
        raise CorruptEntry(
            f"the object {key_of(job.head)} differs from the objects it should replace in more "
            "than the erased records. Nothing was replaced"
        )
    return replace(made, erased=len(erased), others=after)


async def count_erasable(
    head: ObjectHead,
    key_digests: Sequence[str],
    offsets: Ranges,
    objects: ObjectReader,
    run_blocking: RunBlocking,
) -> int:
    """See ``Tier.count_erasable``."""
    wanted, found = frozenset(key_digests), 0
    columns = ERASABLE if offsets else (KEY,)
    async for rows in objects.rows(head, await objects.footer(head), columns):
        found += int((await run_blocking(partial(erasable, rows, wanted, offsets))).sum())
    return found


async def _digest_without(
    head: ObjectHead, erased: NDArray[np.int64], objects: ObjectReader, run_blocking: RunBlocking
) -> str:
    """The digest of an object's records without those at some offsets."""
    digest = Digest()

    def add(rows: pa.Table) -> None:
        offsets = integers(rows.column(OFFSET).combine_chunks())
        digest_of_others(digest, rows, np.isin(offsets, erased))

    async for rows in objects.rows(head, await objects.footer(head), OBJECT_SCHEMA.names):
        await run_blocking(partial(add, rows))
    return digest.text()
