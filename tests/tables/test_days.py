"""Files with records of one day are partitioned by it, and no other day's records are missed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import polars as pl
import pytest
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table

from sulina.lake.summary import ObjectSummary
from sulina.names import TopicName
from sulina.tables import data_file, iceberg, partitioning
from sulina.tables.columns import SPEC
from sulina.tables.iceberg import find_table
from sulina.tables.tables import Tables
from tests.spark.lake_folder import NOON, LakeFolder

JAR = os.environ.get("SULINA_ICEBERG_JAR", "")
ORDERS = TopicName.parse("/default/orders")
DAY = 86_400_000_000
DAYS = ("2026-05-01", "2026-05-02", "2026-05-03", "2026-05-04")


def on(day: int, lake: LakeFolder, count: int = 10) -> None:
    """An object with records of one day."""
    lake.add(str(ORDERS), count, time_us=NOON + day * DAY)


def across(day: int, lake: LakeFolder) -> None:
    """An object with five records of a day and five of the next."""
    middle = lake.ends.get(str(ORDERS), 0) + 5
    midnight = NOON + day * DAY + DAY // 2
    lake.add(str(ORDERS), 10, time_us=lambda offset: midnight + (offset - middle) * 1_000_000)


def table_of(tables: Tables) -> Table:
    return find_table(tables._catalog, "sulina", ORDERS)


def where(day: int) -> str:
    return (
        f"publish_time >= '{DAYS[day]}T00:00:00+00:00' and "
        f"publish_time < '{DAYS[day + 1]}T00:00:00+00:00'"
    )


def counts(table: Table, **scan: Any) -> list[int]:
    """How many records each of three days has."""
    return [table.scan(row_filter=where(day), **scan).to_arrow().num_rows for day in range(3)]


def days_of(table: Table) -> list[int | None]:
    """Of each file, in the order of offsets: the day of its partition, counted from the first."""
    files = sorted((task.file for task in table.scan().plan_files()), key=lambda f: f.file_path)
    return [file.partition[1] - NOON // DAY if file.spec_id else None for file in files]


@pytest.fixture
def three_days(lake: LakeFolder, tables: Tables) -> Table:
    """A table with a file of each of three days, one of two, and 100 + 5, 5 + 10, 10 records."""
    on(0, lake, 100)
    tables.backfill(ORDERS)
    across(0, lake)
    on(1, lake)
    tables.backfill(ORDERS)  # one commit with files of both kinds
    on(2, lake)
    tables.backfill(ORDERS)
    return table_of(tables)


def test_files_of_one_day_are_partitioned_by_it_and_all_days_are_complete(
    three_days: Table,
) -> None:
    assert days_of(three_days) == [0, None, 1, 2]
    assert counts(three_days) == [105, 15, 10]
    assert three_days.scan().count() == 130
    frame = pl.scan_iceberg(three_days)
    days = frame.group_by(pl.col("publish_time").dt.date()).len().collect()
    assert sorted(days["len"].to_list()) == [10, 15, 105]
    told = (
        three_days.scan()
        .to_duckdb("orders")
        .sql("SELECT count(*) FROM orders GROUP BY CAST(publish_time AS DATE) ORDER BY 1")
    )
    assert [row[0] for row in told.fetchall()] == [10, 15, 105]
    snapshots = three_days.snapshots()
    assert [each.summary and each.summary["total-records"] for each in snapshots] == [
        *("100", "120", "130")
    ]
    assert counts(three_days, snapshot_id=snapshots[1].snapshot_id) == [105, 15, 0]


def test_a_query_for_a_day_opens_its_files_and_no_manifest_of_other_days(
    three_days: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    fetch = ManifestFile.fetch_manifest_entry

    def count(self: ManifestFile, *arguments: Any, **options: Any) -> Any:
        opened.append(self.manifest_path)
        return fetch(self, *arguments, **options)

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", count)
    assert len(list(three_days.scan(row_filter=where(2)).plan_files())) == 1
    assert len(opened) == 2  # its own, and that of the file of two days
    opened.clear()
    assert len(list(three_days.scan().plan_files())) == 4
    assert len(opened) == 4


def test_objects_replaced_by_one_of_several_days_move_between_the_kinds(
    lake: LakeFolder, tables: Tables, three_days: Table
) -> None:
    lake.replace(lake.objects()[:3], 1)
    assert tables.backfill(ORDERS).exchanged == 3
    table = table_of(tables)
    assert days_of(table) == [None, 2]
    assert counts(table) == [105, 15, 10]
    for path in lake.objects()[-1:]:
        lake.replace([path], 2)
    assert tables.backfill(ORDERS).exchanged == 1
    assert days_of(table_of(tables)) == [None, 2]
    for path in lake.objects()[:4]:
        path.unlink()
    tables.backfill(ORDERS)
    assert counts(table_of(tables)) == [0, 0, 10]


def test_a_table_from_before_gets_days_for_what_is_added(lake: LakeFolder, tables: Tables) -> None:
    with pytest.MonkeyPatch.context() as before:
        before.setattr(iceberg, "DAY_SPEC", SPEC)
        both = partitioning.Specs(SPEC, SPEC)
        before.setattr(iceberg, "specs_for", lambda transaction, table: both)
        before.setattr(data_file, "day_of", lambda summary: None)
        on(0, lake)
        tables.backfill(ORDERS)
    assert list(table_of(tables).specs()) == [0]
    across(0, lake)
    on(1, lake)
    tables.backfill(ORDERS)
    table = table_of(tables)
    assert list(table.specs()) == [0, 1]
    assert days_of(table) == [None, None, 1]
    assert counts(table) == [15, 15, 0]
    tables.backfill(ORDERS)
    lake.objects()[0].unlink()
    tables.backfill(ORDERS)
    assert counts(table_of(tables)) == [5, 15, 0]


def test_many_small_commits_of_both_kinds_keep_few_manifests(
    lake: LakeFolder, tables: Tables
) -> None:
    for number in range(45):
        across(0, lake) if number % 15 == 14 else on(0, lake)
        tables.backfill(ORDERS)
    table = table_of(tables)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(table.io)) <= 20
    assert counts(table) == [42 * 10 + 15, 15, 0]


def test_a_file_of_two_days_that_claimed_one_would_hide_records_of_the_other(
    lake: LakeFolder, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_day(summary: ObjectSummary) -> int:
        return summary.first_time_us // DAY

    monkeypatch.setattr(data_file, "day_of", first_day)
    across(0, lake)
    tables.backfill(ORDERS)
    assert counts(table_of(tables)) == [5, 0, 0]


SPARK = """
import sys
from emr_jobs.java import prepare_java
from pyspark.sql import SparkSession
prepare_java()
jar, metadata, *days = sys.argv[1:]
settings = {"spark.jars": jar, "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
settings |= {"spark.sql.session.timeZone": "UTC"}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
rows = spark.read.format("iceberg").load(metadata)
by_day = [rows.where(f"to_date(publish_time) = '{day}'").count() for day in days]
between = [rows.where(f"publish_time >= timestamp'{day}' AND publish_time < timestamp'{after}'")
    .count() for day, after in zip(days, days[1:])]
print(by_day, between, rows.count())
"""


@pytest.mark.timeout(600)
@pytest.mark.skipif(not JAR, reason="SULINA_ICEBERG_JAR does not name Iceberg's Spark runtime")
def test_spark_agrees(three_days: Table) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SPARK, JAR, three_days.metadata_location, *DAYS],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.splitlines()[-1] == "[105, 15, 10, 0] [105, 15, 10] 130"
