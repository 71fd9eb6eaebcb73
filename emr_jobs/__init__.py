"""Spark on Sulina's topics: a data source, native reads, counts, and jobs for EMR.

::

    import emr_jobs

    emr_jobs.register(spark)
    options = {"path": "s3://lake", "topic": "/default/orders"}
    orders = spark.read.format("sulina").options(**options).load()
    orders.groupBy("key").count().show()

docs/spark.md documents all options, docs/jobs.md the jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def register(spark: SparkSession) -> None:
    """Register the data source ``sulina`` with a session. Raises ``Refused`` before Spark 4.

    From Spark 4.1 on, the session tells Python data sources the filters of queries, for which this
    sets ``spark.sql.python.filterPushdown.enabled``.
    """
    from emr_jobs.java import check_pyspark

    check_pyspark()
    from emr_jobs.source.datasource import SulinaDataSource

    spark.dataSource.register(SulinaDataSource)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def native(spark: SparkSession, **options: Any) -> DataFrame:
    """Read records with Spark's own Parquet reader, which prunes columns and pushes filters down.

    The options ``topic``, ``path`` or ``bucket``, ``endpoint``, offsets and times are those of the
    data source; they are resolved to a list of objects once, on the driver. ``scheme`` is the URL
    scheme that Spark uses for the store (``s3a`` outside EMR).
    """
    from emr_jobs.source.native import native_frame

    return native_frame(spark, options)


def count(**options: Any) -> int:
    """Count records from the objects' metadata, without Spark.

    The options are those of the data source. With a time bound, one column of the row groups that
    the bound divides is read as well.
    """
    from emr_jobs.source.counting import count_records

    return count_records(options)


__all__ = ["count", "native", "register"]
