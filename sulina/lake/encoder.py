"""Encodes the frames of a ledger as a Parquet object, row group by row group.

CPU-bound, without I/O: run it in a thread. Memory is bounded by a few copies of a row group. All
bytes of the object are covered by checksums: the footer lists those of the row groups, and is
preceded by its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from crc32c import crc32c
from numpy.typing import NDArray

from sulina.errors import Refused, TooLarge
from sulina.lake.arrow import frames_to_batch
from sulina.lake.buffers import integers
from sulina.lake.digest import Digest
from sulina.lake.footer_checksum import footer_checksum
from sulina.lake.frame_table import headers_of, lengths_of
from sulina.lake.runs import Ints, padded, starts_of
from sulina.lake.schema import PUBLISH_TIME, WRITER_OPTIONS, WRITTEN_SCHEMA
from sulina.lake.summary import (
    FilePart,
    ObjectHead,
    ObjectMetadata,
    ObjectSummary,
    TypedSummary,
    to_metadata,
)
from sulina.lake.typed.columns import PayloadDecoder
from sulina.lake.typed.table import TableSchema
from sulina.lake.typed_object import TypedObject
from sulina.runtime.seam import Buffer
from sulina.wire import header as h

_MAX_ROW_GROUP: Final = 1 << 30
_USUAL_COLUMNS: Final = 32
"""Typed columns that do not make row groups smaller."""


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """How an object is divided into row groups."""

    row_group_bytes: int = 16 << 20
    """Target size of a row group, in bytes of uncompressed frames; replays read whole ones."""
    max_control_bytes: int = 64 << 20
    """Maximum size of the control frames, which are stored in the footer."""

    def __post_init__(self) -> None:
        if not 0 < self.row_group_bytes <= _MAX_ROW_GROUP:
            raise Refused(f"a row group must have 1 to {_MAX_ROW_GROUP} bytes")


class LedgerEncoder:
    """Encodes one ledger. Do not use it after an error."""

    def __init__(
        self,
        head: ObjectHead,
        settings: EncoderSettings | None = None,
        table: TableSchema | None = None,
        *,
        sparse: bool = False,
    ) -> None:
        """With a ``table``, the object also has the typed columns of its payloads; ``sparse``:
        offsets may be missing between frames, and at both ends of an object that replaces others.
        """
        self.rejected = 0
        """How many payloads do not fit their schema, so far."""
        self._head = head
        self._typed = None if table is None else TypedObject(table)
        self._decoder = None if table is None else PayloadDecoder(table)
        self._settings = settings or EncoderSettings()
        self._sparse = sparse
        self._next = head.first_offset
        self._records = 0
        self._bytes = 0
        self._control: list[bytes] = []
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self._times: list[tuple[int, int]] = []
        self._digest = Digest()
        self._parts: list[FilePart] = []
        self._sink = _Sink()
        self._writer: pq.ParquetWriter | None = None

    def add(self, frames: Sequence[Buffer]) -> list[bytes]:
        """Add the next frames, in order; returns the finished chunks of the object, if any.

        Do not modify frames before the call that returns their row group. Raises ``CorruptFrame``
        if a frame is damaged (possibly not until its row group is finished), ``Refused`` if its
        offset does not follow the previous one, ``TooLarge`` if there are too many control frames.
        """
        if not frames:
            return []
        lengths = lengths_of(frames)
        headers = headers_of(frames, lengths)
        self._follow(frames, headers)
        self._bytes += int(lengths.sum())
        stored, raw = (headers[name].astype(np.int64) for name in ("columns_length", "raw_length"))
        weights = lengths + np.maximum(padded(raw) - padded(stored), 0)
        weights += self._typed_bytes * headers["count"].astype(np.int64)
        control = headers["flags"] & h.CONTROL != 0
        if control.any():
            self._keep([frame for frame, is_it in zip(frames, control, strict=True) if is_it])
            frames = [frame for frame, is_it in zip(frames, control, strict=True) if not is_it]
            weights = weights[~control]
        return self._cut(frames, weights)

    def finish(self) -> tuple[list[bytes], ObjectSummary]:
        """The rest of the object, and its summary. Raises the same errors as :meth:`add`."""
        chunks = self._write_row_group() if self._pending else []
        summary = self._summary()
        metadata = ObjectMetadata(
            summary, tuple(self._control), tuple(self._parts), self._typed_summary()
        )
        writer = self._writer or self._open(self._empty())
        writer.add_key_value_metadata(to_metadata(metadata))
        begin = self._sink.take() if not self._parts else []
        writer.close()
        footer = b"".join(self._sink.take())
        seal = footer_checksum(footer)
        size = self._sink.tell() + len(seal)
        return [*chunks, *begin, seal, footer], self._summary(size)

    def _follow(self, frames: Sequence[Buffer], headers: NDArray[np.void]) -> None:
        counts = headers["count"].astype(np.int64)
        self._records += int(counts.sum())
        bases = starts_of(counts) + self._next
        if self._sparse:
            found = headers["base_offset"].astype(np.int64)
            ends = found + counts
            bases = np.concatenate([[self._next], ends])
            wrong = np.flatnonzero(found < bases[:-1])
        else:
            wrong = np.flatnonzero(headers["base_offset"] != bases[:-1])
        if len(wrong):
            # A damaged frame may be the cause; then report that.
            for frame in (*self._pending, *frames):
                h.check_frame(frame)
            number = int(wrong[0])
            raise Refused(
                f"ledger {self._head.ledger} cannot be tiered: it continues at offset "
                f"{int(headers['base_offset'][number])}, but {int(bases[number])} should follow"
            )
        self._next = int(bases[-1])

    def _keep(self, control: Sequence[Buffer]) -> None:
        for frame in control:
            h.check_frame(frame)
            self._control.append(bytes(frame))
        if sum(map(len, self._control)) > self._settings.max_control_bytes:
            raise TooLarge(
                f"ledger {self._head.ledger} cannot be tiered: its control frames have more than "
                f"{self._settings.max_control_bytes} bytes"
            )

    def _cut(self, frames: Sequence[Buffer], weights: Ints) -> list[bytes]:
        """Collect ``frames`` into row groups of about the target size, and write the full ones."""
        chunks: list[bytes] = []
        ends = starts_of(weights)
        at = 0
        while at < len(frames):
            room = self._settings.row_group_bytes - self._pending_bytes
            fit = int(np.searchsorted(ends, ends[at] + room, side="right")) - 1
            if fit == at and not self._pending:
                fit = at + 1  # a single frame larger than a row group
            self._pending += frames[at:fit]
            self._pending_bytes += int(ends[fit] - ends[at])
            if fit < len(frames):
                chunks += self._write_row_group()
            at = fit
        return chunks

    def _write_row_group(self) -> list[bytes]:
        batch = frames_to_batch(self._pending)
        self._pending = []
        self._pending_bytes = 0
        self._digest.add(batch)
        times = integers(batch.column(PUBLISH_TIME))
        self._times.append((int(times.min()), int(times.max())))
        if self._typed is not None and self._decoder is not None:
            batch, rejected = self._typed.add_to(batch, self._decoder)
            self.rejected += rejected
        writer = self._writer or self._open(batch)
        writer.write_batch(batch, row_group_size=len(batch))
        chunks = self._sink.take()
        crc = 0
        for chunk in chunks:
            crc = crc32c(chunk, crc)
        self._parts.append(FilePart(self._sink.tell(), crc))
        return chunks

    def _open(self, first: pa.RecordBatch) -> pq.ParquetWriter:
        """The writer, made for records like the first ones."""
        typed = self._typed
        options = WRITER_OPTIONS if typed is None else typed.writer_options(first)
        self._writer = pq.ParquetWriter(self._sink, first.schema, **options)
        return self._writer

    def _empty(self) -> pa.RecordBatch:
        schema = WRITTEN_SCHEMA if self._typed is None else self._typed.schema
        return pa.RecordBatch.from_pylist([], schema=schema)

    @property
    def _typed_bytes(self) -> int:
        """What a record counts for the columns of a wide table, which take memory if null, too."""
        leaves = 0 if self._typed is None else self._typed.table.leaves
        return 8 * max(leaves - _USUAL_COLUMNS, 0)

    def _typed_summary(self) -> TypedSummary | None:
        if self._typed is None:
            return None
        versions = [each.version for each in self._typed.table.versions]
        numbers = tuple(sorted(each.number for each in versions))
        return TypedSummary(versions[0].id, numbers, self.rejected)

    def _summary(self, size: int = 0) -> ObjectSummary:
        return ObjectSummary(
            topic=self._head.topic,
            ledger=self._head.ledger,
            first_offset=self._head.first_offset,
            last_offset=max(self._head.last_offset, self._next - 1),
            records=self._records,
            first_time_us=min((first for first, _ in self._times), default=0),
            last_time_us=max((last for _, last in self._times), default=0),
            digest=self._digest.text(),
            bytes=self._bytes,
            size=size,
            generation=self._head.generation,
        )


class _Sink:
    """A file for the Parquet writer that keeps the written bytes until ``take``."""

    closed = False

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._position = 0

    def write(self, data: bytes) -> int:
        self._chunks.append(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing to flush."""

    def close(self) -> None:
        """Nothing to close."""

    def take(self) -> list[bytes]:
        chunks, self._chunks = self._chunks, []
        return chunks
