"""Columns without a value cost nothing, and are null to whoever looks at them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from emr_jobs.source.batch import SlicesPartition
from emr_jobs.source.datasource import SulinaDataSource
from tests.spark.lake_folder import LakeFolder, attributes_of, key_of

ORDERS = "/default/orders"
FEW = 64
"""Objects of which a task looks at all footers before it reads the first."""


def batches(lake: LakeFolder) -> list[Any]:
    """All batches of the one task that small objects make, as Spark gets them."""
    source = SulinaDataSource({"path": str(lake.root), "topic": ORDERS})
    reader = source.reader(source.schema())
    (task,) = reader.partitions()
    assert isinstance(task, SlicesPartition)
    return list(reader.read(task))


def test_columns_that_no_record_of_a_task_has_are_handed_over_without_bytes(
    lake: LakeFolder,
) -> None:
    lake.add(ORDERS, 60, plain=True)
    lake.add(ORDERS, 60, plain=True)
    found = batches(lake)
    assert sum(batch.num_rows for batch in found) == 120
    for batch in found:
        for name in ("key", "attributes", "delivery_time"):
            assert batch.column(name).type == pa.null()
        assert batch.column("payload").null_count == 0


def test_a_task_with_one_value_in_a_column_has_all_of_the_column(lake: LakeFolder) -> None:
    lake.add(ORDERS, 50, plain=True)
    lake.add(ORDERS, 50)
    lake.add(ORDERS, 50, plain=True)
    table = pa.Table.from_batches(batches(lake))  # they are all of one schema
    assert table.column("key").to_pylist() == [
        key_of(offset) if 50 <= offset < 100 else None for offset in range(150)
    ]
    assert table.column("attributes").to_pylist()[51] == list((attributes_of(51) or {}).items())
    assert table.schema.field("delivery_time").type == pa.null()


def test_a_task_of_very_many_objects_does_not_look_at_all_of_them_first(lake: LakeFolder) -> None:
    for _ in range(FEW + 1):
        lake.add(ORDERS, 2, plain=True)
    table = pa.Table.from_batches(batches(lake))
    assert table.num_rows == 2 * (FEW + 1)
    assert table.schema.field("key").type == pa.binary()
    assert table.column("key").null_count == table.num_rows


def test_spark_finds_null_in_every_way_it_may_ask(spark: SparkSession, lake: LakeFolder) -> None:
    lake.add(ORDERS, 120, plain=True)
    frame = spark.read.format("sulina").load(str(lake.root), topic=ORDERS)
    row = frame.where("offset = 7").first()
    assert row is not None
    assert (row.key, row.attributes, row.delivery_time) == (None, None, None)
    assert [list(each) for each in frame.groupBy("key", "attributes.n").count().collect()] == [
        [None, None, 120]
    ]
    assert frame.where(
        "delivery_time > '2020-01-01' or key = 'k' or size(attributes) > 0"
    ).isEmpty()
    assert frame.where("delivery_time is null and key is null").count() == 120
    texts = frame.selectExpr("cast(key as string) k", "map_keys(attributes) a", "delivery_time d")
    assert texts.distinct().collect() == [(None, None, None)]
    kept = frame.cache()
    assert kept.where("attributes is null").count() == kept.count() == 120
    kept.unpersist()
