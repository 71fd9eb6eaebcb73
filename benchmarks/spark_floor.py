"""The floor of a scan: the time that Spark needs for any Python data source.

The batches that the data source ``sulina`` would yield are written to files, and a data source that
only maps these files into memory passes them to Spark. The time is thus Spark's own: its workers,
the socket, and the conversion from Arrow to rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from emr_jobs.source.columns import default_schema
from emr_jobs.source.datasource import SulinaDataSource
from emr_jobs.source.worker import spare_worker


def write_batches(folder: Path, options: Mapping[str, str]) -> None:
    """Write all batches of a read, one file per task."""
    folder.mkdir(parents=True)
    source = SulinaDataSource(dict(options))
    reader = source.reader(source.schema())
    for number, partition in enumerate(reader.partitions()):
        batches = reader.read(partition)
        first = next(batches)
        with pa.ipc.new_file(str(folder / f"{number:06}"), first.schema) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)


class FloorSource(DataSource):
    """``spark.read.format("floor").load(folder)``: the batches of ``write_batches``."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> StructType:
        spare_worker()
        return default_schema()

    def reader(self, schema: StructType) -> FloorReader:
        return FloorReader(Path(self.options["path"]))


class FloorReader(DataSourceReader):
    """One task per file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def partitions(self) -> Sequence[InputPartition]:
        spare_worker()
        return [InputPartition(str(path)) for path in sorted(self._folder.iterdir())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        with pa.memory_map(partition.value) as file:
            batches = pa.ipc.open_file(file)
            for number in range(batches.num_record_batches):
                yield batches.get_batch(number)
        spare_worker()
