"""The check of the proof accepts what was published with three versions, and notices faults."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from sulina.lake.typed.schema_version import SchemaVersion
from sulina.lake.typed.table import table_schema
from sulina.names import TopicName
from sulina.tables.iceberg import find_table
from sulina.tables.tables import Tables
from tests.spark.lake_folder import FRAME, LakeFolder
from tests.tables.conftest import lake as lake
from tests.tables.conftest import make_tables as make_tables
from tests.tables.conftest import tables as tables
from tests.tables.proof.checking import TableCheck, check_table
from tests.tables.proof.orders import TOPIC, VERSIONS, definition, numbers_of, payloads

RECORDS = 60 * FRAME
ORDERS = TopicName.parse(TOPIC)


@pytest.fixture
def published(lake: LakeFolder, tables: Tables) -> Table:
    """All orders, as the proof publishes them, in one partition."""
    versions = [
        SchemaVersion(7, number, "json_schema", definition(number).encode())
        for number in range(1, VERSIONS + 1)
    ]
    table = table_schema(versions)
    for each in versions:
        bodies = payloads(numbers_of(each.number, RECORDS), each.number)
        lake.add(TOPIC, len(bodies), payloads=bodies, schema=(7, each.number), table=table)
    tables.backfill(ORDERS)
    return find_table(tables._catalog, "sulina", ORDERS)


def test_each_order_of_three_versions_is_there_once_and_typed(published: Table) -> None:
    check = TableCheck(RECORDS)
    check_table(published, check)
    found = check.finish()
    assert check.faults == []
    assert found[(TOPIC, 0)].records == RECORDS
    assert check.rejected == 3


def _doubled(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows, rows.slice(0, 1)])


def _missing(rows: pa.Table) -> pa.Table:
    return rows.slice(1)


def _without_default(rows: pa.Table) -> pa.Table:
    values = [{**(each or {}), "currency": None} for each in rows["value"].to_pylist()]
    place = rows.schema.get_field_index("value")
    return rows.set_column(place, "value", pa.array(values, rows["value"].type))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_doubled, "1 orders are there more than once, the first is 0"),
        (_missing, "1 orders are missing, the first is 0"),
        (_without_default, "wrong values in the column currency"),
    ],
)
def test_faults_are_noticed(
    published: Table, spoil: Callable[[pa.Table], pa.Table], told: str
) -> None:
    rows = published.scan().to_arrow().sort_by("offset")
    check = TableCheck(RECORDS)
    check.add(0, spoil(rows))
    check.finish()
    assert any(told in each for each in check.faults), check.faults


def test_defaults_are_in_objects_from_before_their_version_once_these_are_rewritten(
    lake: LakeFolder, tables: Tables
) -> None:
    first, second = (
        SchemaVersion(7, number, "json_schema", definition(number).encode()) for number in (1, 2)
    )
    old, both = table_schema([first]), table_schema([first, second])
    lake.add(TOPIC, 1, payloads=[b'{"id": 1}'], schema=(7, 1), table=old)
    lake.add(TOPIC, 1, payloads=[b'{"id": 2}'], schema=(7, 2), table=both)

    def currencies() -> list[str | None]:
        tables.backfill(ORDERS)
        rows = find_table(tables._catalog, "sulina", ORDERS).scan().to_arrow().sort_by("offset")
        return [each["currency"] for each in rows["value"].to_pylist()]

    assert currencies() == [None, "CHF"]
    lake.replace(lake.objects()[:1], 1, both)
    assert currencies() == ["CHF", "CHF"]
