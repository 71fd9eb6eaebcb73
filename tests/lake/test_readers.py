"""Strangers read the objects: plain pyarrow, pandas' way, and DuckDB, with no code of ours."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from sulina.lake import schema
from sulina.lake.digest import digest_of
from sulina.lake.encoder import EncoderSettings
from sulina.lake.layout import object_key
from sulina.lake.summary import ObjectSummary
from sulina.names import TopicName
from sulina.wire.compression import Compression
from sulina.wire.encode import Origin
from tests.lake.ledgers import LEDGER, encode, ledger_of
from tests.wire.records import NOW, Records, delayed_sample, sample

ORDERS = TopicName("default", "orders")
EVENTS: list[Records | bytes] = [
    sample(),
    Records(
        Origin("other", schema_id=(1 << 64) - 1), 7, [b"x"], NOW + 100, None, None, Compression.NONE
    ),
    delayed_sample(),
    b"control",
    sample(Compression.ZSTD),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions of a topic, two ledgers each."""
    folder = tmp_path_factory.mktemp("lake")
    for number in range(2):
        first_offset = 0
        for ledger in (LEDGER, LEDGER + 1):
            data, summary = encode(ledger_of(EVENTS, first_offset), EncoderSettings(800))
            path = folder / object_key(ORDERS.partition(number), first_offset, ledger)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            first_offset = summary.last_offset + 1
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ObjectSummary]:
    """One object, and what it holds."""
    path = tmp_path_factory.mktemp("object") / "one.parquet"
    data, summary = encode(ledger_of(EVENTS), EncoderSettings(800))
    path.write_bytes(data)
    return path, summary


def test_pyarrow_reads_the_columns_of_the_schema(one: tuple[Path, ObjectSummary]) -> None:
    path, summary = one
    table = pq.read_table(path, page_checksum_verification=True)
    assert table.schema.remove_metadata() == schema.OBJECT_SCHEMA
    assert table.column("offset").to_pylist() == list(range(10))
    assert table.column("producer").to_pylist() == ["sensor-7"] * 3 + ["other"] + ["sensor-7"] * 6
    assert table.column("sequence").to_pylist()[:5] == [1000, 1001, 1002, 7, 1000]
    assert table.column("key").to_pylist()[:4] == [b"roof", None, b"", None]
    assert table.column("payload").to_pylist()[:4] == [*sample().payloads, b"x"]
    assert table.column("publish_time").cast(pa.int64()).to_pylist()[:4] == [
        *(NOW + 20, NOW, NOW + 35),
        NOW + 100,
    ]
    attributes = table.column("attributes").to_pylist()[:4]
    assert attributes[0] == [("unit", "\N{DEGREE SIGN}C"), ("floor", "9")]
    assert attributes[1:] == [None, [("", "")], None]
    assert table.column("schema_id").to_pylist()[2:4] == [12, -1]
    assert table.column("schema_version").to_pylist()[2:4] == [3, 0]
    due = table.column("delivery_time").cast(pa.int64()).to_pylist()
    assert due == [None] * 4 + [NOW + 3_600_000_000] * 3 + [None] * 3
    firsts = [value is not None for value in table.column("frame").to_pylist()]
    assert [place for place, first in enumerate(firsts) if first] == [0, 3, 4, 7]
    assert digest_of(table) == summary.digest


def test_any_parquet_tool_shows_the_summary(one: tuple[Path, ObjectSummary]) -> None:
    path, summary = one
    metadata = pq.read_metadata(path).metadata
    assert metadata[b"sulina.format"] == b"1"
    assert metadata[b"sulina.namespace"] == b"default"
    assert metadata[b"sulina.topic"] == b"orders"
    for name in ("ledger", "first_offset", "last_offset", "records", "bytes", "digest"):
        assert metadata[b"sulina." + name.encode()] == str(getattr(summary, name)).encode()


def test_columns_have_the_statistics_that_readers_select_by(
    one: tuple[Path, ObjectSummary],
) -> None:
    parquet = pq.read_metadata(one[0])
    assert parquet.num_row_groups > 1
    for number in range(parquet.num_row_groups):
        columns = [parquet.row_group(number).column(at) for at in range(parquet.num_columns)]
        told = {c.path_in_schema for c in columns if c.is_stats_set}
        assert told == {
            "offset",
            "publish_time",
            "key",
            "attributes.key_value.key",
            "delivery_time",
        }
        assert {column.compression for column in columns} == {"ZSTD"}


def test_a_dataset_knows_topics_and_partitions_from_the_keys(lake: Path) -> None:
    table = ds.dataset(lake / "ledgers", partitioning="hive").to_table(
        filter=(ds.field("partition") == 1) & (ds.field("offset") >= 15)
    )
    assert set(table.column("topic").to_pylist()) == {"orders"}
    assert sorted(table.column("offset").to_pylist()) == list(range(15, 20))


def test_duckdb_reads_a_topic_with_one_statement(lake: Path) -> None:
    files = f"read_parquet('{lake}/ledgers/**/*.parquet', hive_partitioning=true)"
    with duckdb.connect() as db:
        rows = db.sql(
            f"""select partition, count(*), min("offset"), max("offset"), count(key),
                       count(distinct producer), sum(octet_length(payload))
                from {files} where namespace = 'default' and topic = 'orders'
                group by partition order by partition"""
        ).fetchall()
        assert rows == [(n, 20, 0, 19, 12, 2, 6 * 48 + 2) for n in range(2)]
        found = db.sql(
            f"""select attributes['floor'], schema_id, epoch_us(publish_time)
                from {files} where partition = 1 and "offset" in (0, 3) order by "offset" """
        ).fetchall()
        assert found == [("9", 12, NOW + 20), (None, -1, NOW + 100)]


def test_the_digest_comes_out_of_duckdbs_rows_as_well(one: tuple[Path, ObjectSummary]) -> None:
    path, summary = one
    with duckdb.connect() as db:
        table = db.sql(f"""select * from '{path}' order by "offset" """).to_arrow_table()
    assert digest_of(table) == summary.digest
