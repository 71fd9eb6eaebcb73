"""Which stores Spark opens by itself, and how records are read where it does not.

On EMR Spark has a file system for ``s3://``. Elsewhere it has one only with hadoop-aws among its
jars; the data source needs none, since it reads through s3fs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from emr_jobs import native
from sulina.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_records(spark: SparkSession, scheme: str, options: Mapping[str, str]) -> DataFrame:
    """The records that ``options`` of the data source choose.

    By Spark's own Parquet reader where it can open the store, which it knows as ``scheme``; by the
    data source elsewhere.
    """
    if opens(spark, scheme or urlsplit(options["path"]).scheme):
        return native(spark, scheme=scheme, **options)
    return spark.read.format("sulina").options(**options).load()


def spark_path(spark: SparkSession, path: str) -> str:
    """A path as Spark opens it by itself. Raises ``Refused`` if it can't."""
    scheme = urlsplit(path).scheme
    if not scheme:
        return str(Path(path).absolute())
    if not opens(spark, scheme):
        raise Refused(
            f"Spark can't write to {path}: it has no file system for {scheme}://. EMR has one for "
            "s3://; elsewhere give Spark hadoop-aws (--packages org.apache.hadoop:hadoop-aws of "
            "its Hadoop's version) and name the place s3a://, or write to a folder"
        )
    return path


def opens(spark: SparkSession, scheme: str) -> bool:
    """Whether Spark has a file system for ``scheme``; empty: a folder of this machine."""
    from py4j.protocol import Py4JJavaError

    context = spark.sparkContext
    jvm, java = context._jvm, context._jsc
    assert jvm is not None
    try:
        settings = java.hadoopConfiguration()
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme or "file", settings)
    except Py4JJavaError:
        return False
    return True
