"""One table for all versions of a subject: order, types, names, defaults and field ids."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.errors import NotFound
from sulina.lake.schema import FIELD_ID
from sulina.lake.typed.columns import PayloadDecoder
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.lake.typed.shapes import MISSING
from sulina.lake.typed.table import FIRST_FIELD_ID, Column, TableSchema, table_schema


def json_version(number: int, properties: dict[str, Any], **more: Any) -> SchemaVersion:
    schema = {"type": "object", "properties": properties, **more}
    return SchemaVersion(1, number, "json_schema", json.dumps(schema).encode())


def avro_version(number: int, *fields: dict[str, Any]) -> SchemaVersion:
    schema = {"type": "record", "name": "Order", "fields": list(fields)}
    return SchemaVersion(1, number, "avro", json.dumps(schema).encode())


def proto_version(number: int, *fields: tuple[str, int, int]) -> SchemaVersion:
    """Fields: name, number, type of ``FieldDescriptorProto``."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="order.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    for name, place, kind in fields:
        message.field.add(name=name, number=place, type=kind, label=1)
    return SchemaVersion(1, number, "protobuf", files.SerializeToString())


def table(*versions: SchemaVersion) -> TableSchema:
    found = table_schema(versions)
    assert found is not None
    return found


def columns(found: TableSchema) -> dict[str, str]:
    return {each.name: each.kind for each in found.columns}


TEXT, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}


def test_columns_are_in_declared_order_and_added_ones_follow() -> None:
    found = table(
        json_version(1, {"zone": TEXT, "amount": NUMBER}),
        json_version(2, {"added": WHOLE, "zone": TEXT, "amount": NUMBER}),
    )
    assert list(columns(found)) == ["zone", "amount", "added"]


def test_a_dropped_field_stays_a_column() -> None:
    found = table(json_version(1, {"a": TEXT, "b": TEXT}), json_version(2, {"b": TEXT}))
    assert list(columns(found)) == ["a", "b"]
    decoder = PayloadDecoder(found)
    typed = decoder.decode(
        pa.array([b'{"a":"x","b":"y"}', b'{"b":"z"}']),
        pa.array([1, 1]),
        pa.array([1, 2], pa.int32()),
    )
    assert typed.value.to_pylist() == [{"a": "x", "b": "y"}, {"a": None, "b": "z"}]


def test_json_that_names_no_version_keeps_the_fields_that_were_dropped() -> None:
    def nested(**properties: Any) -> dict[str, Any]:
        return {"type": "object", "properties": properties}

    found = table(
        json_version(1, {"a": TEXT, "in": nested(x=TEXT, y=TEXT), "n": NUMBER}),
        json_version(2, {"b": TEXT, "in": nested(y=TEXT), "n": TEXT}),
    )
    payloads = [
        b'{"a":"old","in":{"x":"old","y":"both"}}',
        b'{"b":"new","in":{"y":"new"},"n":"text"}',
    ]
    typed = PayloadDecoder(found).decode(
        pa.array(payloads), pa.array([0, 0]), pa.array([0, 0], pa.int32())
    )
    assert typed.rejected == 0
    old, new = typed.value.to_pylist()
    assert (old["a"], old["b"], old["in"]) == ("old", None, {"x": "old", "y": "both"})
    assert (new["a"], new["b"], new["in"]) == (None, "new", {"x": None, "y": "new"})
    assert (new["n"], new["n_string"]) == (None, "text")


def test_a_record_of_an_older_version_has_the_default_of_an_added_field() -> None:
    versions = (
        json_version(1, {"a": TEXT}),
        json_version(2, {"a": TEXT, "state": {"type": "string", "default": "new"}}),
    )
    typed = PayloadDecoder(table(*versions)).decode(
        pa.array([b'{"a":"x"}', b'{"a":"x","state":"paid"}', b'{"a":"x","state":null}']),
        pa.array([1, 1, 1]),
        pa.array([1, 2, 2], pa.int32()),
    )
    assert [each["state"] for each in typed.value.to_pylist()] == ["new", "paid", None]


def test_types_are_those_that_the_schema_declares() -> None:
    found = table(
        json_version(
            1,
            {
                "at": {"type": "string", "format": "date-time"},
                "day": {"type": "string", "format": "date"},
                "id": {"type": "string", "format": "uuid"},
                "price": {"type": "string", "format": "decimal", "scale": 2},
                "rate": {"type": "number", "format": "decimal", "multipleOf": 0.001},
                "any": {},
                "tags": {"type": "array", "items": TEXT},
                "counts": {"type": "object", "additionalProperties": WHOLE},
            },
        )
    )
    assert found.arrow_type.field("at").type == pa.timestamp("us", tz="UTC")
    assert found.arrow_type.field("day").type == pa.date32()
    assert found.arrow_type.field("price").type == pa.decimal128(38, 2)
    assert found.arrow_type.field("rate").type == pa.decimal128(38, 3)
    assert columns(found)["id"] == "uuid" and columns(found)["any"] == "json"
    assert columns(found)["tags"] == "list" and columns(found)["counts"] == "map"


def test_numbers_widen_and_keep_their_id() -> None:
    first = avro_version(1, {"name": "n", "type": "int"}, {"name": "f", "type": "float"})
    second = avro_version(2, {"name": "n", "type": "long"}, {"name": "f", "type": "double"})
    assert columns(table(first, second)) == {"n": "long", "f": "double"}
    assert [each.id for each in table(first, second).columns] == [
        each.id for each in table(first).columns
    ]


def test_another_type_becomes_a_second_column() -> None:
    found = table(json_version(1, {"amount": WHOLE}), json_version(2, {"amount": TEXT}))
    assert columns(found) == {"amount": "long", "amount_string": "string"}
    typed = PayloadDecoder(found).decode(
        pa.array([b'{"amount":7}', b'{"amount":"7"}']),
        pa.array([1, 1]),
        pa.array([1, 2], pa.int32()),
    )
    assert typed.value.to_pylist() == [
        {"amount": 7, "amount_string": None},
        {"amount": None, "amount_string": "7"},
    ]


def test_names_that_differ_in_case_alone_are_told_apart() -> None:
    assert list(columns(table(json_version(1, {"Id": TEXT, "id": TEXT})))) == ["Id", "id_string"]


def test_an_avro_alias_renames_a_column() -> None:
    found = table(
        avro_version(1, {"name": "cost", "type": "long"}),
        avro_version(2, {"name": "price", "type": "long", "aliases": ["cost"]}),
    )
    assert list(columns(found)) == ["price"]
    assert found.as_of(1).columns[0].name == "cost"
    assert found.as_of(1).columns[0].id == found.columns[0].id


def test_a_protobuf_field_is_its_number() -> None:
    found = table(proto_version(1, ("cost", 3, 3)), proto_version(2, ("price", 3, 3)))
    assert columns(found) == {"price": "long"}


def test_a_version_reads_as_of_itself() -> None:
    found = table(
        json_version(1, {"b": WHOLE, "a": TEXT}),
        json_version(2, {"a": TEXT, "c": {"type": "string", "default": "?"}}),
    ).as_of(2)
    assert list(columns(found)) == ["a", "c"]
    typed = PayloadDecoder(found).decode(
        pa.array([b'{"a":"x","b":1}']), pa.array([1]), pa.array([1], pa.int32())
    )
    assert typed.value.to_pylist() == [{"a": "x", "c": "?"}]
    with pytest.raises(NotFound, match="choose from 1, 2"):
        table(json_version(1, {"a": TEXT}), json_version(2, {"a": TEXT})).as_of(3)


def test_recursion_ends_in_json_text() -> None:
    tree = {"$ref": "#/$defs/tree"}
    node = {"type": "object", "properties": {"name": TEXT, "left": tree}}
    found = table(json_version(1, {"root": tree}, **{"$defs": {"tree": node}}))
    assert _deepest(found.columns) == "json"
    avro = table(
        avro_version(
            1,
            {"name": "name", "type": "string"},
            {"name": "next", "type": ["null", "Order"], "default": None},
        )
    )
    assert _deepest(avro.columns) == "json"


def _deepest(found: tuple[Column, ...]) -> str:
    last = found[-1]
    return _deepest(last.children) if last.children else last.kind


def test_references_that_multiply_make_a_bounded_table() -> None:
    definitions: dict[str, Any] = {"d0": TEXT}
    for level in range(1, 24):
        inner = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"type": "object", "properties": {"l": inner, "r": inner}}
    found = table(json_version(1, {"root": {"$ref": "#/$defs/d23"}}, **{"$defs": definitions}))
    assert found.leaves <= 2000


def test_ids_are_in_the_metadata_of_the_arrow_type_at_every_level() -> None:
    found = table(
        json_version(
            1, {"a": {"type": "array", "items": {"type": "object", "properties": {"b": TEXT}}}}
        )
    )
    field = found.arrow_type.field("a")
    inner = field.type.value_field.type.field("b")
    ids = [int(each.metadata[FIELD_ID]) for each in (field, field.type.value_field, inner)]
    assert len(set(ids)) == 3 and min(ids) >= FIRST_FIELD_ID


_kinds = st.sampled_from([TEXT, NUMBER, WHOLE, {"type": "boolean"}, {}])
_properties = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.one_of(
        _kinds,
        st.builds(lambda each: {"type": "array", "items": each}, _kinds),
        st.builds(
            lambda inner: {"type": "object", "properties": inner},
            st.dictionaries(st.sampled_from(["x", "y"]), _kinds, min_size=1),
        ),
    ),
    min_size=1,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_properties, min_size=1, max_size=5), st.data())
def test_ids_depend_on_no_other_version(history: list[dict[str, Any]], data: Any) -> None:
    versions = [json_version(number + 1, each) for number, each in enumerate(history)]
    whole = table(*versions)
    ids = _ids(whole.columns)
    assert len(set(ids)) == len(ids)
    # A prefix of the history, which others have read, and a history without some versions.
    prefix = table(*versions[: data.draw(st.integers(1, len(versions)))])
    assert set(_ids(prefix.columns)) <= set(ids)
    kept = data.draw(st.sets(st.sampled_from(range(len(versions))), min_size=1))
    assert set(_ids(table(*[versions[each] for each in kept]).columns)) <= set(ids)
    # Neither the order of the arguments nor anything else matters.
    assert table(*reversed(versions)) == whole
    for each in versions:
        assert len(whole.as_of(each.number).columns) == len(history[each.number - 1])


def _ids(found: tuple[Column, ...]) -> list[int]:
    return [id_ for each in found for id_ in (each.id, *_ids(each.children))]


def test_a_large_default_is_not_repeated_in_every_row() -> None:
    found = table(json_version(1, {"a": {"type": "string", "default": "x" * 2000}}))
    assert found.columns[0].default is MISSING
