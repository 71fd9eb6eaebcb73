"""``spark.read.format("sulina")``: plans partitions on the driver, reads them in tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from emr_jobs.source.archives import forget_archives
from emr_jobs.source.columns import Shaper
from emr_jobs.source.footers import read_footer
from emr_jobs.source.objects import choose
from emr_jobs.source.options import Bounds, ReadOptions
from emr_jobs.source.payloads import Decoder
from emr_jobs.source.planning import Slice, plan
from emr_jobs.source.reading import read_slice
from emr_jobs.source.storage import Storage
from sulina.lake.schema import PAYLOAD, SCHEMA_ID, SCHEMA_VERSION


@dataclass
class SlicesPartition(InputPartition):
    """What one task reads."""

    slices: tuple[Slice, ...]
    bounds: Bounds


class BatchReader(DataSourceReader):
    """Made on the driver; goes to the tasks with the plan. Opens files only where it reads."""

    def __init__(self, options: ReadOptions, schema: StructType, decoder: Decoder | None) -> None:
        self._options = options
        self._schema = schema
        self._decoder = decoder

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        bounds = options.bounds
        storage = Storage(options.place)
        chosen = choose(storage, options)
        partitions = plan(
            [(each, bounds.start_offset, bounds.end_offset) for each in chosen],
            options.partition_bytes,
            lambda each: read_footer(storage, each.found),
        )
        forget_archives()
        return [SlicesPartition(tuple(slices), bounds) for slices in partitions]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Without a partition there is nothing to read: Spark asks all the same.
        if isinstance(partition, SlicesPartition):
            yield from read_partition(self._options, self._schema, self._decoder, partition)


def read_partition(
    options: ReadOptions, schema: StructType, decoder: Decoder | None, partition: SlicesPartition
) -> Iterator[Any]:
    """The record batches of a partition, for Spark."""
    storage = Storage(options.place)
    shaper = Shaper(schema)
    columns = shaper.stored
    if shaper.wants_value:
        columns = sorted({*columns, PAYLOAD, SCHEMA_ID, SCHEMA_VERSION})
    for slice_ in partition.slices:
        name = slice_.found.name
        for rows in read_slice(storage, slice_, columns, partition.bounds, options.batch_records):
            value = None
            if shaper.wants_value:
                assert decoder is not None, "a value column comes with a decoder"
                value = decoder.decode(rows.table, shaper.value_type, rows.summary)
            yield shaper.shape(rows.table, name, value)
    forget_archives()
