"""Reads and writes with Spark's own file systems where it has one for the store.

On EMR, Spark has a file system for ``s3://``; elsewhere only if hadoop-aws is among its jars. The
data source needs neither, because it reads through s3fs.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from emr_jobs import native
from emr_jobs.jobs.running import source_options
from emr_jobs.source.native import conditions, has_file_system
from emr_jobs.source.options import parse_options
from sulina.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_records(spark: SparkSession, scheme: str, options: Mapping[str, str]) -> DataFrame:
    """The records that the data source's ``options`` select.

    Uses Spark's own Parquet reader if Spark has a file system for ``scheme``, or else the data
    source.
    """
    if has_file_system(spark, scheme or urlsplit(options["path"]).scheme):
        return native(spark, scheme=scheme, **options)
    return spark.read.format("sulina").options(**options).load()


def records_of(
    spark: SparkSession, arguments: argparse.Namespace, *, checked: bool, **more: str
) -> DataFrame:
    """The records of ``--from-table``, or of ``--path`` and ``--topic``.

    ``checked`` reads objects with the data source, which fails if records are missing; ``more`` are
    options for it, such as those of typed payloads. A table has the columns of its objects. Raises
    ``Refused`` for both or neither.
    """
    if not arguments.from_table:
        if not (arguments.path and arguments.topic):
            raise Refused("give --path and --topic, or --from-table")
        options = source_options(arguments, **more)
        if checked:
            return spark.read.format("sulina").options(**options).load()
        return read_records(spark, arguments.scheme, options)
    if arguments.path or arguments.topic:
        raise Refused("give --from-table, or --path and --topic, not both")
    return _table_records(spark, arguments)


def _table_records(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    from pyspark.sql import functions as f

    name = arguments.from_table
    try:
        rows = spark.read.format("iceberg").load(name)
        # The table is that of one topic; the keys of its objects name it.
        for column in ("namespace", "topic"):
            rows = rows.withColumn(column, f.regexp_extract("_file", f"/{column}=([^/]+)/", 1))
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        raise Refused(
            f"the table {name} cannot be read: {str(error).splitlines()[0]}. Spark needs Iceberg's "
            "runtime, and a catalog for the first part of the name (spark.sql.catalog.<name>)"
        ) from None
    given = source_options(arguments, path=name, topic="/a/table")
    for condition in conditions(parse_options(given).bounds):
        rows = rows.where(condition)
    return rows


def spark_path(spark: SparkSession, path: str) -> str:
    """A path that Spark can write to. Raises ``Refused`` if it has no file system for it."""
    scheme = urlsplit(path).scheme
    if not scheme:
        return str(Path(path).absolute())
    if not has_file_system(spark, scheme):
        raise Refused(
            f"Spark cannot write to {path}: it has no file system for {scheme}://. EMR has one for "
            "s3://; elsewhere add hadoop-aws (--packages org.apache.hadoop:hadoop-aws of its "
            "Hadoop's version) and use s3a://, or write to a folder"
        )
    return path
