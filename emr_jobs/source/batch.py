"""``spark.read.format("sulina")``: plans partitions on the driver, reads them in tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from emr_jobs.source.columns import Shaper
from emr_jobs.source.footers import Footer, read_footer
from emr_jobs.source.objects import choose
from emr_jobs.source.objects import footers as footers_of
from emr_jobs.source.options import Bounds, ReadOptions
from emr_jobs.source.payloads import Decoder
from emr_jobs.source.planning import Slice, plan
from emr_jobs.source.reading import empty_columns, read_slice
from emr_jobs.source.storage import Storage
from emr_jobs.source.worker import spare_worker
from sulina.lake.schema import PAYLOAD, SCHEMA_ID, SCHEMA_VERSION

_FEW: Final = 64
"""Objects of which a task looks at all footers before it reads the first."""


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
        spare_worker()
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
    footers = _footers(storage, partition.slices)
    shaper = Shaper(schema, empty_columns(footers))
    columns = shaper.stored
    if shaper.wants_value:
        columns = sorted({*columns, PAYLOAD, SCHEMA_ID, SCHEMA_VERSION})
    for slice_, footer in zip_longest(partition.slices, footers):
        name = slice_.found.name
        for rows in read_slice(
            storage, slice_, columns, partition.bounds, options.batch_records, footer
        ):
            value = None
            if shaper.wants_value:
                assert decoder is not None, "a value column comes with a decoder"
                value = decoder.decode(rows.table, shaper.value_type, rows.summary)
            yield shaper.shape(rows.table, name, value)
    spare_worker()


def _footers(storage: Storage, slices: Sequence[Slice]) -> list[Footer]:
    """Those of a few objects; none of many, which are not looked at before they are read."""
    return footers_of(storage, [each.found for each in slices]) if len(slices) <= _FEW else []
