"""``df.write.format("sulina")``: publishes the rows of a data frame to a topic."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from emr_jobs.sink.options import WriteOptions
from emr_jobs.sink.publisher import Published, publish
from emr_jobs.sink.rows import check_columns, from_batches


@dataclass
class TaskReport(WriterCommitMessage):
    """A task's report to the driver."""

    published: Published


class BatchWriter(DataSourceArrowWriter):
    """Publishes rows. Topics have no commit: rows become durable and visible while tasks run.

    A retried task does not publish a record twice. With the option ``producer``, the same holds for
    the whole write: if it is run again, it adds only the missing records.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(schema)
        self._options = options
        self._name = options.producer or f"spark-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        name = f"{self._name}/{task_number()}"
        return TaskReport(publish(self._options, name, from_batches(iterator)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to do: records are durable when their task ends."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to do: published records remain, and a retry continues after them."""


def task_number() -> int:
    """The number of the partition that this task writes; a retried task has the same number."""
    context = TaskContext.get()
    assert context is not None, "only a task writes"
    return context.partitionId()
