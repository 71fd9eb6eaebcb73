"""Describes an object to Iceberg: rows, sizes and bounds, from its footer alone."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, TimestamptzType

from sulina.lake.decoder import Footer
from sulina.lake.summary import ObjectSummary
from sulina.tables.columns import OFFSET_ID, TIME_ID
from sulina.tables.partitioning import Specs

_DAY_US: Final = 86_400_000_000


def data_file(url: str, partition: int, footer: Footer, schema: Schema, specs: Specs) -> DataFile:
    """An object's entry in a manifest. ``schema`` maps its columns to field ids by name."""
    summary, parquet = footer.summary, footer.parquet
    day = day_of(summary)
    ids = {name: schema.find_field(name).field_id for name in schema.column_names}
    sizes: defaultdict[int, int] = defaultdict(int)
    counts: defaultdict[int, int] = defaultdict(int)
    nulls: dict[int, int] = {}
    for number in range(parquet.num_row_groups):
        group = parquet.row_group(number)
        for at in range(group.num_columns):
            column = group.column(at)
            field = ids.get(_name(column.path_in_schema))
            if field is None:
                continue
            sizes[field] += column.total_compressed_size
            counts[field] += column.num_values
            if column.is_stats_set and column.statistics.has_null_count:
                nulls[field] = nulls.get(field, 0) + column.statistics.null_count
    found = DataFile.from_args(
        _table_format_version=2,
        content=DataFileContent.DATA,
        file_path=url,
        file_format=FileFormat.PARQUET,
        partition=Record(partition) if day is None else Record(partition, day),
        record_count=summary.records,
        file_size_in_bytes=summary.size,
        column_sizes=dict(sizes),
        value_counts=dict(counts),
        null_value_counts=nulls,
        nan_value_counts={},
        lower_bounds=_bounds(summary.first_offset, summary.first_time_us),
        upper_bounds=_bounds(summary.last_offset, summary.last_time_us),
        key_metadata=None,
        split_offsets=[group.start for group in footer.row_groups],
        equality_ids=None,
        sort_order_id=1,
    )
    found.spec_id = (specs.plain if day is None else specs.by_day).spec_id
    return found


def day_of(summary: ObjectSummary) -> int | None:
    """The day on which all records of an object were published, in days since 1970 and UTC.

    None if there are several: their file must not claim to be of one, or queries for the others
    would leave it out.
    """
    first, last = (time // _DAY_US for time in (summary.first_time_us, summary.last_time_us))
    return first if summary.records and first == last else None


def _bounds(offset: int, time_us: int) -> dict[int, bytes]:
    return {
        OFFSET_ID: to_bytes(LongType(), offset),
        TIME_ID: to_bytes(TimestamptzType(), time_us),
    }


def _name(path: str) -> str:
    """Iceberg's name of a leaf column: Parquet has a group of its own within maps and lists."""
    return path.replace(".key_value.", ".").replace(".list.element", ".element")
