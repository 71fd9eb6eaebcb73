"""Spark over Sulina's topics: a data source, native reads, counts, and the jobs of EMR.

::

    import emr_jobs

    emr_jobs.register(spark)
    options = {"path": "s3://lake", "topic": "/default/orders"}
    orders = spark.read.format("sulina").options(**options).load()
    orders.groupBy("key").count().show()

docs/spark.md has all options, docs/jobs.md the jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("sulina")`` and the like known to a session. Costs nothing."""
    from emr_jobs.source.datasource import SulinaDataSource

    spark.dataSource.register(SulinaDataSource)


def native(spark: SparkSession, **options: Any) -> DataFrame:
    """The same records through Spark's own Parquet reader: it prunes columns and pushes filters.

    The options ``topic``, ``path`` or ``bucket``, ``endpoint``, offsets and times are those of the
    data source; they are resolved to objects here, on the driver, once. ``scheme`` is what Spark
    calls the store (``s3a`` outside of EMR).
    """
    from emr_jobs.source.native import native_frame

    return native_frame(spark, options)


def count(**options: Any) -> int:
    """How many records there are, from the objects' metadata, without Spark.

    The options are those of the data source. Only row groups that a bound of time cuts are read,
    and of them one column.
    """
    from emr_jobs.source.counting import count_records

    return count_records(options)


__all__ = ["count", "native", "register"]
