"""Reads and writes with Spark's own file systems where it has one for the store.

On EMR, Spark has a file system for ``s3://``; elsewhere only if hadoop-aws is among its jars. The
data source needs neither, because it reads through s3fs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from emr_jobs import native
from emr_jobs.source.native import has_file_system
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
