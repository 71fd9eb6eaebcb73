"""``spark.read.format("sulina")``: plans partitions on the driver and reads them in tasks."""

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
from emr_jobs.source.options import ReadBounds, ReadOptions
from emr_jobs.source.payloads import Decoder
from emr_jobs.source.planning import ObjectSlice, plan
from emr_jobs.source.pushing import narrowed
from emr_jobs.source.reading import empty_columns, read_slice
from emr_jobs.source.storage import LakeStorage
from emr_jobs.source.worker import spare_worker

_FEW: Final = 64
"""Up to this many objects, a task reads all footers before it reads the first object."""


@dataclass
class SlicesPartition(InputPartition):
    """What one task reads."""

    slices: tuple[ObjectSlice, ...]
    bounds: ReadBounds


class BatchReader(DataSourceReader):
    """Created on the driver and sent to the tasks with the plan; opens files only in ``read``."""

    def __init__(self, options: ReadOptions, schema: StructType, decoder: Decoder | None) -> None:
        self._options = options
        self._schema = schema
        self._decoder = decoder

    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name, from 4.1 on
        """Read less, by the filters of the query; Spark applies all of them nevertheless."""
        self._options = narrowed(self._options, filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        bounds = options.bounds
        storage = LakeStorage(options.location)
        chosen = choose(storage, options)
        partitions = plan(
            [(each, bounds.start_offset, bounds.end_offset) for each in chosen],
            options.partition_bytes,
            lambda each: read_footer(storage, each.found),
        )
        spare_worker()
        return [SlicesPartition(tuple(slices), bounds) for slices in partitions]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # If there are no partitions, Spark still calls this once.
        if isinstance(partition, SlicesPartition):
            yield from read_partition(self._options, self._schema, self._decoder, partition)


def read_partition(
    options: ReadOptions,
    schema: StructType,
    decoder: Decoder | None,
    partition: SlicesPartition,
    *,
    typed_empty: bool = False,
) -> Iterator[Any]:
    """A partition's rows as Arrow record batches, all of one schema.

    Columns without any value are of type null, which is fast, unless they are ``typed_empty``:
    a task whose rows come from elsewhere, too, needs batches of one schema from everywhere.
    """
    storage = LakeStorage(options.location)
    footers = _footers(storage, partition.slices)
    shaper = Shaper(schema, frozenset() if typed_empty else empty_columns(footers))
    for slice_, footer in zip_longest(partition.slices, footers):
        name = slice_.found.name
        columns = shaper.stored
        if shaper.wants_value:
            assert decoder is not None, "a typed column comes with a decoder"
            footer = footer or read_footer(storage, slice_.found)
            columns = sorted({*columns, *decoder.columns(footer.typed)})
        for rows in read_slice(
            storage, slice_, columns, partition.bounds, options.batch_records, footer
        ):
            typed = None
            if shaper.wants_value and decoder is not None:
                typed = decoder.decode(rows.table, rows.summary.topic)
            yield shaper.shape(rows.table, name, typed)
    spare_worker()


def _footers(storage: LakeStorage, slices: Sequence[ObjectSlice]) -> list[Footer]:
    """The footers of a few objects; for many, none: they are read with their objects."""
    return footers_of(storage, [each.found for each in slices]) if len(slices) <= _FEW else []
