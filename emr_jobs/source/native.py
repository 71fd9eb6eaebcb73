"""Resolves a topic, offsets and times to objects for Spark's own Parquet reader.

This is the way for scans of few columns, for filters, and where EMR allows no other data source:
with Lake Formation it blocks those, but not plain Parquet.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from emr_jobs.source.columns import DEFAULT, NAMESPACE, PARTITION, TOPIC, default_schema
from emr_jobs.source.objects import choose
from emr_jobs.source.options import END, Bounds, parse_options
from emr_jobs.source.storage import Storage
from sulina.errors import Refused
from sulina.lake.schema import OBJECT_SCHEMA, OFFSET, PUBLISH_TIME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def native_frame(spark: SparkSession, options: Mapping[str, Any]) -> DataFrame:
    """A data frame over the objects, with namespace, topic and partition as columns, too.

    Raises ``Refused`` for wrong options and for payload types, which are for the data source.
    """
    given = {name: str(value) for name, value in options.items() if name != "scheme"}
    scheme = str(options.get("scheme", ""))
    parsed = parse_options(given)
    if parsed.payload.format or parsed.payload.registry:
        raise Refused(
            "typed payloads are for spark.read.format('sulina'); here use from_json or from_avro"
        )
    storage = Storage(parsed.place)
    paths = [storage.uri(each.found.key, scheme) for each in choose(storage, parsed)]
    columns = parsed.columns or DEFAULT
    if not paths:
        return spark.createDataFrame([], default_schema(columns))
    stored = default_schema([*OBJECT_SCHEMA.names, NAMESPACE, TOPIC, PARTITION])
    frame = (
        spark.read.schema(stored).option("basePath", storage.uri("ledgers", scheme)).parquet(*paths)
    )
    for condition in _conditions(parsed.bounds):
        frame = frame.where(condition)
    return frame.select(*columns)


def _conditions(bounds: Bounds) -> list[Column]:
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
