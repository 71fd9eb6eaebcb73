"""Readers of listings while replaced objects still exist: each record once, or an error."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from emr_jobs.source.native import native_frame
from sulina.lake.layout import notice_key
from sulina.names import TopicName
from tests.spark.lake_folder import LakeFolder, payload_of
from tests.spark.test_jobs import audit
from tests.spark.test_reading import ORDERS, load, offsets, read


@pytest.fixture
def merged(lake: LakeFolder) -> LakeFolder:
    """Five objects, three of which are replaced by one and still there."""
    for _ in range(5):
        lake.add(ORDERS, 20)
    lake.replace(lake.objects()[1:4], 3)
    return lake


def test_the_source_reads_each_record_once(merged: LakeFolder) -> None:
    assert offsets(merged) == list(range(100))
    assert offsets(merged, startOffset=35, endOffset=70) == list(range(35, 70))
    assert read(merged).column("payload").to_pylist() == [payload_of(at) for at in range(100)]


def test_it_reads_the_same_after_the_replaced_objects_are_gone(merged: LakeFolder) -> None:
    for path in merged.objects():
        if 20 <= int(path.name[:20]) < 80 and path.name.count("-") == 1:
            path.unlink()
    assert offsets(merged) == list(range(100))


def test_the_audit_finds_no_fault(merged: LakeFolder) -> None:
    report = audit(merged)
    assert report["faults"] == 0 and report["records"] == 100


def test_the_audit_allows_for_offsets_that_compaction_removed(lake: LakeFolder) -> None:
    for _ in range(3):
        lake.add(ORDERS, 100)
    lake.replace(lake.objects()[:2], 1, without=range(50, 150))
    report = audit(lake)
    assert report["faults"] == 0 and report["records"] == 200
    assert offsets(lake) == [*range(50), *range(150, 300)]


def test_spark_reads_by_listing_once_and_a_plain_folder_fails(
    spark: SparkSession, merged: LakeFolder
) -> None:
    assert load(spark, merged).count() == 100
    native = native_frame(spark, {"path": str(merged.root), "topic": ORDERS})
    assert native.count() == 100
    merged.put(notice_key(TopicName.parse(ORDERS), 104, 3), b"not Parquet")
    with pytest.raises((PySparkException, Py4JError), match="being-replaced-read-with-iceberg"):
        spark.read.parquet(f"{merged.root}/ledgers").count()
    assert load(spark, merged).count() == 100
