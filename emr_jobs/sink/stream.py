"""``df.writeStream.format("sulina")``: publishes each batch of a stream exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from emr_jobs.sink.batch import TaskReport, task_number
from emr_jobs.sink.options import WriteOptions
from emr_jobs.sink.publisher import publish
from emr_jobs.sink.rows import check_columns, from_rows
from sulina.errors import Refused

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


class StreamWriter(DataSourceStreamWriter):
    """Publishes under producer names derived from the query's id, which its checkpoint keeps."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(schema)
        self._options = options
        self._names = schema.fieldNames()

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        query = context and context.getLocalProperty(_QUERY)
        batch = context and context.getLocalProperty(_BATCH)
        if not query or not batch:
            raise Refused(
                "Spark did not pass the ids of the query and batch, which are needed to publish "
                "each batch exactly once: use foreachBatch and df.write with the option producer"
            )
        name = f"{self._options.producer or 'spark'}/{query}/{task_number()}"
        records = from_rows(iterator, self._names)
        return TaskReport(publish(self._options, name, records, int(batch)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do: records are durable when their task ends."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do: published records remain, and a retry continues after them."""
