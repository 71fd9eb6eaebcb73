"""Each job does its work on real Spark, tells it as JSON, and fails loudly where it should."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sulina
from emr_jobs.jobs import compaction, erase, ledger_audit, replay_query, topic_statistics
from emr_jobs.jobs.auditing import audit_object
from emr_jobs.source.objects import list_parts
from emr_jobs.source.options import ReadBounds, ReadOptions, StoreLocation, TopicPatterns
from emr_jobs.source.storage import LakeStorage
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.lake.typed.table import table_schema
from tests.spark.lake_folder import NOON, LakeFolder, key_of
from tests.support.server import SulinaProcess

ORDERS = "/default/orders"
Audited = list[dict[str, Any]]


def result(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What a job wrote to standard output."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def source(lake: LakeFolder, topic: str = ORDERS) -> list[str]:
    return ["--path", str(lake.root), "--topic", topic]


# ---- statistics ----


def test_statistics_count_records_sizes_and_keys_by_window(
    spark: SparkSession, lake: LakeFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.add(ORDERS, 60, payloads=[b"x" * 10] * 59 + [b"x" * 1000])
    lake.add(ORDERS, 30, payloads=[b"x" * 10] * 30)
    output, chart = tmp_path / "windows", tmp_path / "chart.png"
    more = ["--window", "1 minute", "--top", "2", "--output", str(output), "--chart", str(chart)]
    assert topic_statistics.main([*source(lake), *more]) == 0
    told = result(capsys)
    assert (told["records"], told["bytes"]) == (90, 89 * 10 + 1000)
    first, second = told["windows"]
    assert (first["topic"], first["records"], second["records"]) == (ORDERS, 60, 30)
    assert (first["records_per_second"], first["size_p50"], first["size_max"]) == (1.0, 10, 1000)
    counts = [sum(key_of(n) == b"k%d" % k for n in range(90)) for k in range(7)]
    assert [each["records"] for each in told["top_keys"]] == sorted(counts, reverse=True)[:2]
    assert pq.read_table(output).num_rows == 2
    assert chart.read_bytes().startswith(b"\x89PNG")


def test_statistics_never_count_more_keys_than_records(
    spark: SparkSession, lake: LakeFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    for count in (3, 17, 60, 150, 400):
        lake.add(ORDERS, count, time_us=NOON + count * 3_600_000_000)
    frame = spark.read.format("sulina").options(path=str(lake.root), topic=ORDERS).load()
    unique = frame.withColumn("key", frame["offset"].cast("string").cast("binary"))
    rows = topic_statistics.by_window(unique, "1 hour").collect()
    assert [row["records"] for row in rows] == [3, 17, 60, 150, 400]
    assert all(row["keys"] <= row["records"] for row in rows)


def test_a_chart_is_at_zero_where_a_topic_has_no_records() -> None:
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    hour = timedelta(hours=1)

    def window(at: int, rate: float) -> dict[str, Any]:
        start = noon + at * hour
        return {"start": start, "end": start + hour, "records_per_second": rate}

    points = topic_statistics.line([window(at, 5.0) for at in (0, 1, 3, 7)])
    hours = [((when - noon) // hour, rate) for when, rate in points]
    assert hours == [(0, 5.0), (1, 5.0), (2, 0.0), (3, 5.0), (4, 0.0), (6, 0.0), (7, 5.0)]


@pytest.mark.parametrize("window", ["hour", "1 month", "-1 hour", "0 hours", "5 minutos", ""])
def test_a_window_that_is_not_a_length_of_time_is_an_invalid_argument(
    lake: LakeFolder, window: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        topic_statistics.main([*source(lake), f"--window={window}"])
    assert ended.value.code == 2
    assert "write a number and a unit, such as '5 minutes'" in capsys.readouterr().err


def test_times_are_told_in_utc_wherever_the_job_runs(
    spark: SparkSession,
    lake: LakeFolder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake.add(ORDERS, 10)
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert topic_statistics.main(source(lake)) == 0
    finally:
        monkeypatch.undo()
        time.tzset()
    [window] = result(capsys)["windows"]
    assert window["start"] == "2026-05-01 12:00:00+00:00"
    assert window["end"] == "2026-05-01 13:00:00+00:00"


# ---- audit ----


def audit(lake: LakeFolder, late_us: int = 300_000_000) -> dict[str, Any]:
    """The audit without Spark: the same two steps."""
    storage = LakeStorage(StoreLocation(str(lake.root)))
    names = [part.strip() for part in _COLUMNS.split(",")]
    rows: Audited = []
    for objects in list_parts(storage, TopicPatterns(("/default/*",))).values():
        newest = 0
        for each in objects:
            rows.append(dict(zip(names, audit_object(storage, each, newest, late_us), strict=True)))
    return ledger_audit.judge(rows, late_is_fault=True)


_COLUMNS = "object,topic,partition,first,end,records,late,readable,faults,sequences"


def kinds(report: dict[str, Any]) -> list[str]:
    return [each["kind"] for each in report["details"]]


def test_an_audit_of_sound_ledgers_finds_nothing_and_of_a_planted_fault_exits_with_1(
    spark: SparkSession, lake: LakeFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    for count in (120, 5, 60):
        lake.add(ORDERS, count)
    assert ledger_audit.main(source(lake)) == 0
    told = result(capsys)
    assert (told["objects"], told["records"], told["faults"]) == (3, 185, 0)
    lake.objects()[1].unlink()
    assert ledger_audit.main(source(lake)) == 1
    assert "records 120 to 124" in result(capsys)["details"][0]["what"]


@pytest.mark.parametrize("job", [topic_statistics, ledger_audit, compaction, replay_query])
def test_a_job_on_a_topic_that_does_not_exist_exits_with_2(
    spark: SparkSession,
    lake: LakeFolder,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    job: Any,
) -> None:
    lake.add(ORDERS, 5)
    more = {
        compaction: ["--table", str(tmp_path / "table")],
        replay_query: ["--query", "SELECT payload FROM records", *_REPLAY[2:]],
    }.get(job, [])
    assert job.main([*source(lake, "/default/order"), *more]) == 2
    said = capfd.readouterr()
    assert "error: /default/order has no objects" in said.err
    assert said.out == ""
    assert len(said.err) < 10_000  # Spark's own lines, but not its error as JSON


def test_an_audit_of_nothing_succeeds_if_the_caller_allows_it(
    spark: SparkSession, lake: LakeFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.root.mkdir()
    assert ledger_audit.main([*source(lake, "/*"), "--allow-empty"]) == 0
    assert result(capsys)["objects"] == 0


def test_an_audit_takes_no_clock_skew_since_it_looks_at_everything(lake: LakeFolder) -> None:
    with pytest.raises(SystemExit) as ended:
        ledger_audit.main([*source(lake), "--clock-skew-seconds", "60"])
    assert ended.value.code == 2


def test_an_audit_sees_bytes_that_changed(lake: LakeFolder) -> None:
    lake.add(ORDERS, 200)
    [path] = lake.objects()
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 1
    path.write_bytes(data)
    assert kinds(audit(lake)) == ["damaged"]


def test_an_audit_sees_a_record_that_was_changed_by_someone_who_knows_parquet(
    lake: LakeFolder,
) -> None:
    lake.add(ORDERS, 50)
    [path] = lake.objects()
    table = pq.read_table(path, partitioning=None)
    metadata = pq.read_metadata(path).metadata
    payloads = table.column("payload").to_pylist()
    payloads[17] = b"forged"
    table = table.set_column(5, table.schema.field(5), pa.array(payloads, pa.binary()))
    kept = {key: value for key, value in metadata.items() if key.startswith(b"sulina.")}
    pq.write_table(table.replace_schema_metadata(kept), path, store_schema=False)
    assert kinds(audit(lake)) == ["damaged"]


def test_an_audit_sees_objects_that_overlap(lake: LakeFolder) -> None:
    lake.add(ORDERS, 50)
    lake.ends[ORDERS] = 40
    lake.add(ORDERS, 20)
    assert "repeat" in kinds(audit(lake))


def test_an_audit_sees_a_producers_records_that_were_stored_twice(lake: LakeFolder) -> None:
    lake.add(ORDERS, 50)
    report = ledger_audit.judge(
        [
            _object("a", 0, 50, [("p", 0, 49)]),
            _object("b", 50, 60, [("p", 50, 54), ("p", 45, 49)]),
        ],
        late_is_fault=True,
    )
    assert kinds(report) == ["repeat"]
    assert "sequence numbers 45 to 49 occur twice" in report["details"][0]["what"]


def test_an_audit_of_a_time_has_no_gaps_where_times_jump(lake: LakeFolder) -> None:
    for time_us in (NOON, NOON - 7_200_000_000, NOON + 60_000_000, NOON + 7_200_000_000):
        lake.add(ORDERS, 10, time_us=time_us)
    location = StoreLocation(str(lake.root))
    bounds = ReadBounds(start_time=NOON, end_time=NOON + 3_600_000_000)
    chosen = ledger_audit.spans(
        LakeStorage(location), ReadOptions(location, TopicPatterns((ORDERS,)), bounds)
    )
    assert [each.found.name.first_offset for each in chosen] == [0, 10, 20]


def test_an_audit_counts_late_records(lake: LakeFolder) -> None:
    lake.add(ORDERS, 50)
    lake.add(ORDERS, 50, time_us=NOON - 3_600_000_000)
    storage = LakeStorage(StoreLocation(str(lake.root)))
    [objects] = list_parts(storage, TopicPatterns((ORDERS,))).values()
    late = audit_object(storage, objects[1], NOON, 300_000_000)[6]
    assert late == 50


def _object(
    key: str, first: int, end: int, sequences: list[tuple[str, int, int]]
) -> dict[str, Any]:
    row: tuple[Any, ...] = (key, ORDERS, 0, first, end, end - first, 0, True, [], sequences)
    return dict(zip(_COLUMNS.split(","), row, strict=True))


# ---- compaction ----


def test_compaction_adds_each_record_once_over_runs_and_failures(
    spark: SparkSession, lake: LakeFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table"
    arguments = [*source(lake), "--table", str(table)]
    for _ in range(3):
        lake.add(ORDERS, 10)
    assert compaction.main(arguments) == 0
    assert result(capsys)["records"] == 30
    assert compaction.main(arguments) == 0
    assert result(capsys)["records"] == 0
    lake.add(ORDERS, 15)
    # A run that ended before its record was written: its data is there, and does not count.
    lost = table / "data" / "run=00000001" / "namespace=default" / "topic=orders"
    lost.mkdir(parents=True)
    compacted = sorted((table / "data" / "run=00000000").rglob("*.parquet"))
    (lost / "part.parquet").write_bytes(compacted[0].read_bytes())
    assert compaction.main(arguments) == 0
    assert result(capsys)["topics"] == {f"{ORDERS} partition 0": [30, 45]}
    rows = pq.read_table(table / "data", columns=["offset", "date", "topic"]).to_pylist()
    assert sorted(row["offset"] for row in rows) == list(range(45))
    assert {(str(row["topic"]), str(row["date"])) for row in rows} == {("orders", "2026-05-01")}
    assert len(compacted) == 1
    written = pq.read_schema(compacted[0]).field("publish_time").type
    assert written == pa.timestamp("us", tz="UTC")
    assert pq.ParquetFile(compacted[0]).metadata.row_group(0).column(0).statistics is not None


def test_topics_with_and_without_typed_columns_are_compacted_into_one_table(
    spark: SparkSession, lake: LakeFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    definition = b'{"properties": {"id": {"type": "integer"}}}'
    typed = table_schema((SchemaVersion(1, 1, "json_schema", definition),))
    lake.add(ORDERS, 10)
    lake.add("/default/typed", 5, table=typed)
    table = tmp_path / "table"
    assert compaction.main([*source(lake, "/default/*"), "--table", str(table)]) == 0
    assert result(capsys)["records"] == 15
    rows = pq.read_table(table / "data")
    assert len(rows) == 15 and "payload" in rows.schema.names
    assert not {"value", "value_error"} & set(rows.schema.names)  # each topic has others


# ---- replay ----


def test_a_query_is_replayed_into_a_topic_once(
    spark: SparkSession,
    lake: LakeFolder,
    shared_sulina_process: SulinaProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lake.add(ORDERS, 30)
    lake.add(ORDERS, 1, payloads=[b"not JSON"])
    schema = '{"type": "object", "properties": {"id": {"type": "integer"}}}'
    arguments = [
        *(*source(lake), "--payload", "json", "--payload-schema", schema),
        *("--query", "SELECT value.id AS id, key FROM records WHERE value.id % 2 = 0"),
        *("--url", shared_sulina_process.url, "--to", "/default/replayed"),
        *("--producer", "fix-1", "--order-by", "id"),
    ]
    assert replay_query.main(arguments) == 2
    assert "--on-bad-payload null" in capsys.readouterr().err
    for _ in range(2):
        assert replay_query.main([*arguments, "--on-bad-payload", "null"]) == 0
        assert result(capsys)["records"] == 15

    async def read() -> list[int]:
        async with sulina.connect(shared_sulina_process.url) as client:
            found = await client.read("/default/replayed", sulina.Start.earliest())
            return [json.loads(body)["id"] for batch in found for body in batch.payloads]

    assert asyncio.run(read()) == list(range(0, 30, 2))


# ---- what people see ----


def test_help_has_examples_and_mistakes_are_sentences(
    lake: LakeFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    for job in (topic_statistics, ledger_audit, compaction, erase, replay_query):
        with pytest.raises(SystemExit) as ended:
            job.main(["--help"])
        assert ended.value.code == 0
        assert f"python -m {job.__name__}" in capsys.readouterr().out.partition("examples:")[2]
    file = subprocess.run(  # as spark-submit runs it
        [sys.executable, replay_query.__file__, "--help"], capture_output=True, text=True
    )
    assert file.stdout.startswith("usage: python -m emr_jobs.jobs.replay_query")
    assert ledger_audit.main(source(lake, "orders")) == 2
    assert "is not a topic name" in capsys.readouterr().err
    assert replay_query.main([*source(lake), *_REPLAY, "--producer", "x"]) == 2
    assert "--producer needs --order-by" in capsys.readouterr().err


_REPLAY = ["--query", "SELECT 1", "--url", "sulina://127.0.0.1:1", "--to", "/a/b"]


# ---- erase ----


def test_records_that_a_condition_finds_are_erased_and_the_unjudged_counted(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lake").mkdir()
    tier = ("--tier", f"file://{tmp_path}/lake", "--tier-local", "0")
    schema = '{"type": "object", "properties": {"id": {"type": "integer"}}}'

    async def publish(url: str) -> None:
        async with sulina.connect(url) as client, client.producer(ORDERS) as producer:
            await producer.send_many([b'{"id": %d}' % number for number in range(10)])
            await producer.send(b"no JSON")

    async def read(url: str) -> list[bytes]:
        async with sulina.connect(url) as client:
            found = await client.read(ORDERS, sulina.Start.earliest())
            return [bytes(body) for batch in found for body in batch.payloads]

    with SulinaProcess(tmp_path / "data", *tier) as broker:
        asyncio.run(publish(broker.url))
        arguments = [
            *("--path", str(tmp_path / "lake"), "--topic", ORDERS, "--url", broker.url),
            *("--payload", "json", "--payload-schema", schema, "--where", "value.id % 3 = 0"),
        ]
        assert erase.main(arguments) == 2
        assert "1 records can't be judged" in capsys.readouterr().err
        assert erase.main([*arguments, "--unjudged", "keep"]) == 0
        done = result(capsys)
        assert [done[name] for name in ("records", "unjudged", "erased")] == [4, 1, 4]
        left = asyncio.run(read(broker.url))
        assert [bool(body) for body in left] == [number % 3 != 0 for number in range(10)] + [True]
        assert erase.main([*arguments, "--dry-run"]) == 0
        again = result(capsys)
        assert [again[name] for name in ("records", "unjudged")] == [0, 1]
