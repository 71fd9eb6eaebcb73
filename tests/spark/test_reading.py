"""The data source reads what is in the objects, no more and no less, and tells what is wrong.

What does not need Spark is tested without it: planning and reading are plain objects.
"""

from __future__ import annotations

import json
from dataclasses import make_dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import emr_jobs
from emr_jobs.source.batch import BatchReader, SlicesPartition
from emr_jobs.source.columns import default_schema
from emr_jobs.source.datasource import SulinaDataSource
from emr_jobs.source.footers import Footer
from emr_jobs.source.objects import ObjectCandidate
from emr_jobs.source.options import END, parse_options
from emr_jobs.source.planning import plan as partitions_of
from emr_jobs.source.storage import LakeObject, LakeStorage
from sulina.errors import CorruptEntry, NotFound, Refused
from sulina.lake.layout import ObjectName
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.lake.typed.table import table_schema
from tests.spark.lake_folder import NOON, LakeFolder, key_of, payload_of, time_of

ORDERS = "/default/orders"


def texts(lake: LakeFolder, **options: Any) -> dict[str, str]:
    given = {"path": lake.root, "topic": ORDERS, **options}
    return {name: str(value) for name, value in given.items()}


def load(spark: SparkSession, lake: LakeFolder, **options: Any) -> DataFrame:
    return spark.read.format("sulina").options(**texts(lake, **options)).load()


def plan(lake: LakeFolder, **options: Any) -> tuple[BatchReader, list[SlicesPartition]]:
    """The reader as Spark makes it, and its plan."""
    source = SulinaDataSource(texts(lake, **options))
    reader = source.reader(source.schema())
    partitions = list(reader.partitions())
    assert all(isinstance(each, SlicesPartition) for each in partitions)
    return reader, partitions  # type: ignore[return-value]


def read(lake: LakeFolder, **options: Any) -> pa.Table:
    """All rows, without Spark."""
    reader, partitions = plan(lake, **options)
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    return pa.Table.from_batches(batches) if batches else pa.table({"offset": []})


def offsets(lake: LakeFolder, **options: Any) -> list[int]:
    found: list[int] = read(lake, **options).column("offset").to_pylist()
    return found


# ---- through Spark ----


def test_all_records_come_with_all_their_columns(spark: SparkSession, lake: LakeFolder) -> None:
    lake.add(ORDERS, 120)
    lake.add(ORDERS, 80)
    rows = load(spark, lake).orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(200))
    assert [bytes(row.payload) for row in rows] == [payload_of(offset) for offset in range(200)]
    assert [row.key and bytes(row.key) for row in rows] == [key_of(offset) for offset in range(200)]
    assert rows[3].attributes == {"source": "web", "n": "3"} and rows[4].attributes is None
    assert [round(row.publish_time.timestamp() * 1e6) for row in rows[:2]] == [NOON, time_of(1)]
    assert (rows[0].namespace, rows[0].topic, rows[0].partition) == ("default", "orders", 0)


def test_native_parquet_and_duckdb_read_the_same_records(
    spark: SparkSession, lake: LakeFolder
) -> None:
    lake.add("/default/orders-part-0", 60)
    lake.add("/default/orders-part-1", 30)
    ours = load(spark, lake, startOffset=10, columns="partition,offset,payload").collect()
    options = texts(lake, startOffset=10, columns="partition,offset,payload")
    native = emr_jobs.native(spark, **options).collect()
    plain = spark.read.parquet(str(lake.root / "ledgers")).where("offset >= 10")
    strangers = duckdb.execute(
        f"SELECT partition, \"offset\", payload FROM read_parquet('{lake.root}/**/*.parquet', "
        'hive_partitioning = true) WHERE "offset" >= 10'
    ).fetchall()
    wanted = sorted(map(tuple, ours))
    assert len(wanted) == 70
    assert sorted(map(tuple, native)) == wanted
    assert sorted(map(tuple, plain.select("partition", "offset", "payload").collect())) == wanted
    assert sorted(strangers) == wanted


def test_a_schema_given_by_the_user_selects_columns_and_casts_them(
    spark: SparkSession, lake: LakeFolder
) -> None:
    lake.add(ORDERS, 20)
    reader = spark.read.format("sulina").options(**texts(lake)).schema("payload STRING, offset INT")
    rows = reader.load().where("offset = 7").collect()
    assert [tuple(row) for row in rows] == [(payload_of(7).decode(), 7)]


def test_a_mistake_is_told_as_a_sentence_through_spark(
    spark: SparkSession, lake: LakeFolder
) -> None:
    with pytest.raises(PySparkException, match="unknown option 'topics'"):
        load(spark, lake, topics="/default/orders")


# ---- choosing ----


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"startOffset": 95, "endOffset": 105}, range(95, 105)),
        ({"startOffset": 100}, range(100, 300)),
        ({"endOffset": 1}, range(1)),
        ({"startTime": "2026-05-01T12:01:00Z", "endTime": "2026-05-01T12:03:20"}, range(60, 200)),
        ({"startTime": NOON / 1e6 + 250, "endOffset": 260}, range(250, 260)),
        ({"startOffset": 300}, range(0)),
    ],
)
def test_bounds_choose_exactly_the_records_within_them(
    lake: LakeFolder, options: dict[str, Any], wanted: range
) -> None:
    for _ in range(3):
        lake.add(ORDERS, 100)
    assert offsets(lake, **options) == list(wanted)
    assert emr_jobs.count(**texts(lake, **options)) == len(wanted)


def test_objects_outside_of_the_bounds_are_not_planned(lake: LakeFolder) -> None:
    for _ in range(5):
        lake.add(ORDERS, 100)
    _, by_offset = plan(lake, startOffset=150, endOffset=250)
    _, by_time = plan(lake, startTime=time_of(420) / 1e6)
    assert [each.found.name.first_offset for each in by_offset[0].slices] == [100, 200]
    assert [each.found.name.first_offset for each in by_time[0].slices] == [400]


@pytest.mark.parametrize("seed", range(5))
def test_times_that_rise_but_for_a_skew_are_found_by_few_footers(
    lake: LakeFolder, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    for minute in range(100):
        lake.add(ORDERS, 1, time_us=NOON + (minute * 60 + random.randint(-90, 90)) * 1_000_000)
    lake.age(3600)
    first = random.randrange(90)
    times = {"startTime": NOON / 1e6 + first * 60, "endTime": NOON / 1e6 + (first + 5) * 60}
    wanted = offsets(lake, **times)
    looks: list[str] = []
    tail = LakeStorage.tail

    def counted(storage: LakeStorage, key: str, *range_: int) -> bytes:
        looks.append(key)
        return tail(storage, key, *range_)

    monkeypatch.setattr(LakeStorage, "tail", counted)
    plan(lake, **times)
    assert len(looks) == 100
    looks.clear()
    plan(lake, **times, clockSkewSeconds=180)
    assert len(looks) <= 2 * 7 + 5 + 2 * 6
    assert offsets(lake, **times, clockSkewSeconds=180) == wanted


def test_a_topic_is_a_name_a_list_or_a_pattern(lake: LakeFolder) -> None:
    for topic in ("/default/orders-part-0", "/default/orders-part-1", "/default/others", "/x/y"):
        lake.add(topic, 5)

    def topics(pattern: str) -> set[tuple[str, int]]:
        rows = read(lake, topic=pattern).to_pylist()
        return {(row["topic"], row["partition"]) for row in rows}

    assert topics(ORDERS) == {("orders", 0), ("orders", 1)}
    assert topics("/default/orders-part-1") == {("orders", 1)}
    assert topics("/default/o*") == {("orders", 0), ("orders", 1), ("others", 0)}
    assert topics("/default/others, /x/y") == {("others", 0), ("y", 0)}
    assert topics("/*/y") == {("y", 0)}


def test_a_lake_or_topic_that_does_not_exist_is_an_error_that_says_what_is_missing(
    lake: LakeFolder,
) -> None:
    with pytest.raises(NotFound, match=r"lake does not exist: check the path"):
        emr_jobs.count(**texts(lake))
    lake.root.mkdir()
    with pytest.raises(NotFound, match="has no folder ledgers, so no ledger was ever tiered there"):
        emr_jobs.count(**texts(lake))
    lake.add(ORDERS, 10)
    for topics, missing in (
        ("/default/order", "/default/order"),
        (f"{ORDERS}, /default/other", "/default/other"),
        ("/default/orders-part-1", "/default/orders-part-1"),
        ("/other/*", r"/other/\*"),
    ):
        with pytest.raises(NotFound, match=f"^{missing} has no objects in "):
            offsets(lake, topic=topics)
        with pytest.raises(NotFound, match=f"^{missing} has no objects in "):
            emr_jobs.count(**texts(lake, topic=topics))


def test_a_topic_without_objects_is_an_empty_table_if_the_caller_allows_it(
    lake: LakeFolder,
) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        emr_jobs.count(**texts(lake, allowEmpty="true"))
    lake.root.mkdir()
    assert offsets(lake, allowEmpty="true") == []
    assert emr_jobs.count(**texts(lake, allowEmpty="true")) == 0
    with pytest.raises(Refused, match="allowEmpty must be true or false, not 'yes'"):
        offsets(lake, allowEmpty="yes")


def test_small_objects_share_partitions_and_large_ones_are_cut_at_row_groups(
    lake: LakeFolder,
) -> None:
    for _ in range(40):
        lake.add(ORDERS, 10)
    _, small = plan(lake)
    assert len(small) == 1
    lake.add("/default/large", 3000)
    size = lake.objects("large")[0].stat().st_size
    reader, large = plan(lake, topic="/default/large", partitionBytes=size // 12)
    assert len(large) > 3
    read_back = [
        row for each in large for batch in reader.read(each) for row in batch.column(3).to_pylist()
    ]
    assert read_back == list(range(3000))


@pytest.mark.parametrize(
    ("objects", "tasks"), [(4, [1, 1, 1, 1]), (13, [3, 3, 4, 3]), (32, [4] * 8)]
)
def test_tasks_have_one_size_so_that_no_core_is_idle_at_the_end(
    objects: int, tasks: list[int]
) -> None:
    size = 13 << 20
    wanted = [
        ObjectCandidate(LakeObject(ObjectName("default", "orders", 0, at * 10, at), size), None)
        for at in range(objects)
    ]
    planned = partitions_of([(each, 0, END) for each in wanted], 64 << 20, _no_footer)
    assert [slice_.found for each in planned for slice_ in each] == [each.found for each in wanted]
    assert [len(each) for each in planned] == tasks


def _no_footer(candidate: ObjectCandidate) -> Footer:
    raise AssertionError(f"nothing has to be cut, and {candidate} was looked at")


# ---- what is wrong ----


def test_batches_of_large_payloads_have_fewer_records(tmp_path: Path) -> None:
    lake = LakeFolder(tmp_path, row_group_bytes=64 << 20)
    lake.add(ORDERS, 40, payloads=[bytes([number]) * (1 << 20) for number in range(40)])
    reader, (partition,) = plan(lake, columns="offset,payload")
    batches = list(reader.read(partition))
    assert [row for batch in batches for row in batch["offset"].to_pylist()] == list(range(40))
    assert max(batch.nbytes for batch in batches) < 40 << 20
    assert len(batches) > 1


def test_columns_that_every_record_has_are_never_null_to_spark() -> None:
    fields = default_schema()
    assert [field.name for field in fields if field.nullable] == [
        "key",
        "payload",
        "attributes",
        "delivery_time",
    ]


def test_a_gap_between_objects_ends_the_read_with_what_is_missing(lake: LakeFolder) -> None:
    for _ in range(3):
        lake.add(ORDERS, 50)
    lake.objects()[1].unlink()
    with pytest.raises(Refused, match="records 50 to 99 of /default/orders are missing"):
        read(lake, gapSeconds=0)
    lake.age(3600)
    with pytest.raises(Refused, match="records 50 to 99 of /default/orders are missing"):
        read(lake)


def test_a_read_ends_before_an_object_that_is_still_on_its_way_and_says_so(
    lake: LakeFolder, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        lake.add(ORDERS, 50)
    lake.add("/default/others", 10)
    late = lake.objects("orders")[3]
    data = late.read_bytes()
    late.unlink()
    assert offsets(lake) == list(range(150))
    assert "reading /default/orders partition 0 only up to offset 150" in caplog.text
    assert len(offsets(lake, topic="/default/*")) == 160
    assert emr_jobs.count(**texts(lake)) == 150
    late.write_bytes(data)
    assert offsets(lake) == list(range(250))


def test_a_damaged_object_is_never_read_as_if_it_were_whole(lake: LakeFolder) -> None:
    lake.add(ORDERS, 50)
    [path] = lake.objects()
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptEntry):
        read(lake)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"topic": ""}, "option topic is missing"),
        ({"topic": "orders"}, "is not a topic name"),
        ({"bucket": "b"}, "set where the objects are"),
        ({"startOffset": "first"}, "startOffset must be an offset"),
        ({"startOffset": 5, "endOffset": 4}, "the start is after the end"),
        ({"startTime": "noon"}, "is not a time"),
        ({"columns": "offset,colour"}, "there is no column 'colour'"),
        ({"payload": "xml"}, "payload must be json, avro or protobuf"),
        ({"payload": "json"}, "typed payloads need a schema"),
        ({"partitionBytes": "-1"}, "partitionBytes must be a number"),
        ({"colour": "red"}, "unknown option 'colour'"),
    ],
)
def test_wrong_options_are_refused_with_the_remedy(
    lake: LakeFolder, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(Refused, match=told):
        SulinaDataSource(texts(lake, **options)).schema()


def test_frames_are_read_only_if_they_are_asked_for(lake: LakeFolder) -> None:
    lake.add(ORDERS, 60)
    assert "frame" not in default_schema().fieldNames()
    rows = read(lake, columns="offset,frame")
    assert [offset for offset, frame in zip(*rows.columns, strict=True) if frame.is_valid] == [
        pa.scalar(0),
        pa.scalar(50),
    ]


def test_options_are_known_whatever_their_case(lake: LakeFolder) -> None:
    given = {"PATH": str(lake.root), "Topic": ORDERS, "startoffset": "3"}
    assert parse_options(given).bounds.start_offset == 3


def _told(name: str, column: str, value: Any) -> Any:
    """A filter as Spark 4.1 tells it; this version has no such classes."""
    return make_dataclass(name, ["attribute", "value"])((column,), value)


def test_filters_that_spark_tells_narrow_what_is_read(lake: LakeFolder) -> None:
    for number in range(3):
        for _ in range(3):
            lake.add(f"{ORDERS}-part-{number}", 10)
    source = SulinaDataSource(texts(lake))
    reader = source.reader(source.schema())
    noon = datetime.fromtimestamp(NOON / 1e6, UTC)
    filters = [
        _told("In", "partition", (1, 2, 7)),
        _told("EqualTo", "partition", 2),
        _told("GreaterThan", "offset", 4),
        _told("LessThanOrEqual", "offset", 17),
        _told("LessThan", "publish_time", noon + timedelta(seconds=12)),
        _told("EqualTo", "key", b"k1"),
        _told("StringContains", "producer", "p"),
    ]
    assert reader.pushFilters(filters) == filters
    (partition,) = reader.partitions()
    assert isinstance(partition, SlicesPartition)
    assert [each.found.name.first_offset for each in partition.slices] == [0, 10]
    table = pa.Table.from_batches(list(reader.read(partition)))
    assert table.column("offset").to_pylist() == list(range(5, 12))
    reader.pushFilters([_told("EqualTo", "offset", 3)])  # contradicts the others
    assert not any(list(reader.read(each)) for each in reader.partitions())


def test_native_reads_typed_columns_where_objects_have_them(
    spark: SparkSession, lake: LakeFolder
) -> None:
    properties = {"id": {"type": "integer"}, "note": {"type": "string"}}
    versions = []
    for number, names in enumerate((["id"], ["id", "note"]), 1):
        schema = {"type": "object", "properties": {name: properties[name] for name in names}}
        versions.append(SchemaVersion(7, number, "json_schema", json.dumps(schema).encode()))
    lake.add(ORDERS, 2)
    assert "value" not in emr_jobs.native(spark, path=lake.root, topic=ORDERS).columns
    lake.add(ORDERS, 2, table=table_schema(versions[:1]))
    lake.add(ORDERS, 2, table=table_schema(versions))
    rows = emr_jobs.native(spark, path=lake.root, topic=ORDERS).orderBy("offset")
    assert [tuple(row) for row in rows.select("value.id", "value.note").collect()] == [
        *[(None, None)] * 2,
        *[(offset, None) for offset in (2, 3)],
        *[(offset, f"n{offset}") for offset in (4, 5)],
    ]
    assert rows.where("value_error IS NOT NULL").count() == 0
