"""Avro: what can be read is really read by fastavro, and no payload harms the broker."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_many
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_containers.schemas.avro import Avro
from broker_containers.schemas.errors import InvalidPayload, InvalidSchema
from tests.schemas.json_shapes import record, text


def avro(schema: Any) -> Avro:
    return Avro(text(schema))


def write(schema: Any, value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema, {}), value)
    return target.getvalue()


def member(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


NODE = record(member("value", "int"), member("next", ["null", "Node"]), name="Node")
WITH_B = record(member("b", "int"))
ENUM = {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}


# ---- what can be read with what ----


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("int", "long"),
        ("int", "double"),
        ("float", "double"),
        ("string", "bytes"),
        ("int", ["null", "long"]),
        (["int", "long"], "double"),
        (record(member("a", "int")), record(member("a", "int"), member("b", "int", default=0))),
        (record(member("a", "int"), member("b", "int")), record(member("a", "int"))),
        (record(member("a", "int")), record(member("b", "int", aliases=["a"]))),
        (record(name="x.Order"), record(name="y.Order")),
        (record(name="Old"), {**record(name="New"), "aliases": ["Old"]}),
        (ENUM, {**ENUM, "symbols": ["RED", "GREEN", "BLUE"]}),
        (ENUM, {**ENUM, "symbols": ["RED"], "default": "RED"}),
        ({"type": "array", "items": "int"}, {"type": "array", "items": ["null", "long"]}),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}),
        (NODE, NODE),
    ],
)  # fmt: skip
def test_what_avro_resolves_is_readable(writer: Any, reader: Any) -> None:
    assert avro(reader).unreadable(avro(writer)) == []


@pytest.mark.parametrize(
    ("writer", "reader", "why"),
    [
        ("long", "int", "long cannot be read as int"),
        ("string", "int", "string cannot be read as int"),
        ("bytes", "string", "bytes may not be UTF-8 and cannot be read as a string"),
        (["null", "int"], "int", "null cannot be read as int"),
        ("string", ["null", "int"], "string is not in the union [null, int]"),
        (record(), WITH_B, "b: the field is missing in the data and has no default"),
        (WITH_B, record(member("b", "string")), "b: int cannot be read as string"),
        (record(name="A"), record(name="B"), "record A cannot be read as record B"),
        (ENUM, {**ENUM, "symbols": ["RED"]}, "the enum Colour lacks GREEN"),
        (
            {"type": "fixed", "name": "F", "size": 4},
            {"type": "fixed", "name": "F", "size": 8},
            "F has 8 bytes instead of 4",
        ),
        (
            {"type": "array", "items": "long"},
            {"type": "array", "items": "int"},
            "[]: long cannot be read as int",
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            "the logical type changes from timestamp-millis to timestamp-micros",
        ),
        (
            record(member("list", NODE)),
            record(member("list", record(member("next", "Node"), name="Node"))),
            "list.next: null cannot be read as record Node",
        ),
    ],
)  # fmt: skip
def test_what_breaks_is_told(writer: Any, reader: Any, why: str) -> None:
    assert avro(reader).unreadable(avro(writer)) == [why]


def test_a_reader_takes_the_first_branch_that_fits_also_if_a_later_one_fits_better() -> None:
    writer = record(member("a", "int"))
    first = record(member("a", "int"), member("b", "int"))
    later = {**record(member("a", "int"), name="Other"), "aliases": ["Order"]}
    assert avro([first, later]).unreadable(avro(writer)) != []


PRIMITIVES = st.sampled_from(
    ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
)
DEFAULTS: dict[str, Any] = {
    "null": None, "boolean": False, "int": 1, "long": 2, "float": 1.5, "double": 2.5,
    "bytes": "x", "string": "y",
}  # fmt: skip


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3, name: str = "R") -> Any:
    """Any schema; types at the same place have the same name, so that they can be matched."""
    kinds = ["primitive", "primitive", "array", "map", "union", "record", "record", "enum", "fixed"]
    match draw(st.sampled_from(kinds if depth else kinds[:2])):
        case "array":
            inner = schemas(depth - 1, name + "i").filter(lambda items: items != "null")
            return {"type": "array", "items": draw(inner)}
        case "map":
            return {"type": "map", "values": draw(schemas(depth - 1, name + "v"))}
        case "union":
            return draw(st.lists(PRIMITIVES, min_size=1, max_size=4, unique=True))
        case "enum":
            symbols = draw(st.lists(st.sampled_from("ABCD"), min_size=1, unique=True))
            enum: dict[str, Any] = {"type": "enum", "name": name + "e", "symbols": symbols}
            return {**enum, "default": symbols[0]} if draw(st.booleans()) else enum
        case "fixed":
            return {"type": "fixed", "name": name + "f", "size": draw(st.integers(1, 2))}
        case "record":
            members = []
            for field in draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True)):
                kind = draw(schemas(depth - 1, name + field))
                more = {}
                if isinstance(kind, str) and draw(st.booleans()):
                    more["default"] = DEFAULTS[kind]
                members.append(member(field, kind, **more))
            return record(*members, name=name)
    return draw(PRIMITIVES)


def valid(schema: Any) -> bool:
    """Arrays of what takes no space are refused."""
    try:
        return bool(avro(schema))
    except InvalidSchema:
        return False


VALID = schemas().filter(valid)


@settings(max_examples=150, deadline=None)
@given(VALID, VALID)
def test_what_is_called_readable_is_read_by_fastavro(first: Any, second: Any) -> None:
    for writer, reader in ((first, second), (first, first)):
        if avro(reader).unreadable(avro(writer)) == []:
            parsed = fastavro.parse_schema(writer, {}), fastavro.parse_schema(reader, {})
            for value in generate_many(writer, 5):
                payload = write(writer, value)
                fastavro.schemaless_reader(io.BytesIO(payload), *parsed)
                avro(writer).check(payload)


@settings(max_examples=100, deadline=None)
@given(VALID, st.data())
def test_small_changes_that_are_called_readable_are_read(schema: Any, data: st.DataObject) -> None:
    changed = data.draw(changes(schema))
    if valid(changed) and avro(changed).unreadable(avro(schema)) == []:
        parsed = fastavro.parse_schema(schema, {}), fastavro.parse_schema(changed, {})
        for value in generate_many(schema, 5):
            fastavro.schemaless_reader(io.BytesIO(write(schema, value)), *parsed)


@st.composite
def changes(draw: st.DrawFn, schema: Any) -> Any:
    """The same schema with something else in one place, or in several."""
    if draw(st.integers(0, 5)) == 0:
        return draw(schemas(1, "C"))
    if isinstance(schema, list):
        return draw(st.permutations([*schema, *({"null", "string"} - {*schema})]))
    if not isinstance(schema, dict):
        wider = {"int": "long", "long": "double", "float": "double", "string": "bytes"}
        return wider.get(schema, schema) if draw(st.booleans()) else schema
    match schema["type"]:
        case "array":
            return {**schema, "items": draw(changes(schema["items"]))}
        case "map":
            return {**schema, "values": draw(changes(schema["values"]))}
        case "enum":
            return {**schema, "symbols": draw(st.permutations([*schema["symbols"], "Z"]))}
        case "record":
            fields = [{**each, "type": draw(changes(each["type"]))} for each in schema["fields"]]
            for each in fields:
                each.pop("default", None)
            kept = [each for each in fields if draw(st.integers(0, 3))]
            return {**schema, "fields": [*kept, member("z", ["null", "int"], default=None)]}
    return schema


# ---- what is a schema ----


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        (b"{", "not JSON"),
        (b"5", "not an Avro schema"),
        (b'{"type": "nope"}', "not an Avro schema"),
        (text(record(member("a", "int", default="x"))), "Default value <x>"),
        (text(record(member("a", "int"), member("a", "int"))), "two fields with the same name"),
        (text(["int", "int"]), "cannot be told apart"),
        (text([["int"]]), "contains a union directly"),
        (text({"type": "fixed", "name": "F", "size": -1}), "the size of the fixed type"),
        (text({"type": "array", "items": "null"}), "take no space"),
        (text({"type": "array", "items": record(member("a", "null"))}), "take no space"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_reason(definition: bytes, why: str) -> None:
    with pytest.raises(InvalidSchema, match=why):
        Avro(definition)


def test_schemas_that_nest_without_an_end_are_refused_and_do_no_harm() -> None:
    deep = b'{"type":"array","items":' * 5_000 + b'"int"' + b"}" * 5_000
    with pytest.raises(InvalidSchema):
        Avro(deep)
    chain: list[Any] = [record(member("x", "int"), name="T0")]
    chain += [record(member("x", f"T{n - 1}"), name=f"T{n}") for n in range(1, 3_000)]
    with pytest.raises(InvalidSchema, match="levels"):
        avro(chain)


def test_types_that_are_used_many_times_over_are_looked_at_once() -> None:
    types: list[Any] = [record(member("x", "int"), name="T0")]
    for number in range(1, 60):
        below = f"T{number - 1}"
        types.append(record(member("x", below), member("y", below), name=f"T{number}"))
    schema = avro(types)
    assert schema.unreadable(schema) == []


def test_defaults_and_docs_make_another_schema_and_spaces_do_not() -> None:
    plain = record(member("a", "int"))
    assert Avro(json.dumps(plain, indent=4).encode()).fingerprint == avro(plain).fingerprint
    other = record(member("a", "int", default=1))
    assert avro(other).fingerprint != avro(plain).fingerprint


# ---- payloads ----


def test_a_payload_is_one_datum_and_nothing_else() -> None:
    schema = record(member("name", "string"), member("age", "int"))
    payload = write(schema, {"name": "Ana", "age": 7})
    checked = avro(schema)
    checked.check(payload)
    for wrong in (b"", payload[:-1], payload + b"\0", b'{"name": "Ana", "age": 7}'):
        with pytest.raises(InvalidPayload):
            checked.check(wrong)


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ("boolean", b"\x07"),
        ("int", b"\xff\xff\xff\xff\xff\x01"),
        ("long", b"\xff" * 10 + b"\x01"),
        ("string", b"\x02\xff"),
        ("string", b"\x0aab"),
        ("bytes", b"\x09"),
        (ENUM, b"\x01"),
        (ENUM, b"\x04"),
        (["null", "int"], b"\x03"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\x0f\x02"),
    ],
)
def test_what_other_readers_would_stumble_over_is_refused(schema: Any, payload: bytes) -> None:
    with pytest.raises(InvalidPayload, match="not Avro of this schema"):
        avro(schema).check(payload)


@settings(max_examples=100, deadline=None)
@given(VALID, st.data())
def test_what_is_taken_is_read_by_fastavro_also_if_it_was_altered(
    schema: Any, data: st.DataObject
) -> None:
    payload = bytearray(write(schema, next(iter(generate_many(schema, 1)))))
    for _ in range(data.draw(st.integers(0, 2))):
        if payload:
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        avro(schema).check(bytes(payload))
    except InvalidPayload:
        return
    source = io.BytesIO(payload)
    fastavro.schemaless_reader(source, fastavro.parse_schema(schema, {}), None)
    assert source.tell() == len(payload)


def nested(depth: int) -> bytes:
    return b"\x02\x02" * depth + b"\x02\x00"


def test_a_payload_that_nests_without_an_end_is_refused_and_does_no_harm() -> None:
    schema = avro(NODE)
    schema.check(nested(20))
    with pytest.raises(InvalidPayload, match="nested"):
        schema.check(nested(1_000_000))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_valid_or_refused_for_a_schema_that_contains_itself(payload: bytes) -> None:
    inner = [
        member("n", ["null", "T"]), member("a", {"type": "array", "items": "T"}),
        member("m", {"type": "map", "values": "long"}), member("e", ENUM), member("b", "boolean"),
        member("s", "string"), member("y", "bytes"), member("d", "double"), member("f", "float"),
        member("x", {"type": "fixed", "name": "X", "size": 2}), member("i", "int"),
    ]  # fmt: skip
    schema = record(*inner, name="T")
    try:
        avro(schema).check(payload)
    except InvalidPayload:
        return
    fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(schema, {}), None)


@settings(max_examples=50, deadline=None)
@given(st.recursive(st.none(), lambda inner: st.tuples(st.integers(0, 9), inner), max_leaves=20))
def test_data_of_a_schema_that_contains_itself_is_valid(chain: Any) -> None:
    value: Any = {"value": 0, "next": None}
    while chain is not None:
        value = {"value": chain[0], "next": value}
        chain = chain[1]
    avro(NODE).check(write(NODE, value))
