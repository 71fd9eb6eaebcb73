"""Makes one object from consecutive others of a topic, with the same offsets.

Every byte of the others is checked when it is read, and each must be the one that the topic's list
names. Their records keep their offsets, frames and epochs. Of control frames only those of the last
object are kept: each ledger begins with one that has the state of all producers.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from functools import partial

from storage_grpc.tier.objects import ObjectReader
from storage_grpc.tier.tier import Offloaded, ReplaceJob, SourceObject, key_of
from storage_grpc.tier.writing import Encoding, table_of, write_object
from sulina.errors import AlreadyExists, CorruptEntry, Refused
from sulina.lake.decoder import Footer
from sulina.lake.encoder import EncoderSettings, LedgerEncoder
from sulina.lake.layout import notice_key
from sulina.objects.store import ObjectStore
from sulina.runtime.seam import RunBlocking
from sulina.wire.header import parse_header

_NOTICE = b"""Objects of this topic are being replaced, and the folder has old and new ones.
Whoever reads all of its files would count records twice. Read the topic as an Iceberg table
(sulina table sync), with spark.read.format("sulina"), or later: this file goes when the replaced
objects go.
"""


async def replace_objects(
    job: ReplaceJob,
    store: ObjectStore,
    objects: ObjectReader,
    run_blocking: RunBlocking,
    row_group_bytes: int,
    joining: Callable[[ReplaceJob, ObjectReader, RunBlocking, int], Encoding],
) -> Offloaded:
    """See ``Tier.replace``; ``joining`` makes the new object. May be cancelled at any time."""
    await _put_notice(job, store)

    def start() -> Encoding:
        return joining(job, objects, run_blocking, row_group_bytes)

    return await write_object(job.head, start, store, objects)


async def _put_notice(job: ReplaceJob, store: ObjectStore) -> None:
    async def text() -> AsyncGenerator[bytes]:
        yield _NOTICE

    head = job.head
    with suppress(AlreadyExists):  # of an earlier attempt
        await store.put(notice_key(head.topic, head.ledger, head.generation), text())


class Joining(Encoding):
    """Encodes the records of several objects; memory is bounded by a row group of each side."""

    def __init__(
        self,
        job: ReplaceJob,
        objects: ObjectReader,
        run_blocking: RunBlocking,
        row_group_bytes: int,
    ) -> None:
        super().__init__()
        self._job = job
        self._objects = objects
        self._run_blocking = run_blocking
        self._row_group_bytes = row_group_bytes
        self._left_out = 0
        """Records of the sources that the new object does not have."""

    async def _prepare(self) -> None:
        """What must be known before the first record is written; repeated if it starts again."""

    async def _frames(self, source: SourceObject, footer: Footer) -> AsyncGenerator[list[bytes]]:
        """The frames of a source that the new object has."""
        async for frames in self._objects.frames(source.head, footer):
            yield frames

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The bytes, in order. Raises ``CorruptEntry`` if a source is not as the list says."""
        job = self._job
        await self._prepare()
        table = await self._run_blocking(partial(table_of, job.head, job.schemas))
        settings = EncoderSettings(self._row_group_bytes)
        encoder = LedgerEncoder(job.head, settings, table, sparse=True)
        records, reached = 0, job.head.first_offset
        for source in job.sources:
            footer = await self._footer(source, reached)
            reached = footer.summary.last_offset + 1
            if footer.typed is not None and table is None:
                raise Refused(
                    f"the object {key_of(source.head)} has typed columns, and the topic has no "
                    "schema now that could be read: bind its schema again, or leave it as it is"
                )
            records += footer.summary.records
            last = source is job.sources[-1]
            control = _Control(footer.control_frames if last else ())
            async for frames in self._frames(source, footer):
                frames = control.among(frames)
                for chunk in await self._run_blocking(partial(encoder.add, frames)):
                    yield chunk
            for chunk in encoder.add(control.rest()):
                yield chunk
        rest, summary = await self._run_blocking(encoder.finish)
        records -= self._left_out
        if (summary.records, reached) != (records, job.head.last_offset + 1):
            raise CorruptEntry(
                f"the objects from offset {job.head.first_offset} to {job.head.last_offset} of "
                f"{job.head.topic} have {records} records up to offset {reached - 1}, but "
                f"{summary.records} were read. Nothing was replaced"
            )
        for chunk in rest:
            yield chunk
        self.summary = summary
        self.rejected = encoder.rejected

    async def _footer(self, source: SourceObject, first_offset: int) -> Footer:
        """The footer of a source, which must be the object that the list names."""
        footer = await self._objects.footer(source.head)
        if (footer.summary.digest, footer.summary.first_offset) != (source.digest, first_offset):
            raise CorruptEntry(
                f"the object {key_of(source.head)} is not the one that the list names at "
                f"offset {first_offset}: its digest or offset differs. Nothing was replaced"
            )
        return footer


class _Control:
    """Puts control frames where they were among the frames of an object."""

    def __init__(self, frames: Sequence[bytes]) -> None:
        self._left = list(frames)

    def among(self, frames: Sequence[bytes]) -> list[bytes]:
        """The frames, with the control frames that belong before one of them."""
        found: list[bytes] = []
        for frame in frames:
            base = parse_header(frame).base_offset
            while self._left and parse_header(self._left[0]).base_offset <= base:
                found.append(self._left.pop(0))
            found.append(frame)
        return found

    def rest(self) -> list[bytes]:
        """Those after the last frame."""
        left, self._left = self._left, []
        return left


__all__ = ["replace_objects"]
