"""Payloads become typed columns by a schema, given as text or by the registry."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import sulina
from emr_jobs.source.avro_schema import avro_shape
from emr_jobs.source.datasource import SulinaDataSource
from emr_jobs.source.json_schema import json_shape
from emr_jobs.source.shapes import spark_type
from sulina.errors import NotFound, Refused, Unavailable
from tests.spark.lake_folder import LakeFolder
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


def values(lake: LakeFolder, topic: str = "/default/orders", **options: Any) -> list[Any]:
    """The typed column, without Spark."""
    given = {"path": lake.root, "topic": topic, "columns": "offset,value", **options}
    source = SulinaDataSource({name: str(value) for name, value in given.items()})
    reader = source.reader(source.schema())
    batches = [batch for each in reader.partitions() for batch in reader.read(each)]
    found: list[Any] = pa.Table.from_batches(batches).column("value").to_pylist()
    return found


def avro(value: dict[str, Any], schema: dict[str, Any] = AVRO) -> bytes:
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema), value)
    return data.getvalue()


def put(lake: LakeFolder, *payloads: bytes, schema: tuple[int, int] = (0, 0)) -> None:
    lake.add("/default/orders", len(payloads), payloads=payloads, schema=schema)


def ddl(definition: object) -> str:
    return spark_type(json_shape(json.dumps(definition))).simpleString()


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


@pytest.mark.parametrize("definition", ['{"type": "array"}', "{", '"x"', '{"type": "object"}'])
def test_a_schema_without_columns_is_refused(definition: str) -> None:
    with pytest.raises(Refused):
        json_shape(definition)


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
    shape = avro_shape(json.dumps({"type": "record", "name": "R", "fields": fields}))
    assert spark_type(shape).simpleString() == (
        "struct<at:timestamp,price:decimal(9,0),kind:string,again:string,many:map<string,float>>"
    )


@pytest.mark.parametrize(
    ("type_", "told"),
    [(["string", "long"], "a union of several types at x"), ("R", "record R inside itself")],
)
def test_avro_without_a_type_in_spark_is_refused_with_its_path(type_: object, told: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": type_}]}
    with pytest.raises(Refused, match=told):
        avro_shape(json.dumps(schema))


def test_truncated_avro_is_a_bad_payload(lake: LakeFolder) -> None:
    put(lake, avro({"id": 1, "note": "long enough"})[:-3])
    with pytest.raises(Refused, match="the payload of record 0"):
        values(lake, payload="avro", payloadSchema=json.dumps(AVRO))


# ---- the registry ----


def register(server: SulinaProcess, subject: str, type_: str, *definitions: object) -> list[Any]:
    async def call() -> list[Any]:
        async with sulina.connect(server.url) as client:
            return [
                await client.admin(
                    "schema.register",
                    {"subject": subject, "type": type_, "definition": json.dumps(definition)},
                )
                for definition in definitions
            ]

    return asyncio.run(call())


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
    assert "value" in schema.fieldNames() and "payload" not in schema.fieldNames()
