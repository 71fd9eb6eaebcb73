"""The same over S3, through s3fs, against an emulated account."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import emr_jobs
from emr_jobs.jobs import compaction, ledger_audit, topic_statistics
from emr_jobs.jobs.compacted import CompactedTable, Uncompacted
from emr_jobs.source.batch import SlicesPartition
from emr_jobs.source.datasource import SulinaDataSource
from emr_jobs.source.objects import TopicPartition
from emr_jobs.source.options import StoreLocation
from localstack.emulators.server import EmulatorServer
from sulina.errors import NotFound, Refused, Unavailable
from tests.spark.lake_folder import LakeFolder, payload_of

BUCKET = "spark-lake"
ORDERS = "/default/orders"


@pytest.fixture
def bucket(
    moto: EmulatorServer, lake: LakeFolder, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A bucket with three ledgers, and the way to it in the environment as AWS has it."""
    for name, value in moto.variables.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    for _ in range(3):
        lake.add(ORDERS, 40)
    for path in lake.objects():
        key = f"lake/{path.relative_to(lake.root).as_posix()}"
        client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
    yield client
    for each in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        client.delete_object(Bucket=BUCKET, Key=each["Key"])
    client.delete_bucket(Bucket=BUCKET)


def options(**more: Any) -> dict[str, str]:
    given = {"path": f"s3://{BUCKET}/lake", "topic": ORDERS, **more}
    return {name: str(value) for name, value in given.items()}


def test_objects_in_s3_are_listed_counted_and_read(bucket: Any) -> None:
    source = SulinaDataSource(options(startOffset=30, columns="offset"))
    reader = source.reader(source.schema())
    [partition] = reader.partitions()
    assert isinstance(partition, SlicesPartition) and len(partition.slices) == 3
    found = [n for batch in reader.read(partition) for n in batch.column(0).to_pylist()]
    assert found == list(range(30, 120))
    assert emr_jobs.count(**options(startOffset=30)) == 90


def test_a_bucket_and_an_endpoint_are_options_too(
    bucket: Any, moto: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    given = {"bucket": BUCKET, "prefix": "lake", "endpoint": moto.url, "topic": "/default/*"}
    assert emr_jobs.count(**given) == 120


def test_the_url_that_tiering_was_told_is_a_path(
    bucket: Any, moto: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    url = f"s3://{BUCKET}/lake/?endpoint={moto.url}&region=us-east-1"
    assert emr_jobs.count(path=url, topic=ORDERS) == 120
    with pytest.raises(Refused, match="unknown parameter acl"):
        emr_jobs.count(path="s3://lake?acl=x", topic=ORDERS)


def test_a_stream_sees_new_objects_in_s3(bucket: Any, lake: LakeFolder) -> None:
    source = SulinaDataSource(options(columns="offset"))
    reader = source.streamReader(source.schema())
    first = reader.latestOffset()
    assert first == {ORDERS: {"0": 120}}
    lake.add(ORDERS, 5)
    path = lake.objects()[-1]
    key = f"lake/{path.relative_to(lake.root).as_posix()}"
    bucket.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
    [partition] = reader.partitions(first, reader.latestOffset())
    assert [n for batch in reader.read(partition) for n in batch.column(0).to_pylist()] == [
        *range(120, 125)
    ]


def test_an_object_that_vanishes_between_plan_and_read_is_told(bucket: Any) -> None:
    source = SulinaDataSource(options())
    reader = source.reader(source.schema())
    [partition] = reader.partitions()
    for each in bucket.list_objects_v2(Bucket=BUCKET)["Contents"]:
        bucket.delete_object(Bucket=BUCKET, Key=each["Key"])
    with pytest.raises(NotFound, match="no longer exists in s3://spark-lake/lake"):
        list(reader.read(partition))


def test_a_table_in_s3_takes_each_run_once(bucket: Any) -> None:
    table = CompactedTable(StoreLocation(f"s3://{BUCKET}/table"))
    assert table.state() == (0, {})
    part = TopicPartition(ORDERS, 0)
    table.commit(0, [Uncompacted(part, 0, 40)])
    assert table.state() == (1, {part: 40})
    with pytest.raises(Refused, match="another run"):
        table.commit(0, [Uncompacted(part, 0, 40)])


def source(*more: str) -> list[str]:
    return ["--path", f"s3://{BUCKET}/lake", "--topic", ORDERS, *more]


@pytest.fixture
def spark_of_bucket(
    spark: SparkSession,
    bucket: Any,
    moto: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark whose Python workers have the way to the bucket in their environment, too."""
    for name, value in moto.variables.items():
        monkeypatch.setitem(spark.sparkContext.environment, name, value)


@pytest.mark.usefixtures("spark_of_bucket")
def test_jobs_read_an_s3_that_spark_itself_has_no_file_system_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert topic_statistics.main(source("--window", "1 hour")) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 120
    assert ledger_audit.main(source()) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 120
    table = tmp_path / "table"
    assert compaction.main(source("--table", str(table))) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 120
    rows = pq.read_table(table / "data").sort_by("offset")
    assert rows.column("payload").to_pylist() == [payload_of(offset) for offset in range(120)]


@pytest.mark.usefixtures("spark_of_bucket")
def test_a_job_that_can_not_write_there_says_so_before_it_reads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert topic_statistics.main(source("--output", f"s3://{BUCKET}/windows")) == 2
    assert "Spark cannot write to s3://spark-lake/windows" in capsys.readouterr().err
    assert compaction.main(source("--table", f"s3://{BUCKET}/table")) == 2
    assert "hadoop-aws" in capsys.readouterr().err


def test_a_bucket_or_prefix_that_does_not_exist_is_told(bucket: Any) -> None:
    for path, said in (
        ("s3://no-such-bucket/lake", "s3://no-such-bucket/lake does not exist"),
        (f"s3://{BUCKET}/lak", f"s3://{BUCKET}/lak has no folder ledgers"),
    ):
        with pytest.raises(NotFound, match=said):
            emr_jobs.count(**options(path=path))
    assert emr_jobs.count(**options(path=f"s3://{BUCKET}/lak", allowEmpty="true")) == 0


@pytest.mark.usefixtures("spark_of_bucket")
def test_a_native_read_says_that_spark_has_no_file_system_for_s3(spark: SparkSession) -> None:
    with pytest.raises(Refused, match=r"Spark has no file system for s3://.*format\('sulina'\)"):
        emr_jobs.native(spark, **options())


def test_an_s3_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    assert "AWS_ENDPOINT_URL" not in os.environ
    with pytest.raises(Unavailable, match="could not be listed"):
        emr_jobs.count(**options(endpoint="http://127.0.0.1:1"))
