"""A table of the newest row of each key: each record is merged once, in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sulina.errors import Refused
from sulina.names import TopicName
from sulina.tables.catalogs import open_catalog
from sulina.tables.latest import LatestTable, Unmerged, make_latest
from sulina.tables.objects import Lake, LakePlace, LakeTopic
from sulina.tables.tables import Tables
from tests.spark.lake_folder import LakeFolder, key_of
from tests.tables.conftest import MakeTables
from tests.tables.test_tables import typed

ORDERS = TopicName.parse("/default/orders")


def rows_of(lake: LakeFolder, tmp_path: Path) -> dict[bytes, dict[str, Any]]:
    place = LakePlace.parse(str(lake.root))
    catalog = open_catalog(f"sqlite:///{tmp_path}/catalog.db", place)
    rows = catalog.load_table("sulina.default__orders__latest").scan().to_arrow().to_pylist()
    found = {row["key"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def expected(count: int) -> dict[bytes | None, int]:
    """The last offset of each key."""
    return {key_of(offset): offset for offset in range(count) if key_of(offset) is not None}


def test_the_newest_row_of_each_key_is_kept_over_runs(
    lake: LakeFolder, make_tables: MakeTables, tmp_path: Path
) -> None:
    for end in (30, 60):
        lake.add(str(ORDERS), 20)
        lake.add(str(ORDERS), 10)
        done = make_tables().upsert(ORDERS)
        assert (done.records, done.rows) == (30, 7)
        found = rows_of(lake, tmp_path)
        assert {key: row["offset"] for key, row in found.items()} == expected(end)
        assert all(json.loads(row["payload"])["id"] == row["offset"] for row in found.values())
    assert make_tables().upsert(ORDERS).records == 0
    lake.objects()[0].unlink()  # retention deletes what was merged
    assert make_tables().upsert(ORDERS).rows == 7


def test_a_tombstone_deletes_a_row_and_a_later_record_brings_it_back(
    lake: LakeFolder, tables: Tables, tmp_path: Path
) -> None:
    dead = {"sulina.tombstone": "1"}
    lake.add(str(ORDERS), 8)
    lake.add(str(ORDERS), 2, payloads=[b"", b"x"], attributes=[dead, None])  # keys k1 and none
    tables.upsert(ORDERS)
    assert b"k1" not in rows_of(lake, tmp_path)
    lake.add(str(ORDERS), 6, payloads=[b"back"] * 6, attributes=[None] * 6)
    tables.upsert(ORDERS)
    assert rows_of(lake, tmp_path)[b"k1"]["payload"] == b"back"


def test_typed_columns_join_with_the_first_object_that_has_them(
    lake: LakeFolder, tables: Tables, tmp_path: Path
) -> None:
    integer, text = {"type": "integer"}, {"type": "string"}
    lake.add(str(ORDERS), 7)
    tables.upsert(ORDERS)
    lake.add(str(ORDERS), 1, table=typed({"id": integer}))
    tables.upsert(ORDERS)
    lake.add(str(ORDERS), 1, table=typed({"id": integer}, {"id": integer, "note": text}))
    tables.upsert(ORDERS)
    found = rows_of(lake, tmp_path)
    assert found[b"k0"]["value"] == {"id": 7, "note": None}
    assert found[b"k1"]["value"] == {"id": 8, "note": "n8"}
    assert found[b"k5"]["value"] is None


def test_of_two_processes_that_merge_at_once_each_record_counts_once(
    lake: LakeFolder, make_tables: MakeTables, tmp_path: Path
) -> None:
    lake.add(str(ORDERS), 30)
    place = LakePlace.parse(str(lake.root))

    class Overtaken(LatestTable):
        """Another process merges the same objects just before each of the first commits."""

        left = 2

        def commit(self, new: Unmerged) -> None:
            if self.left:
                self.left -= 1
                lake.add(str(ORDERS), 5)
                make_tables().upsert(ORDERS)
            super().commit(new)

    catalog = open_catalog(f"sqlite:///{tmp_path}/catalog.db", place)
    made = make_latest(catalog, "sulina", ORDERS, f"{place.url}/tables")
    records, _ = Overtaken(made, Lake(place)).merge(LakeTopic(Lake(place), ORDERS))
    assert records == 0
    assert {key: row["offset"] for key, row in rows_of(lake, tmp_path).items()} == expected(35)


def test_an_object_that_replaced_merged_ones_adds_only_what_is_new(
    lake: LakeFolder, tables: Tables, tmp_path: Path
) -> None:
    dead = {"sulina.tombstone": "1"}
    lake.add(str(ORDERS), 8)
    lake.add(str(ORDERS), 2, payloads=[b"", b""], attributes=[dead, None])  # deletes k1
    assert tables.upsert(ORDERS).records == 10
    lake.add(str(ORDERS), 5)
    old = lake.objects()
    lake.replace(old, 1)
    for path in old:
        path.unlink()
    assert tables.upsert(ORDERS).records == 5
    assert b"k1" not in rows_of(lake, tmp_path)


def test_records_that_are_gone_before_they_were_merged_are_an_error(
    lake: LakeFolder, tables: Tables
) -> None:
    lake.add(str(ORDERS), 10)
    tables.upsert(ORDERS)
    for _ in range(2):
        lake.add(str(ORDERS), 10)
    for path in lake.objects()[:2]:
        path.unlink()
    with pytest.raises(Refused, match="records 10 to 19 of partition 0 are gone"):
        tables.upsert(ORDERS)


def test_a_table_that_grows_beyond_memory_is_refused(
    lake: LakeFolder, tables: Tables, tmp_path: Path
) -> None:
    lake.add(str(ORDERS), 100)
    place = LakePlace.parse(str(lake.root))
    catalog = open_catalog(f"sqlite:///{tmp_path}/catalog.db", place)
    made = make_latest(catalog, "sulina", ORDERS, f"{place.url}/tables")
    small = LatestTable(made, Lake(place), max_bytes=100)
    with pytest.raises(Refused, match=r"keep them with the job emr_jobs\.jobs\.upsert"):
        small.merge(LakeTopic(Lake(place), ORDERS))
