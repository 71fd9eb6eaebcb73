"""Reads topics with Spark's own Parquet reader.

Use it for scans of few columns, for filters, and with Lake Formation, where EMR blocks custom data
sources but not plain Parquet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType

from emr_jobs.source.columns import DEFAULT, NAMESPACE, PARTITION, TOPIC, default_schema
from emr_jobs.source.objects import ObjectCandidate, choose, footers
from emr_jobs.source.options import END, ReadBounds, parse_options
from emr_jobs.source.storage import LakeStorage
from emr_jobs.source.store_urls import SCHEMES
from sulina.errors import Refused
from sulina.lake.schema import OBJECT_SCHEMA, OFFSET, PUBLISH_TIME, VALUE, VALUE_ERROR

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def native_frame(spark: SparkSession, options: Mapping[str, Any]) -> DataFrame:
    """A data frame of the objects, including the columns namespace, topic and partition.

    Raises ``Refused`` for invalid options, for a store that Spark has no file system for, and for
    typed payloads, which need the data source.
    """
    given = {name: str(value) for name, value in options.items() if name != "scheme"}
    scheme = str(options.get("scheme", ""))
    parsed = parse_options(given)
    if parsed.payload.format or parsed.payload.registry:
        raise Refused(
            "typed payloads need spark.read.format('sulina'); here use from_json or from_avro"
        )
    if parsed.brokers is not None:
        raise Refused("Spark's own reader reads objects alone: leave out the option live")
    scheme_of = scheme or urlsplit(parsed.location.url).scheme
    if scheme_of in SCHEMES:
        raise Refused(
            f"Spark's own reader cannot open {scheme_of}://: use spark.read.format('sulina')"
        )
    if not has_file_system(spark, scheme_of):
        raise Refused(
            f"Spark has no file system for {scheme_of}://, so it cannot read {parsed.location.url} "
            "itself: use spark.read.format('sulina'), or add hadoop-aws of Spark's Hadoop version "
            "(--packages) and set scheme to s3a"
        )
    storage = LakeStorage(parsed.location)
    chosen = choose(storage, parsed)
    paths = [storage.uri(each.found.key, scheme) for each in chosen]
    value = _value_type(storage, chosen)
    typed = () if value is None else (VALUE, VALUE_ERROR)
    columns = parsed.columns or (*DEFAULT, *typed)
    if not paths:
        return spark.createDataFrame([], default_schema(columns))
    # An object without typed columns, or with those of fewer versions, has nulls.
    stored = default_schema([*OBJECT_SCHEMA.names, NAMESPACE, TOPIC, PARTITION, *typed], value)
    frame = (
        spark.read.schema(stored).option("basePath", storage.uri("ledgers", scheme)).parquet(*paths)
    )
    for condition in conditions(parsed.bounds):
        frame = frame.where(condition)
    return frame.select(*columns)


def has_file_system(spark: SparkSession, scheme: str) -> bool:
    """Whether Spark has a file system for ``scheme``; empty means a local folder."""
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


def _value_type(storage: LakeStorage, chosen: Sequence[ObjectCandidate]) -> DataType | None:
    """The type of the typed columns: of the newest object of a partition with the most versions.

    None if there are none, or if topics with different schemas are read together.
    """
    newest = {each.part: each.found for each in chosen}
    found = [each for each in footers(storage, newest.values()) if each.typed is not None]
    if not found or len({each.typed and each.typed.subject_id for each in found}) > 1:
        return None
    widest = max(found, key=lambda each: len(each.typed.versions) if each.typed else 0)
    return from_arrow_type(widest.parquet.schema.to_arrow_schema().field(VALUE).type)


def conditions(bounds: ReadBounds) -> list[Column]:
    """The bounds as conditions on columns."""
    from pyspark.sql import functions as f

    conditions = []
    if bounds.start_offset > 0:
        conditions.append(f.col(OFFSET) >= bounds.start_offset)
    if bounds.end_offset < END:
        conditions.append(f.col(OFFSET) < bounds.end_offset)
    if bounds.start_time > 0:
        conditions.append(f.col(PUBLISH_TIME) >= f.lit(_time(bounds.start_time)))
    if bounds.end_time < END:
        conditions.append(f.col(PUBLISH_TIME) < f.lit(_time(bounds.end_time)))
    return conditions


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
