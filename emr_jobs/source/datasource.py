"""The data source ``sulina``: creates readers and writers for Spark.

Spark sends it to other processes by name, so ``emr_jobs`` must be importable there: installed,
passed with ``--py-files``, or in the archive that ``emr_jobs.package`` builds.
"""

from __future__ import annotations

from functools import cached_property

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import DataType, StructType

from emr_jobs.sink.batch import BatchWriter
from emr_jobs.sink.options import parse_write_options
from emr_jobs.sink.stream import StreamWriter
from emr_jobs.source.batch import BatchReader
from emr_jobs.source.columns import check_schema, default_schema
from emr_jobs.source.live import LiveReader
from emr_jobs.source.options import ReadOptions, parse_options
from emr_jobs.source.payloads import Decoder, make_decoder
from emr_jobs.source.stream import StreamReader
from emr_jobs.source.worker import spare_worker
from sulina.errors import Refused


class SulinaDataSource(DataSource):
    """Topics as data frames; docs/spark.md documents the options."""

    @classmethod
    def name(cls) -> str:
        return "sulina"

    def schema(self) -> StructType:
        """All columns, or those of the option ``columns``. May query the schema registry."""
        spare_worker()
        return default_schema(self._read_options.columns, self._value_type)

    def reader(self, schema: StructType) -> BatchReader:
        """Reads the existing records."""
        reader = BatchReader if self._read_options.brokers is None else LiveReader
        return reader(self._read_options, self._checked(schema), self._decoder)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Reads new records as objects appear."""
        if self._read_options.brokers is not None:
            raise Refused("a stream reads objects: leave out the option live")
        return StreamReader(self._read_options, self._checked(schema), self._decoder)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Publishes rows to a topic."""
        return BatchWriter(parse_write_options(self.options, overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Publishes each batch of a stream to a topic, exactly once."""
        return StreamWriter(parse_write_options(self.options, overwrite=False), schema)

    @cached_property
    def _read_options(self) -> ReadOptions:
        return parse_options(self.options)

    @cached_property
    def _decoder(self) -> Decoder | None:
        return make_decoder(self._read_options.payload, self._read_options.topics)

    @property
    def _value_type(self) -> DataType | None:
        return None if self._decoder is None else self._decoder.type

    def _checked(self, schema: StructType) -> StructType:
        check_schema(schema, self._value_type)
        return schema
