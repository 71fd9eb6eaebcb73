"""Topics as real Iceberg tables: what other readers see of them, and who may commit when."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from localstack.emulators.server import EmulatorServer
from sulina.cli.app import run as run_command
from sulina.errors import NotFound, Refused, Unavailable
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.lake.typed.table import TableSchema, table_schema
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock
from sulina.tables.catalogs import open_catalog
from sulina.tables.iceberg import find_table, table_name
from sulina.tables.objects import Lake, LakePlace
from sulina.tables.planning import Extent, Gap
from sulina.tables.tables import Tables
from tests.documents.markdown import ROOT, blocks
from tests.spark.lake_folder import LakeFolder, attributes_of, key_of, payload_of
from tests.tables.conftest import MakeTables

ORDERS = TopicName.parse("/default/orders")


def table_of(tables: Tables) -> Table:
    return find_table(tables._catalog, "sulina", ORDERS)


def rows(tables: Tables, **scan: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table_of(tables).scan(**scan).to_arrow().to_pylist()
    return sorted(found, key=lambda row: int(row["offset"]))


def offsets(tables: Tables, **scan: Any) -> list[int]:
    return [row["offset"] for row in rows(tables, selected_fields=("offset",), **scan)]


def test_a_table_has_every_record_with_its_partition(lake: LakeFolder, tables: Tables) -> None:
    for _ in range(3):
        lake.add("/default/orders-part-0", 40)
    lake.add("/default/orders-part-2", 7)
    done = tables.backfill(ORDERS)
    assert (done.commits, done.objects, done.records) == (1, 4, 127)
    found = rows(tables)
    of_first = [row for row in found if row["partition"] == 0]
    assert [row["payload"] for row in of_first] == [payload_of(at) for at in range(120)]
    assert [row["key"] for row in of_first] == [key_of(at) for at in range(120)]
    assert [dict(row["attributes"] or ()) for row in of_first] == [
        dict(attributes_of(at) or {}) for at in range(120)
    ]
    assert [row["offset"] for row in found if row["partition"] == 2] == list(range(7))
    state = tables.describe(ORDERS)
    assert (state.topic, state.records, state.objects) == (str(ORDERS), 127, 4)
    assert state.partitions == {0: Extent(0, 120), 2: Extent(0, 7)}
    assert tables.list() == [state]


def test_a_table_grows_with_its_topic_and_forgets_what_retention_deleted(
    lake: LakeFolder, tables: Tables
) -> None:
    lake.add(str(ORDERS), 40)
    tables.backfill(ORDERS)
    assert tables.backfill(ORDERS).commits == 0
    lake.add(str(ORDERS), 10)
    assert tables.backfill(ORDERS).records == 10
    lake.objects()[0].unlink()
    lake.add(str(ORDERS), 5)
    done = tables.backfill(ORDERS)
    assert (done.records, done.removed_before) == (5, {0: 40})
    assert offsets(tables) == list(range(40, 55))


def test_old_snapshots_show_the_table_as_it_was_until_they_expire(
    lake: LakeFolder, tables: Tables
) -> None:
    for count in (10, 20, 30):
        lake.add(str(ORDERS), count)
        tables.backfill(ORDERS)
    snapshots = table_of(tables).snapshots()
    counts = [len(offsets(tables, snapshot_id=each.snapshot_id)) for each in snapshots]
    assert counts == [10, 30, 60]
    assert tables.expire(ORDERS, RealClock().wall_us() + 1_000_000) == 2
    assert tables.describe(ORDERS).snapshots == 1
    assert len(lake.objects()) == 3
    assert len(offsets(tables)) == 60
    assert tables.backfill(ORDERS).commits == 0


def test_files_are_excluded_by_offset_time_and_partition(lake: LakeFolder, tables: Tables) -> None:
    for _ in range(4):
        lake.add("/default/orders-part-0", 50)
    lake.add("/default/orders-part-1", 50)
    tables.backfill(ORDERS)

    def files(where: str) -> int:
        return len(list(table_of(tables).scan(row_filter=where).plan_files()))

    assert files("offset >= 150") == 1
    assert files("partition = 1") == 1
    assert files("publish_time < '2026-05-01T12:00:30+00:00'") == 2
    assert offsets(tables, row_filter="offset >= 190") == list(range(190, 200))


def test_a_gap_between_objects_is_reported_and_not_skipped(
    lake: LakeFolder, tables: Tables
) -> None:
    for _ in range(3):
        lake.add(str(ORDERS), 10)
    middle = lake.objects()[1]
    away = middle.rename(lake.root / "away")
    assert tables.backfill(ORDERS).gaps == (Gap(0, 10, 20),)
    assert offsets(tables) == list(range(10))
    away.rename(middle)
    assert tables.backfill(ORDERS).gaps == ()
    assert offsets(tables) == list(range(30))


def test_the_first_object_is_added_also_if_it_arrives_after_the_second(
    lake: LakeFolder, tables: Tables
) -> None:
    for _ in range(2):
        lake.add(str(ORDERS), 10)
    first = lake.objects()[0]
    away = first.rename(lake.root / "away")
    tables.backfill(ORDERS)
    assert offsets(tables) == list(range(10, 20))
    away.rename(first)
    assert tables.backfill(ORDERS).records == 10
    assert offsets(tables) == list(range(20))


def test_a_snapshot_that_becomes_the_current_one_does_not_expire(
    lake: LakeFolder, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        lake.add(str(ORDERS), 10)
        tables.backfill(ORDERS)
    commit = type(tables._catalog).commit_table

    def roll_back_first(*arguments: Any) -> Any:
        monkeypatch.undo()
        table = table_of(tables)
        table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
        return commit(*arguments)

    monkeypatch.setattr(type(tables._catalog), "commit_table", roll_back_first)
    with pytest.raises(Unavailable, match="could not be changed"):
        tables.expire(ORDERS, RealClock().wall_us() + 1_000_000)
    assert offsets(tables) == list(range(10))


def test_committers_at_the_same_time_add_each_object_once(
    lake: LakeFolder, make_tables: MakeTables
) -> None:
    for _ in range(12):
        lake.add(str(ORDERS), 5)
    make_tables().backfill(ORDERS)
    for _ in range(12):
        lake.add(str(ORDERS), 5)
    failures: list[BaseException] = []
    start = threading.Barrier(3)

    def commit() -> None:
        tables = make_tables()
        start.wait()
        try:
            tables.backfill(ORDERS)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=commit) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert offsets(make_tables()) == list(range(120))


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_commit_whose_answer_is_lost_is_neither_repeated_nor_missing(
    lake: LakeFolder, tables: Tables, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    lake.add(str(ORDERS), 10)
    tables.backfill(ORDERS)
    lake.add(str(ORDERS), 10)
    commit = type(tables._catalog).commit_table
    calls = 0

    def lossy(self: Catalog, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1 and lost == "before":
            raise ConnectionError("reset")
        answer = commit(self, *arguments)
        if calls == 1:
            raise ConnectionError("reset")
        return answer

    monkeypatch.setattr(type(tables._catalog), "commit_table", lossy)
    assert tables.backfill(ORDERS).conflicts == 1
    assert offsets(tables) == list(range(20))
    shown = tables.describe(ORDERS)
    assert (shown.commits, shown.conflicts) == (2, lost == "before")


def test_after_a_rollback_the_table_takes_the_same_objects_again(
    lake: LakeFolder, tables: Tables
) -> None:
    for count in (10, 20):
        lake.add(str(ORDERS), count)
        tables.backfill(ORDERS)
    table = table_of(tables)
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
    assert len(offsets(tables)) == 10
    assert tables.backfill(ORDERS).records == 20
    assert offsets(tables) == list(range(30))


def test_after_a_snapshot_of_somebody_else_the_files_say_what_the_table_has(
    lake: LakeFolder, tables: Tables
) -> None:
    lake.add("/default/orders-part-0", 10)
    lake.add("/default/orders-part-1", 10)
    tables.backfill(ORDERS)
    with table_of(tables).transaction() as change:
        change.update_snapshot().fast_append().commit()
    snapshot = table_of(tables).current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    assert snapshot.summary.get("sulina.extents") is None
    lake.add("/default/orders-part-1", 5)
    assert tables.backfill(ORDERS).records == 5
    assert tables.describe(ORDERS).partitions == {0: Extent(0, 10), 1: Extent(0, 15)}


def test_a_table_is_made_anew_from_the_objects(lake: LakeFolder, tables: Tables) -> None:
    for count in (10, 20):
        lake.add(str(ORDERS), count)
        tables.backfill(ORDERS)
    tables.rebuild(ORDERS)
    assert tables.describe(ORDERS).snapshots == 1
    assert offsets(tables) == list(range(30))
    lake.objects()[0].unlink()
    lake.objects()[0].unlink()
    with pytest.raises(NotFound, match=r"has no objects .* nothing was changed"):
        tables.rebuild(ORDERS)
    assert tables.describe(ORDERS).records == 30


def test_a_catalog_that_several_open_at_once_is_made_for_all(tmp_path: Path) -> None:
    place, failures = LakePlace.parse(str(tmp_path)), list[BaseException]()
    for number in range(5):
        at_once = threading.Barrier(3)

        def make(url: str, at_once: threading.Barrier) -> None:
            at_once.wait()
            try:
                open_catalog(url, place).list_namespaces()
            except BaseException as error:
                failures.append(error)

        url = f"sqlite:///{tmp_path}/{number}.db"
        threads = [threading.Thread(target=make, args=(url, at_once)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_what_does_not_exist_is_told(lake: LakeFolder, tables: Tables, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has no folder ledgers"):
        tables.backfill(ORDERS)
    lake.add("/default/other", 3)
    with pytest.raises(NotFound, match="/default/orders has neither objects"):
        tables.backfill(ORDERS)
    with pytest.raises(NotFound, match="/default/orders has no table in sulina"):
        tables.describe(ORDERS)
    place = LakePlace.parse(str(lake.root))
    for wrong in ("mysql://x", "catalog.db", "sqlite://folder/catalog.db"):
        with pytest.raises(Refused, match="is not a catalog"):
            open_catalog(wrong, place)
    with pytest.raises(Unavailable, match=r"could not be opened: [^:]*: [^:]*connection: [^:]*$"):
        open_catalog("http://127.0.0.1:1", place)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        open_catalog("sqlite:///within/catalog.db", place).create_namespace("there")
    assert (tmp_path / "within" / "catalog.db").exists()
    with pytest.raises(Refused, match="is not a lake"):
        LakePlace.parse("ftp://lake")
    for elsewhere in ("gs://bucket/x", "az://account/container/x"):
        with pytest.raises(Refused, match="cannot be read as tables or with SQL: read them in"):
            LakePlace.parse(elsewhere)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        with pytest.raises(Unavailable, match="the catalog could not be read"):
            Tables(Lake(place), open_catalog("glue:eu-central-1", place)).describe(ORDERS)


def test_two_topics_whose_names_differ_only_for_us_do_not_share_a_table(
    lake: LakeFolder, tables: Tables
) -> None:
    lake.add("/default/a-b", 3)
    lake.add("/default/a_b", 3)
    tables.backfill(TopicName.parse("/default/a-b"))
    with pytest.raises(Refused, match=r"sulina\.default__a_b belongs to /default/a-b"):
        tables.backfill(TopicName.parse("/default/a_b"))
    assert table_name(TopicName.parse("/Shop/Orders-2")) == "shop__orders_2"


def test_many_commits_keep_few_manifests_and_metadata_files(
    lake: LakeFolder, tables: Tables
) -> None:
    for _ in range(45):
        lake.add(str(ORDERS), 2)
        tables.backfill(ORDERS)
    table = table_of(tables)
    snapshot = table.current_snapshot()
    assert snapshot is not None and len(snapshot.manifests(table.io)) < 25
    metadata = [*(lake.root / "iceberg").rglob("*.metadata.json")]
    assert len(metadata) <= 22
    assert offsets(tables) == list(range(90))


def test_duckdb_reads_the_files_that_the_table_names(lake: LakeFolder, tables: Tables) -> None:
    for _ in range(3):
        lake.add(str(ORDERS), 20)
    tables.backfill(ORDERS)
    files = [task.file.file_path for task in table_of(tables).scan().plan_files()]
    found = duckdb.execute(f'select count(*), max("offset") from read_parquet({files})')
    assert found.fetchall() == [(60, 59)]


@pytest.fixture
def in_glue(
    moto: EmulatorServer, lake: LakeFolder, monkeypatch: pytest.MonkeyPatch
) -> tuple[Tables, Any]:
    """The lake in a bucket, with the catalog in Glue."""
    for variable, value in moto.variables.items():
        monkeypatch.setenv(variable, value)
    bucket = boto3.client("s3", "us-east-1")
    bucket.create_bucket(Bucket="iceberg-lake")
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)
    place = LakePlace.parse("s3://iceberg-lake/lake")
    assert (place.endpoint, place.region) == (moto.variables["AWS_ENDPOINT_URL"], "us-east-1")
    return Tables(Lake(place), open_catalog("glue:us-east-1", place)), bucket


def test_glue_has_the_table_of_a_lake_in_s3(in_glue: tuple[Tables, Any], lake: LakeFolder) -> None:
    tables, bucket = in_glue
    for _ in range(2):
        lake.add(str(ORDERS), 10)
    for path in lake.objects():
        key = f"lake/{path.relative_to(lake.root).as_posix()}"
        bucket.put_object(Bucket="iceberg-lake", Key=key, Body=path.read_bytes())
    assert tables.backfill(ORDERS).records == 20
    assert tables.backfill(ORDERS).commits == 0
    assert offsets(tables) == list(range(20))
    entry = boto3.client("glue", "us-east-1").get_table(
        DatabaseName="sulina", Name="default__orders"
    )["Table"]
    assert entry["Parameters"]["table_type"].upper() == "ICEBERG"
    names = [column["Name"] for column in entry["StorageDescriptor"]["Columns"]]
    assert names == table_of(tables).schema().as_arrow().names


def test_commands_show_and_maintain_tables(
    lake: LakeFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        lake.add(str(ORDERS), 10)
    place = ["--lake", str(lake.root), "--catalog", f"sqlite:///{tmp_path}/catalog.db"]

    def run(*arguments: str, code: int = 0) -> str:
        assert run_command(["table", *arguments, *place]) == code
        said = capsys.readouterr()
        return said.out + said.err

    assert "there is no catalog" in run("list", code=1)
    assert "there is no catalog" in run("show", str(ORDERS), code=1)
    assert not (tmp_path / "catalog.db").exists()
    assert "added 2 objects with 20 records" in run("backfill", "--all")
    assert "up to date" in run("backfill", str(ORDERS))
    assert json.loads(run("show", str(ORDERS), "--json"))["partitions"] == {
        "0": {"first": 0, "next": 20, "replaced": ""}
    }
    assert "offsets 0 to 19" in run("show", str(ORDERS))
    assert "default__orders" in run("list")
    assert "has no database other" in run("list", "--database", "other", code=1)
    assert "added 2 objects" in run("rebuild", str(ORDERS), "--yes")
    assert "forgot 0 snapshots" in run("expire", str(ORDERS))
    assert "give topics, or --all" in run("backfill", code=2)
    lake.add(str(ORDERS), 10)
    lake.add(str(ORDERS), 10)
    lake.objects()[2].unlink()
    assert "offsets 20 to 29 are missing" in run("backfill", "--all", code=1)


def typed(*properties: dict[str, Any]) -> TableSchema:
    """The table of the versions of a JSON schema with these properties."""
    versions = [
        SchemaVersion(
            5, number, "json_schema", json.dumps({"type": "object", "properties": each}).encode()
        )
        for number, each in enumerate(properties, 1)
    ]
    found = table_schema(versions)
    assert found is not None
    return found


def test_typed_columns_of_all_versions_are_in_the_table(lake: LakeFolder, tables: Tables) -> None:
    first = {"id": {"type": "integer"}, "old": {"type": "string"}}
    second = {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}}},
        },
    }
    lake.add(str(ORDERS), 2)  # from before the topic had a schema
    tables.backfill(ORDERS)
    payloads = [b'{"id": 1, "old": "x"}', b"not JSON"]
    lake.add(str(ORDERS), 2, payloads=payloads, schema=(5, 1), table=typed(first))
    tables.backfill(ORDERS)
    payloads = [b'{"id": 3, "at": "2026-05-01T12:00:00Z", "lines": [{"sku": "a"}]}']
    lake.add(str(ORDERS), 1, payloads=payloads, schema=(5, 2), table=typed(first, second))
    tables.backfill(ORDERS)
    found = rows(tables, selected_fields=("offset", "value", "value_error"))
    assert [row["value"] and row["value"]["id"] for row in found] == [None, None, 1, None, 3]
    assert [row["value"] and row["value"]["old"] for row in found][2] == "x"
    assert found[4]["value"]["at"] == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert found[4]["value"]["lines"] == [{"sku": "a"}]
    assert [row["value_error"] is None for row in found] == [True, True, True, False, True]
    assert [row["value"]["id"] for row in rows(tables, row_filter="value.id >= 2")] == [3]
    value = table_of(tables).schema().as_arrow().field("value").type
    assert [field.name for field in value] == ["id", "old", "at", "lines"]


def test_a_table_says_how_many_records_read_null_instead_of_a_default(
    lake: LakeFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = {"id": {"type": "integer"}}
    second = first | {"currency": {"type": "string", "default": "EUR"}}
    place = ["--lake", str(lake.root), "--catalog", f"sqlite:///{tmp_path}/catalog.db"]

    def lacking() -> int:
        assert run_command(["table", "backfill", str(ORDERS), *place]) == 0
        told = "`sulina ledger rewrite /default/orders` rewrites" in capsys.readouterr().out
        assert run_command(["table", "list", "--json", *place]) == 0
        [listed] = json.loads(capsys.readouterr().out)
        assert told == (listed["lacking_columns"] > 0)
        assert run_command(["table", "show", str(ORDERS), "--json", *place]) == 0
        return int(json.loads(capsys.readouterr().out)["lacking_columns"])

    lake.add(str(ORDERS), 2)  # from before the topic had a schema
    assert lacking() == 0
    lake.add(str(ORDERS), 3, payloads=[b'{"id": 1}'] * 3, schema=(5, 1), table=typed(first))
    assert lacking() == 2
    table = typed(first, second)
    lake.add(str(ORDERS), 4, payloads=[b'{"id": 2}'] * 4, schema=(5, 2), table=table)
    assert lacking() == 5
    assert run_command(["table", "show", str(ORDERS), *place]) == 0
    assert "`sulina ledger rewrite /default/orders` rewrites" in capsys.readouterr().out


def test_the_page_on_tables_runs_as_it_is_written(lake: LakeFolder, tmp_path: Path) -> None:
    lake.add(str(ORDERS), 1100)
    lake.add("/default/customers", 10)
    place = {"SULINA_TIER": "lake", "SULINA_CATALOG": f"sqlite:///{tmp_path}/lake/catalog.db"}
    found = [each for each in blocks(ROOT / "docs/tables.md") if each.language in PROGRAMS]
    programs = [each for each in found if not each.note]
    assert len(programs) == 4
    for block in programs:
        ran = subprocess.run(
            [*PROGRAMS[block.language], block.text],
            cwd=tmp_path,
            env={
                **os.environ,
                **place,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr


PROGRAMS = {"sh": ["bash", "-ec"], "python": [sys.executable, "-c"]}


def test_tables_have_the_types_of_the_objects(lake: LakeFolder, tables: Tables) -> None:
    lake.add(str(ORDERS), 3)
    tables.backfill(ORDERS)
    schema = table_of(tables).schema().as_arrow()
    assert schema.field("publish_time").type == pa.timestamp("us", tz="UTC")
    assert schema.field("payload").type in (pa.binary(), pa.large_binary())
