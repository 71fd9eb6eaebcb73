"""Reads slices of objects as Arrow batches: only the row groups and columns that are wanted.

What is read is checked on the way: an object that ends before the next one begins leaves a gap,
and one that reaches into it holds records twice. Both end the read with a sentence, unless the
reader wants to see what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from emr_jobs.source.footers import Footer, read_footer
from emr_jobs.source.options import BATCH_RECORDS, Bounds
from emr_jobs.source.planning import Slice
from emr_jobs.source.storage import Storage
from sulina.errors import CorruptEntry, Refused
from sulina.lake.schema import OFFSET, PRODUCER, PUBLISH_TIME, TIME_TYPE
from sulina.lake.summary import ObjectSummary

_BATCH_BYTES: Final = 32 << 20
"""Of one batch, about, however many records that are: more than there are in a row group.

Batches end with row groups, since a producer's name is there once for each. Whole ones are best.
"""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of an object, and whose they are."""

    summary: ObjectSummary
    table: Any
    """A record batch."""


def read_slice(
    storage: Storage,
    slice_: Slice,
    columns: list[str],
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
    batch_records: int = BATCH_RECORDS,
    footer: Footer | None = None,
) -> Iterator[Rows]:
    """The rows of a slice within the bounds, in the order of their offsets. Blocks on the store.

    The object's footer is read if it is not given. A producer's name is there once for each batch
    (dictionary encoding), which is quicker wherever the rows go. Raises ``NotFound`` if the object
    is gone, ``CorruptEntry`` if it is damaged, ``Refused`` for a gap or a repeat behind it.
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
    keep = _Keep(footer.summary, start, end, bounds)
    # A column of no interest is read where none is asked for: rows have to be counted.
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
            # Spark has a task for each core, so threads of ours would only get in their way.
            for batch in file.iter_batches(records, groups, names, use_threads=False):
                rows = keep.filter(batch)
                if rows.num_rows:
                    yield Rows(footer.summary, rows)
        except (pa.ArrowException, OSError) as error:
            raise CorruptEntry(f"{slice_.found.key} can't be read: {error}") from None


def empty_columns(footers: Iterable[Footer]) -> frozenset[str]:
    """The columns without a value in any of these objects, as far as statistics tell."""
    each = [_empty_in(footer.parquet) for footer in footers]
    return frozenset(set.intersection(*each)) if each else frozenset()


def _empty_in(parquet: pq.FileMetaData) -> set[str]:
    """A column of maps has one of keys in Parquet, with null for a row without any."""
    found = set(range(parquet.num_columns)) if parquet.num_row_groups else set()
    for number in range(parquet.num_row_groups):
        group = parquet.row_group(number)
        found = {column for column in found if _is_empty(group.column(column))}
    return {parquet.schema.column(column).path.split(".")[0] for column in found}


def _is_empty(chunk: pq.ColumnChunkMetaData) -> bool:
    stats = chunk.statistics
    return stats is not None and stats.has_null_count and stats.null_count == chunk.num_values


def _records_in(size: int, footer: Footer, groups: list[int]) -> int:
    """How many records of these row groups have about ``size`` bytes; at least one."""
    records = sum(footer.row_groups[number].records for number in groups)
    total: int = sum(footer.parquet.row_group(number).total_byte_size for number in groups)
    return max(size * records // max(total, 1), 1)


def _check_end(summary: ObjectSummary, until: int | None, wanted: int) -> None:
    """Raise ``Refused`` if an object does not end where the next one begins.

    What is behind ``wanted`` is of no interest.
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
    """Records that should be there are not."""
    return Refused(
        f"records {start} to {end - 1} of {topic} are missing: their object was deleted, by "
        "retention or by hand, or is not written yet. Nothing was skipped. Run the job "
        "ledger_audit; to go on behind the gap, begin anew with startOffset "
        f"{end} (a stream: with a new checkpoint)"
    )


class _Keep:
    """Which rows of an object are wanted, and the columns that tell."""

    def __init__(self, summary: ObjectSummary, start: int, end: int, bounds: Bounds) -> None:
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
            # Mostly all of a batch is wanted; then it is not copied.
            if not pc.all(keep).as_py():
                rows = rows.filter(keep)
        return rows
