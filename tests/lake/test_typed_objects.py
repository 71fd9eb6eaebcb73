"""Objects of topics with a schema: typed columns beside the payload, replays as before."""

from __future__ import annotations

import io
import json
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sulina.errors import CorruptEntry
from sulina.lake.decoder import (
    Footer,
    NeedMore,
    Verifier,
    decode_row_group,
    open_footer,
    read_row_group,
)
from sulina.lake.digest import digest_of
from sulina.lake.encoder import EncoderSettings, LedgerEncoder
from sulina.lake.schema import OBJECT_SCHEMA
from sulina.lake.summary import ObjectHead, TypedSummary
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.lake.typed.table import TableSchema, table_schema
from sulina.names import TopicName
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import assign

HEAD = ObjectHead(TopicName("default", "orders"), 7, 100)


def table(*properties: dict[str, Any]) -> TableSchema:
    versions = [
        SchemaVersion(
            5, number, "json_schema", json.dumps({"type": "object", "properties": each}).encode()
        )
        for number, each in enumerate(properties, 1)
    ]
    found = table_schema(versions)
    assert found is not None
    return found


ORDERS = table(
    {"id": {"type": "integer"}, "old": {"type": "string"}},
    {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "state": {"type": "string", "default": "new"},
    },
)
PAYLOADS = [
    (1, b'{"id":1,"old":"x"}'),
    (2, b'{"id":2,"at":"2026-05-01T12:00:00Z","tags":["a"],"state":"paid"}'),
    (2, b"not JSON"),
    (1, b'{"id":4}'),
]


def frames() -> list[bytes]:
    found = []
    for place, (version, payload) in enumerate(PAYLOADS):
        frame = bytearray(encode_frame(Origin("p", 5, version), place, [payload], [1_000 + place]))
        assign(frame, HEAD.first_offset + place, 1)
        found.append(bytes(frame))
    return found


def encode(schema: TableSchema | None, row_group_bytes: int = 16 << 20) -> bytes:
    encoder = LedgerEncoder(HEAD, EncoderSettings(row_group_bytes), schema)
    chunks = encoder.add(frames())
    last, _ = encoder.finish()
    return b"".join([*chunks, *last])


def footer_of(data: bytes) -> Footer:
    found = open_footer(data, len(data))
    assert not isinstance(found, NeedMore)
    return found


TYPED = encode(ORDERS)


def test_each_row_is_decoded_with_the_version_it_names_and_none_is_dropped() -> None:
    rows = pq.read_table(io.BytesIO(TYPED))
    assert [None if each is None else each["id"] for each in rows["value"].to_pylist()] == [
        1,
        2,
        None,
        4,
    ]
    values = rows["value"].to_pylist()
    assert values[0]["old"] == "x" and values[0]["state"] == "new" and values[1]["tags"] == ["a"]
    errors = rows["value_error"].to_pylist()
    assert errors[2].startswith("it is not one JSON value") and errors.count(None) == 3
    assert rows["payload"].to_pylist() == [payload for _, payload in PAYLOADS]


def test_replays_and_the_digest_are_those_of_an_object_without_typed_columns() -> None:
    plain = footer_of(encode(None))
    footer = footer_of(TYPED)
    assert footer.summary.digest == plain.summary.digest
    assert digest_of(pq.read_table(io.BytesIO(TYPED))) == footer.summary.digest
    found = [
        frame
        for group in footer.row_groups
        for frame in decode_row_group(footer, group, TYPED[group.start : group.end])
    ]
    assert found == frames()
    verifier = Verifier(footer)
    for group in footer.row_groups:
        verifier.add(group, TYPED[group.start : group.end])
    assert verifier.finish() == plain.summary.digest


def test_the_footer_says_which_versions_were_known_and_how_many_payloads_do_not_fit() -> None:
    assert footer_of(TYPED).typed == TypedSummary(5, (1, 2), 1)
    assert footer_of(encode(None)).typed is None


def test_columns_have_field_ids() -> None:
    schema = pq.read_schema(io.BytesIO(TYPED))
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in schema]
    assert ids == [*range(1, len(OBJECT_SCHEMA) + 1), 14, 15]
    inner = [int(each.metadata[b"PARQUET:field_id"]) for each in schema.field("value").type]
    assert inner == [each.id for each in ORDERS.columns]
    plain = pq.read_schema(io.BytesIO(encode(None)))
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in plain] == ids[:-2]


def test_typed_columns_can_be_read_alone() -> None:
    footer = footer_of(TYPED)
    (group,) = footer.row_groups
    rows = read_row_group(footer, group, TYPED[group.start : group.end], ["value"])
    assert rows.column_names == ["value"] and rows["value"][0]["id"].as_py() == 1


def test_duckdb_reads_typed_columns(tmp_path: Any) -> None:
    path = tmp_path / "object.parquet"
    path.write_bytes(TYPED)
    query = f"select value.id, epoch_us(value.at) from '{path}' where value.state = 'paid'"
    assert duckdb.execute(query).fetchall() == [(2, 1_777_636_800_000_000)]


def test_only_values_that_repeat_get_a_dictionary() -> None:
    properties = {
        "id": {"type": "integer"},
        "status": {"type": "integer"},
        "note": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    values = [
        {
            "id": number,
            "status": 200 + number % 3,
            "note": f"note {number}",
            "tags": ["red", "blue"][number % 2 :],
            "labels": {"region": f"r-{number}"},
        }
        for number in range(300)
    ]
    payloads = [json.dumps(each).encode() for each in values]
    frame = bytearray(encode_frame(Origin("p", 5, 1), 0, payloads, [1_000] * len(payloads)))
    assign(frame, HEAD.first_offset, 1)
    encoder = LedgerEncoder(HEAD, table=table(properties))
    chunks = encoder.add([bytes(frame)])
    last, _ = encoder.finish()
    data = b"".join([*chunks, *last])
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    found = {each.path_in_schema: set(each.encodings) for each in columns}
    words = {
        "value.id": "DELTA_BINARY_PACKED",
        "value.status": "RLE_DICTIONARY",
        "value.note": "DELTA_LENGTH_BYTE_ARRAY",
        "value.tags.list.element": "RLE_DICTIONARY",
        "value.labels.key_value.key": "RLE_DICTIONARY",
        "value.labels.key_value.value": "DELTA_LENGTH_BYTE_ARRAY",
    }
    assert {name for name, word in words.items() if word not in found[name]} == set()
    rows = pq.read_table(io.BytesIO(data))["value"].to_pylist()
    assert [{**each, "labels": dict(each["labels"])} for each in rows] == values


def test_a_wide_table_makes_smaller_row_groups() -> None:
    wide = table({f"c{number}": {"type": "integer"} for number in range(500)})
    assert len(footer_of(encode(wide, 8 << 10)).row_groups) > 1
    assert len(footer_of(encode(None, 8 << 10)).row_groups) == 1


@pytest.mark.parametrize("cut", ["value", "value_error"])
def test_an_object_that_lacks_a_typed_column_is_damaged(cut: str) -> None:
    footer = footer_of(TYPED)
    rows = pq.read_table(io.BytesIO(TYPED))
    sink = pa.BufferOutputStream()
    pq.write_table(rows.drop_columns([cut]).replace_schema_metadata(footer.parquet.metadata), sink)
    data = sink.getvalue().to_pybytes()
    with pytest.raises(CorruptEntry):
        open_footer(data, len(data))
