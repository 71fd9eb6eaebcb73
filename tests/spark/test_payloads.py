"""Payloads become typed columns by a schema, given as text or by the registry."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql.types import StructType

import sulina
from emr_jobs.source.datasource import SulinaDataSource
from emr_jobs.source.options import PayloadOptions, TopicPatterns
from emr_jobs.source.payloads import make_decoder
from sulina.errors import NotFound, Refused, Unavailable
from tests.spark.lake_folder import LakeFolder
from tests.spark.typed_reads import put, register, table, values
from tests.support.server import SulinaProcess

JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "amount": {"type": ["number", "null"]},
        "note": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "by": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


def avro(value: dict[str, Any], schema: dict[str, Any] = AVRO) -> bytes:
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema), value)
    return data.getvalue()


def ddl(definition: object, format_: str = "json") -> str:
    options = PayloadOptions(format_, json.dumps(definition))
    decoder = make_decoder(options, TopicPatterns(("/default/orders",)))
    assert decoder is not None
    return decoder.type.simpleString()


# ---- JSON ----


def test_json_becomes_columns_of_its_schema(lake: LakeFolder) -> None:
    put(
        lake,
        b'{"id": 1, "amount": 2.5, "tags": ["a", "b"], "by": {"name": "x", "age": 3}}',
        b'{"id": 2, "note": "two\\u00e9", "unknown": [1, {}]}',
    )
    empty = {"amount": None, "note": None, "tags": None, "by": None}
    assert values(lake, payload="json", payloadSchema=json.dumps(JSON)) == [
        {**empty, "id": 1, "amount": 2.5, "tags": ["a", "b"], "by": {"name": "x"}},
        {**empty, "id": 2, "note": "two\u00e9"},
    ]


@pytest.mark.parametrize(
    "bad", [b"", b"[1]", b'{"id": "one"}', b'{"id": 1}{"id": 2}', b'{"id": 1.5}', b"{", b'"x"']
)
def test_a_bad_payload_ends_the_read_or_is_null_and_never_moves_its_neighbours(
    lake: LakeFolder, bad: bytes
) -> None:
    put(lake, b'{"id": 1}', bad, b'{"id": 3}')
    schema = '{"type": "object", "properties": {"id": {"type": "integer"}}}'
    with pytest.raises(Refused, match="the payload of record 1 of /default/orders"):
        values(lake, payload="json", payloadSchema=schema)
    found = values(lake, payload="json", payloadSchema=schema, onBadPayload="null")
    assert found == [{"id": 1}, None, {"id": 3}]


def test_what_a_json_schema_leaves_open_is_json_text(lake: LakeFolder) -> None:
    schema = {"type": "object", "properties": {"any": {}, "id": {"type": "integer"}}}
    put(lake, b'{"any": {"b": [1, null]}, "id": 5}', b'{"any": "text"}')
    assert values(lake, payload="json", payloadSchema=json.dumps(schema)) == [
        {"any": '{"b":[1,null]}', "id": 5},
        {"any": '"text"', "id": None},
    ]


def test_json_schemas_give_the_types_of_spark() -> None:
    assert ddl(JSON) == (
        "struct<id:bigint,amount:double,note:string,tags:array<string>,by:struct<name:string>>"
    )
    properties = {
        "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "maybe": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}]},
        "either": {"type": ["string", "integer"]},
        "word": {"enum": ["a", "b"]},
    }
    schema = {"properties": properties, "$defs": {"n": {"type": "integer"}}}
    assert ddl(schema) == "struct<map:map<string,boolean>,maybe:bigint,either:string,word:string>"


def test_a_schema_that_contains_itself_ends_in_text() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert ddl(node).count("struct<next:") < 40


def test_a_schema_that_is_not_json_is_refused(lake: LakeFolder) -> None:
    with pytest.raises(Refused, match="not JSON"):
        values(lake, payload="json", payloadSchema="{")


def test_a_schema_of_something_else_than_an_object_has_one_column() -> None:
    assert ddl({"type": "array", "items": {"type": "integer"}}) == "struct<value:array<bigint>>"


# ---- Avro ----


def test_avro_becomes_columns_of_its_schema(lake: LakeFolder) -> None:
    put(lake, avro({"id": 1, "note": "x"}), avro({"id": 2}))
    found = values(lake, payload="avro", payloadSchema=json.dumps(AVRO))
    assert found == [{"id": 1, "note": "x"}, {"id": 2, "note": None}]


def test_avro_types_become_those_of_spark() -> None:
    fields = [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A"]}},
        {"name": "again", "type": "K"},
        {"name": "many", "type": {"type": "map", "values": "float"}},
    ]
    assert ddl({"type": "record", "name": "R", "fields": fields}, "avro") == (
        "struct<at:timestamp,price:decimal(9,0),kind:string,again:string,many:map<string,float>>"
    )


@pytest.mark.parametrize("type_", [["string", "long"], ["null", "R"]])
def test_avro_without_a_type_in_spark_becomes_json_text(type_: object) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": type_}]}
    assert "x:string" in ddl(schema, "avro")


def test_truncated_avro_is_a_bad_payload(lake: LakeFolder) -> None:
    put(lake, avro({"id": 1, "note": "long enough"})[:-3])
    with pytest.raises(Refused, match="the payload of record 0"):
        values(lake, payload="avro", payloadSchema=json.dumps(AVRO))


# ---- the registry ----


def test_each_record_is_read_with_the_version_it_names(
    lake: LakeFolder, shared_sulina_process: SulinaProcess
) -> None:
    first = {**AVRO, "fields": AVRO["fields"][:1]}
    old, new = register(shared_sulina_process, "spark-orders", "avro", first, AVRO)
    put(lake, avro({"id": 1}, first), schema=(old["id"], old["version"]))
    put(lake, avro({"id": 2, "note": "x"}), schema=(new["id"], new["version"]))
    found = values(lake, registry=shared_sulina_process.http_url, subject="spark-orders")
    assert found == [{"id": 1, "note": None}, {"id": 2, "note": "x"}]


def test_the_subject_of_a_topic_is_found_by_its_binding(
    lake: LakeFolder, shared_sulina_process: SulinaProcess
) -> None:
    register(shared_sulina_process, "spark-json", "json_schema", JSON)

    async def bind() -> None:
        async with sulina.connect(shared_sulina_process.url) as client:
            await client.admin("topic.create", {"topic": "/default/spark-bound"})
            arguments = {"topic": "/default/spark-bound", "subject": "spark-json"}
            await client.admin("schema.bind", arguments)

    asyncio.run(bind())
    lake.add("/default/spark-bound", 2)
    found = values(lake, "/default/spark-bound", registry=shared_sulina_process.http_url)
    assert [each["id"] for each in found] == [0, 1]


def test_a_registry_that_asks_for_a_token_gets_the_one_of_the_read(
    lake: LakeFolder, tmp_path: Path
) -> None:
    token = tmp_path / "root.token"
    with SulinaProcess(tmp_path / "data", "--auth", str(token)) as secured:

        async def prepare() -> None:
            async with sulina.connect(secured.url, token=token.read_text().strip()) as client:
                await client.admin.schemas.register(
                    "orders", type="json_schema", definition=json.dumps(JSON)
                )

        asyncio.run(prepare())
        lake.add("/default/orders", 2)
        options = {"registry": secured.http_url, "subject": "orders"}
        with pytest.raises(Refused, match=r"answered 401.*the option token"):
            values(lake, **options)
        found = values(lake, token=token.read_text().strip(), **options)
    assert [each["id"] for each in found] == [0, 1]


def test_what_the_registry_lacks_is_told(
    lake: LakeFolder, shared_sulina_process: SulinaProcess
) -> None:
    url = shared_sulina_process.http_url
    with pytest.raises(NotFound, match="the registry answered 404"):
        values(lake, registry=url, subject="no-such-subject")
    with pytest.raises(Refused, match="set the schema's subject"):
        values(lake, topic="/default/*", registry=url)
    with pytest.raises(Unavailable, match="is unavailable"):
        values(lake, registry="http://127.0.0.1:1", subject="x")


def test_the_value_takes_the_place_of_the_payload_unless_columns_are_named(
    lake: LakeFolder,
) -> None:
    options = {"path": str(lake.root), "topic": "/default/x", "payload": "json"}
    schema = SulinaDataSource({**options, "payloadSchema": json.dumps(JSON)}).schema()
    assert isinstance(schema, StructType)
    assert {"value", "value_error"} <= set(schema.fieldNames())
    assert "payload" not in schema.fieldNames()


def test_the_reason_is_beside_a_value_that_is_null(lake: LakeFolder) -> None:
    put(lake, b'{"id": 1}', b'{"id": "x"}')
    found = table(
        lake,
        columns="value_error",
        payload="json",
        payloadSchema=json.dumps(JSON),
        onBadPayload="null",
    )
    assert found.column("value_error").to_pylist() == [None, 'id: "x" is not a long']
