"""Describes an object to Iceberg: rows, sizes and bounds, from its footer alone."""

from __future__ import annotations

from collections import defaultdict

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, TimestamptzType

from sulina.lake.decoder import Footer
from sulina.tables.columns import OFFSET_ID, TIME_ID


def data_file(
    url: str, partition: int, footer: Footer, schema: Schema, spec: PartitionSpec
) -> DataFile:
    """An object's entry in a manifest. ``schema`` maps its columns to field ids by name."""
    summary, parquet = footer.summary, footer.parquet
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
        partition=Record(partition),
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
    found.spec_id = spec.spec_id
    return found


def _bounds(offset: int, time_us: int) -> dict[int, bytes]:
    return {
        OFFSET_ID: to_bytes(LongType(), offset),
        TIME_ID: to_bytes(TimestamptzType(), time_us),
    }


def _name(path: str) -> str:
    """Iceberg's name of a leaf column: Parquet has a group of its own within maps and lists."""
    return path.replace(".key_value.", ".").replace(".list.element", ".element")
