"""Engines read the same table and agree, now and as of a former snapshot; Athena's SQL is valid."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sqlglot
from pyiceberg.table import Table
from sqlglot import exp

from sulina.cli.app import run
from sulina.lake.schema import RECORD_SCHEMA
from sulina.names import TopicName
from sulina.tables.catalogs import open_catalog
from sulina.tables.objects import LakePlace
from sulina.tables.tables import Tables
from tests.documents.markdown import ROOT, blocks
from tests.spark.lake_folder import LakeFolder, payload_of
from tests.tables.test_tables import typed

JAR = os.environ.get("SULINA_ICEBERG_JAR", "")
ORDERS = TopicName.parse("/default/orders")
RECORDS = 20
Facts = list[tuple[int, int, int | None, bool]]
"""Of each record: partition, offset, the typed id, and whether its payload fits."""


@pytest.fixture
def orders(lake: LakeFolder, tables: Tables, tmp_path: Path) -> Table:
    """Two snapshots: of objects without typed columns, then with them and a payload that fails."""
    table = typed({"id": {"type": "integer"}})
    payloads = [payload_of(offset) for offset in range(RECORDS)]
    payloads[3] = b"not JSON"
    for columns, bodies in ((None, None), (table, payloads)):
        for number in range(2):
            topic = f"{ORDERS}-part-{number}"
            lake.add(topic, RECORDS, table=columns, payloads=bodies)
        tables.backfill(ORDERS)
    place = LakePlace.parse(str(lake.root))
    catalog = open_catalog(f"sqlite:///{tmp_path}/catalog.db", place)
    return catalog.load_table("sulina.default__orders")


def expected(snapshots: int) -> Facts:
    found: Facts = []
    for partition in range(2):
        found += [(partition, offset, None, True) for offset in range(RECORDS)]
        if snapshots == 2:
            found += [
                (partition, RECORDS + place, None if place == 3 else place, place != 3)
                for place in range(RECORDS)
            ]
    return found


def facts(rows: Iterable[dict[str, Any]]) -> Facts:
    """Of rows as dictionaries, of whatever engine."""
    return sorted(
        (
            row["partition"],
            row["offset"],
            (row.get("value") or {"id": None})["id"],
            row.get("value_error") is None,
        )
        for row in rows
    )


def by_pyiceberg(table: Table, snapshot: int) -> Facts:
    return facts(table.scan(snapshot_id=snapshot).to_arrow().to_pylist())


def by_pandas(table: Table, snapshot: int) -> Facts:
    frame = table.scan(snapshot_id=snapshot).to_pandas()
    return facts(frame.astype(object).where(frame.notna(), None).to_dict("records"))


def by_polars(table: Table, snapshot: int) -> Facts:
    return facts(pl.scan_iceberg(table, snapshot_id=snapshot).collect().to_dicts())


def by_duckdb(table: Table, snapshot: int) -> Facts:
    connection = table.scan(snapshot_id=snapshot).to_duckdb("orders")
    return facts(
        connection.sql("SELECT * EXCLUDE publish_time FROM orders").to_arrow_table().to_pylist()
    )


@pytest.mark.parametrize("read", [by_pyiceberg, by_pandas, by_polars, by_duckdb])
def test_an_engine_reads_what_the_table_has_and_had(
    orders: Table, read: Callable[[Table, int], Facts]
) -> None:
    first, second = (each.snapshot_id for each in orders.snapshots())
    assert read(orders, second) == expected(2)
    assert read(orders, first) == expected(1)


SPARK = """
import json, sys
from emr_jobs.java import prepare_java
from pyspark.sql import SparkSession
prepare_java()
jar, metadata, *snapshots = sys.argv[1:]
settings = {"spark.jars": jar, "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
found = []
for snapshot in snapshots:
    rows = spark.read.option("snapshot-id", snapshot).format("iceberg").load(metadata)
    rows = rows.drop("publish_time", "delivery_time", "key", "payload", "attributes").collect()
    found.append([row.asDict(recursive=True) for row in rows])
print(json.dumps(found))
"""


@pytest.mark.timeout(600)
@pytest.mark.skipif(not JAR, reason="SULINA_ICEBERG_JAR does not name Iceberg's Spark runtime")
def test_spark_agrees_with_them(orders: Table) -> None:
    snapshots = [str(each.snapshot_id) for each in orders.snapshots()]
    ran = subprocess.run(
        [sys.executable, "-c", SPARK, JAR, orders.metadata_location, *snapshots],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    first, second = json.loads(ran.stdout.splitlines()[-1])
    assert (facts(first), facts(second)) == (expected(1), expected(2))


def test_rejected_payloads_are_counted_and_shown(
    orders: Table,
    lake: LakeFolder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = ["--lake", str(lake.root), "--catalog", f"sqlite:///{tmp_path}/catalog.db"]
    assert run(["table", "rejected", str(ORDERS), *place]) == 0
    shown = capsys.readouterr().out
    assert "not JSON" in shown and f"{ORDERS}: 2 payloads do not fit the schema" in shown
    assert run(["table", "rejected", str(ORDERS), "--count", "1", "--json", *place]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rejected"], len(told["records"])) == (2, 1)
    assert told["records"][0]["offset"] == RECORDS + 3


def statements(page: str, words: str) -> list[str]:
    """The SQL of a page: whole blocks, and lines in tables of engines."""
    text = (ROOT / page).read_text()
    found = [block.text for block in blocks(ROOT / page) if words in block.text]
    return found + [each for each in re.findall(r"`(SELECT [^`]+)`", text) if "..." not in each]


def test_the_statements_for_athena_are_valid_and_fit_the_objects() -> None:
    (create,) = statements("docs/lake.md", "create external table")
    parsed = sqlglot.parse_one(create, dialect="athena")
    assert isinstance(parsed, exp.Create)
    columns = {
        each.name: each.args["kind"].sql("hive").lower()
        for each in parsed.this.expressions
        if isinstance(each, exp.ColumnDef)
    }
    kinds = {
        "int64": "bigint",
        "int32": "int",
        "string": "string",
        "binary": "binary",
        "timestamp[us, tz=UTC]": "timestamp",
        "map<string, string>": "map<string, string>",
    }
    assert columns == {field.name: kinds[str(field.type)] for field in RECORD_SCHEMA}
    for query in statements("docs/tables.md", "for Athena"):
        for dialect in ("athena", "trino"):
            assert isinstance(sqlglot.parse_one(query, dialect=dialect), exp.Select), query
