"""Spark with Iceberg's own runtime reads the tables. Needs its jar: SULINA_ICEBERG_JAR=file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sulina.names import TopicName
from sulina.tables.tables import Tables
from tests.spark.lake_folder import LakeFolder, key_of

JAR = os.environ.get("SULINA_ICEBERG_JAR", "")
PROGRAM = """
import json, sys
from emr_jobs.java import prepare_java
from pyspark.sql import SparkSession
prepare_java()
jar, metadata = sys.argv[1:]
settings = {"spark.jars": jar, "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
table = spark.read.format("iceberg")
rows = table.load(metadata)
snapshots = table.load(metadata + "#snapshots").orderBy("committed_at").collect()
print(json.dumps({
    "parts": {row.partition: row["count"] for row in rows.groupBy("partition").count().collect()},
    "payloads": [bytes(row.payload).decode() for row in
        rows.where("partition = 0 and offset < 3").orderBy("offset").collect()],
    "history": [spark.read.option("snapshot-id", each.snapshot_id).format("iceberg")
        .load(metadata).count() for each in snapshots],
}))
"""


@pytest.mark.timeout(600)
@pytest.mark.skipif(not JAR, reason="SULINA_ICEBERG_JAR does not name Iceberg's Spark runtime")
def test_spark_reads_a_table_and_its_history(
    lake: LakeFolder, tables: Tables, tmp_path: Path
) -> None:
    orders = TopicName.parse("/default/orders")
    for count in (40, 50):
        lake.add("/default/orders-part-0", count)
        lake.add("/default/orders-part-1", 5)
        tables.backfill(orders)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, JAR, tables.describe(orders).metadata],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["parts"] == {"0": 90, "1": 10}
    assert [json.loads(each)["id"] for each in found["payloads"]] == [0, 1, 2]
    assert found["history"] == [45, 100]


@pytest.mark.timeout(600)
@pytest.mark.skipif(not JAR, reason="SULINA_ICEBERG_JAR does not name Iceberg's Spark runtime")
def test_the_upsert_job_keeps_the_newest_row_of_each_key(lake: LakeFolder, tables: Tables) -> None:
    orders = TopicName.parse("/default/orders")
    for _ in range(2):
        lake.add(str(orders), 20)
    tables.backfill(orders)
    arguments = [JAR, str(lake.root), tables.describe(orders).metadata]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.tables.upsert_program", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["codes"] == [0, 0, 0, 0, 0, 2], ran.stderr[-2000:]
    first, second, other = told["rows"]
    newest = {key_of(offset): offset for offset in range(40) if key_of(offset) is not None}
    assert {key.encode(): offset for key, offset, _ in first} == newest
    # Of records 40 to 42, the first deletes k5, and the others have the keys k6 and k0.
    assert {key for key, *_ in second} == {key for key, *_ in first} - {"k5"}
    assert {key: text for key, _, text in second if text == "new"} == {"k6": "new", "k0": "new"}
    assert other == 7
    assert told["snapshots"] == 2  # the second run had nothing to merge
