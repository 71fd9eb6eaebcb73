"""Reads slices of objects as Arrow batches, with only the row groups and columns needed.

A read checks that each object ends where the next one begins: it fails with ``Refused`` if there is
a gap, or if an object overlaps the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from emr_jobs.source.footers import Footer, read_footer
from emr_jobs.source.options import BATCH_RECORDS, ReadBounds
from emr_jobs.source.planning import ObjectSlice
from emr_jobs.source.storage import LakeStorage
from sulina.errors import CorruptEntry, Refused
from sulina.lake.schema import OBJECT_SCHEMA, OFFSET, PRODUCER, PUBLISH_TIME, TIME_TYPE
from sulina.lake.summary import ObjectSummary

_BATCH_BYTES: Final = 32 << 20
"""The approximate maximum size of a batch, more than a row group usually has.

Batches never span row groups, because dictionary encoding is per row group.
"""


@dataclass(frozen=True, slots=True)
class ObjectRows:
    """Some rows of an object, with the object's summary."""

    summary: ObjectSummary
    table: Any
    """A record batch."""


def read_slice(
    storage: LakeStorage,
    slice_: ObjectSlice,
    columns: list[str],
    bounds: ReadBounds = ReadBounds(),  # noqa: B008 - frozen
    batch_records: int = BATCH_RECORDS,
    footer: Footer | None = None,
) -> Iterator[ObjectRows]:
    """The rows of a slice within the bounds, in the order of their offsets. Blocks on the store.

    The object's footer is read if it is not given. Producer names are dictionary-encoded, which is
    faster for all consumers. Raises ``NotFound`` if the object is gone, ``CorruptEntry`` if it is
    damaged, ``Refused`` for a gap or an overlap after it.
    """
    footer = footer or read_footer(storage, slice_.found)
    start, end = max(slice_.start, bounds.start_offset), min(slice_.end, bounds.end_offset)
    _check_end(footer.summary, slice_.until, end)
    groups = [
        group.number
        for group in footer.row_groups
        if group.last_offset >= start
        and group.first_offset < end
        and group.last_time_us >= bounds.start_time
        and group.first_time_us < bounds.end_time
    ]
    if not groups:
        return
    keep = _RowFilter(footer.summary, start, end, bounds)
    # Without any column requested, one is read anyway to count the rows.
    names = sorted({*columns, *keep.columns}) or [OFFSET]
    records = min(batch_records, _records_in(_BATCH_BYTES, footer, groups))
    with storage.open(slice_.found.key) as source:
        try:
            file = pq.ParquetFile(
                source,
                metadata=footer.parquet,
                pre_buffer=storage.is_remote,
                read_dictionary=[PRODUCER],
            )
            # Spark runs one task per core, so more threads would only compete with them.
            for batch in file.iter_batches(records, groups, names, use_threads=False):
                rows = keep.filter(batch)
                if rows.num_rows:
                    yield ObjectRows(footer.summary, rows)
        except (pa.ArrowException, OSError) as error:
            raise CorruptEntry(f"reading {slice_.found.key} failed: {error}") from None


def empty_columns(footers: Iterable[Footer]) -> frozenset[str]:
    """The columns that, according to statistics, have no value in any of these objects."""
    each = [_empty_in(footer.parquet) for footer in footers]
    return frozenset(set.intersection(*each)) if each else frozenset()


def _empty_in(parquet: pq.FileMetaData) -> set[str]:
    """A map is stored as a column of keys, which is null for a row without any."""
    found = set(range(parquet.num_columns)) if parquet.num_row_groups else set()
    for number in range(parquet.num_row_groups):
        group = parquet.row_group(number)
        found = {column for column in found if _is_empty(group.column(column))}
    paths = [parquet.schema.column(column).path for column in found]
    # A typed column has many columns of values, of which some may be empty.
    return {path.split(".")[0] for path in paths} & set(OBJECT_SCHEMA.names)


def _is_empty(chunk: pq.ColumnChunkMetaData) -> bool:
    stats = chunk.statistics
    return stats is not None and stats.has_null_count and stats.null_count == chunk.num_values


def _records_in(size: int, footer: Footer, groups: list[int]) -> int:
    """How many records of these row groups make about ``size`` bytes; at least one."""
    records = sum(footer.row_groups[number].records for number in groups)
    total: int = sum(footer.parquet.row_group(number).total_byte_size for number in groups)
    return max(size * records // max(total, 1), 1)


def _check_end(summary: ObjectSummary, until: int | None, wanted: int) -> None:
    """Raises ``Refused`` if an object does not end where the next one begins.

    Offsets from ``wanted`` on are ignored.
    """
    end = min(summary.last_offset + 1, wanted)
    until = end if until is None else min(until, wanted)
    if end == until:
        return
    if end < until:
        raise gap_error(str(summary.topic), end, until)
    raise Refused(
        f"records {until} to {end - 1} of {summary.topic} are in two objects: ledger "
        f"{summary.ledger} overlaps the next one. Run the job ledger_audit"
    )


def gap_error(topic: str, start: int, end: int) -> Refused:
    """The error for missing records."""
    return Refused(
        f"records {start} to {end - 1} of {topic} are missing: their object was deleted, by "
        "retention or by hand, or does not exist yet. Nothing was skipped. Run the job "
        f"ledger_audit; to continue after the gap, restart with startOffset {end} (a stream: with "
        "a new checkpoint)"
    )


class _RowFilter:
    """Selects the rows of an object that are within the bounds."""

    def __init__(self, summary: ObjectSummary, start: int, end: int, bounds: ReadBounds) -> None:
        self._ranges: list[tuple[str, Any, Any]] = []
        if start > summary.first_offset or end <= summary.last_offset:
            self._ranges.append((OFFSET, pa.scalar(start), pa.scalar(end)))
        first, last = bounds.start_time, bounds.end_time
        if first > summary.first_time_us or last <= summary.last_time_us:
            times = pa.scalar(first, TIME_TYPE), pa.scalar(last, TIME_TYPE)
            self._ranges.append((PUBLISH_TIME, *times))

    @property
    def columns(self) -> list[str]:
        return [name for name, _, _ in self._ranges]

    def filter(self, rows: Any) -> Any:
        for name, start, end in self._ranges:
            values = rows.column(name)
            keep = pc.and_(pc.greater_equal(values, start), pc.less(values, end))
            # Usually all rows of a batch are kept; then nothing is copied.
            if not pc.all(keep).as_py():
                rows = rows.filter(keep)
        return rows
