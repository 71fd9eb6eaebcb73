"""Payloads to columns: nothing is dropped, and quick decoders agree with the reference."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.lake.typed.columns import PayloadDecoder, Typed, VersionDecoder
from sulina.lake.typed.protobuf_shape import ProtobufSchema
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.lake.typed.table import table_schema
from sulina.lake.typed.versions import parse

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "amount": {"type": "number"},
        "name": {"type": "string"},
        "paid": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "key": {"type": "string", "format": "uuid"},
        "price": {"type": "string", "format": "decimal", "scale": 2},
        "inner": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}


def json_version(schema: dict[str, Any]) -> SchemaVersion:
    return SchemaVersion(1, 1, "json_schema", json.dumps(schema).encode())


def decode(version: SchemaVersion, payloads: list[bytes | None]) -> Typed:
    table = table_schema([version])
    assert table is not None
    count = len(payloads)
    return PayloadDecoder(table).decode(
        pa.array(payloads, pa.binary()),
        pa.array([1] * count, pa.int64()),
        pa.array([1] * count, pa.int32()),
    )


def agree(version: SchemaVersion, payloads: list[bytes]) -> Typed:
    """Decode with each quick decoder alone, with all of them and with none: always the same."""
    parsed = parse(version)
    whole = VersionDecoder(parsed)
    reference = VersionDecoder(parsed)
    reference.quick = []
    column = pa.array(payloads, pa.binary())
    expected = reference.decode(column)
    one_each = []
    for quick in whole.quick:
        alone = VersionDecoder(parsed)
        alone.quick = [quick]
        one_each.append(alone.decode(column))
    for found in (whole.decode(column), *one_each):
        assert found.error.to_pylist() == expected.error.to_pylist()
        assert _comparable(found.value.to_pylist()) == _comparable(expected.value.to_pylist())
        found.value.validate(full=True)
    return expected


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(each) for each in value]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


GOOD = b'{"id":1,"amount":2.5,"name":"a","paid":true}'
BAD = {
    "empty": b"",
    "two objects": GOOD + GOOD,
    "half an object": GOOD[:-1],
    "not UTF-8": b'{"name":"\xff"}',
    "an array": b"[1]",
    "a wrong type": b'{"id":"1"}',
    "a huge number": b'{"id":' + b"9" * 5000 + b"}",
    "an integer out of range": b'{"id":9223372036854775808}',
    "an infinite number": b'{"amount":1e999}',
    "a leading zero": b'{"id":01}',
    "half a surrogate pair": b'{"name":"\\ud800"}',
    "a control character": b'{"name":"\x01"}',
    "not a number": b'{"amount":NaN}',
    "deep nesting": b'{"tags":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a day that does not exist": b'{"day":"2026-02-30"}',
    "a time without zone": b'{"at":"2026-02-03T04:05:06"}',
    "too many digits": b'{"price":"1.234"}',
    "nothing": None,
}


@pytest.mark.parametrize("what", BAD)
def test_a_payload_that_does_not_fit_keeps_its_row_and_has_a_reason(what: str) -> None:
    typed = decode(json_version(ORDER), [GOOD, BAD[what], GOOD])
    assert [each is None for each in typed.error.to_pylist()] == [True, False, True]
    assert [each is None for each in typed.value.to_pylist()] == [False, True, False]
    assert typed.rejected == 1
    assert 0 < len(typed.error[1].as_py()) <= 200


def test_values_have_the_declared_types() -> None:
    payload = (
        b'{"id":7,"at":"2026-05-01T02:00:00.1234567+02:00","day":"2026-05-01",'
        b'"key":"0E984725-C51C-4BF4-9960-E1C80E27ABA0","price":"12.5","tags":["a","b"]}'
    )
    (value,) = decode(json_version(ORDER), [payload]).value.to_pylist()
    assert value["at"] == datetime(2026, 5, 1, 0, 0, 0, 123456, tzinfo=UTC)
    assert str(value["day"]) == "2026-05-01" and str(value["price"]) == "12.50"
    assert value["key"] == "0e984725-c51c-4bf4-9960-e1c80e27aba0"
    assert value["tags"] == ["a", "b"] and value["name"] is None


def test_no_payloads_are_no_rows() -> None:
    assert len(decode(json_version(ORDER), []).value) == 0


def test_a_schema_that_is_no_object_has_the_column_value() -> None:
    typed = decode(json_version({"type": "integer"}), [b"7", b"null", b"x"])
    assert typed.value.to_pylist() == [{"value": 7}, {"value": None}, None]


# ---- JSON ----

_numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -0.0, 1.0, 1e300, 10**17, 10**18, 10**19, 0.1, 123456.789]),
)
_texts = st.one_of(st.text(max_size=8), st.sampled_from(["a", "é", "\\", '"', "\n", "a b"]))
_times = st.one_of(
    st.datetimes().map(lambda at: at.isoformat() + "Z"),
    st.datetimes(timezones=st.just(UTC)).map(lambda at: at.isoformat()),
    st.sampled_from(
        [
            "2026-05-01T12:00:00Z",
            "2026-05-01T12:00:00.5Z",
            "2026-05-01T12:00:00.123456789Z",
            "2026-05-01 12:00:00Z",
            "2026-05-01t12:00:00z",
            "2026-05-01T12:00Z",
            "2026-05-01T12:00:00+0100",
            "2026-05-01T24:00:00Z",
            "2026-05-01T12:00:60Z",
            "0000-01-01T00:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-05-01T12:00:00.Z",
            "2026-05-01T12:0a:00Z",
            "+026-05-01T12:00:00Z",
        ]
    ),
)
_days = st.one_of(
    st.dates().map(str), st.sampled_from(["2026-02-30", "0000-01-01", "2026-1-1", "20260101"])
)
_uuids = st.one_of(
    st.uuids().map(str),
    st.uuids().map(lambda each: str(each).upper()),
    st.sampled_from(
        ["", "0e984725-c51c-4bf4-9960-e1c80e27aba", "0e984725c51c4bf49960e1c80e27aba0----"]
    ),
)
_decimals = st.one_of(
    st.decimals(-(10**9), 10**9, places=2).map(str),
    st.sampled_from(
        ["1", "-0", "1e3", "1.234", "+1", ".5", "1.", "01.50", "9" * 36, "9" * 37, "x"]
    ),
)
_any = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, _texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)
    ),
    max_leaves=4,
)


def _maybe(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(usual, usual, usual, st.none(), _any)


_fields = {
    "id": _maybe(st.integers(-(10**18), 10**18)),
    "amount": _maybe(_numbers),
    "name": _maybe(_texts),
    "paid": _maybe(st.booleans()),
    "at": _maybe(_times),
    "day": _maybe(_days),
    "key": _maybe(_uuids),
    "price": _maybe(_decimals),
    "inner": _maybe(st.fixed_dictionaries({"n": st.integers(0, 99)})),
    "tags": _maybe(st.lists(_texts, max_size=3)),
    "more": _any,
}
_objects = st.lists(st.sampled_from(list(_fields)), unique=True, max_size=6).flatmap(
    lambda names: st.fixed_dictionaries({name: _fields[name] for name in names})
)


@st.composite
def _json_payloads(draw: Any) -> list[bytes]:
    """Many payloads of few forms, as of a real topic, and some that were damaged."""
    payloads = []
    for value in draw(st.lists(_objects, min_size=1, max_size=4)):
        separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
        text = json.dumps(value, ensure_ascii=draw(st.booleans()), separators=separators)
        whole = text.encode(errors="surrogatepass")
        payloads += [whole] * draw(st.integers(1, 3))
        if draw(st.booleans()):
            payloads.append(_damaged(draw, whole))
    mixed: list[bytes] = draw(st.permutations(payloads))
    return mixed


def _damaged(draw: Any, whole: bytes) -> bytes:
    at = draw(st.integers(0, len(whole)))
    junk = draw(
        st.one_of(st.binary(max_size=3), st.sampled_from([b'"', b"0", b".", b"-", b"}{", b" "]))
    )
    found: bytes = whole[:at] + junk + whole[at + draw(st.integers(0, 3)) :]
    return found


_WITH_DEFAULTS = json.loads(json.dumps(ORDER))
_WITH_DEFAULTS["properties"]["name"]["default"] = "?"


@settings(max_examples=60, deadline=None)
@given(_json_payloads(), st.sampled_from([ORDER, _WITH_DEFAULTS]))
def test_quick_json_agrees_with_the_reference(payloads: list[bytes], schema: Any) -> None:
    agree(json_version(schema), payloads)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text("0123456789.-+eE", max_size=7), st.text("0123456789T:.-Zz ", max_size=27)
        ),
        min_size=1,
        max_size=20,
    )
)
def test_no_number_and_no_time_of_another_grammar_is_accepted(parts: list[tuple[str, str]]) -> None:
    payloads = [GOOD.replace(b"}", b',"at":"2026-05-01T12:00:00Z"}')]
    payloads += [
        f'{{"id":{number},"amount":{number},"name":"","paid":false,"at":"{time}"}}'.encode()
        for number, time in parts
    ]
    agree(json_version(ORDER), payloads)


def test_most_json_payloads_of_one_form_are_decoded_by_the_template() -> None:
    version = json_version(ORDER)
    payloads = pa.array([GOOD.replace(b"1", str(each).encode()) for each in range(5000)])
    found = VersionDecoder(parse(version)).quick[0].decode(payloads)
    assert found is not None and found[1].all()


# ---- Avro ----

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": "int"},
        {"name": "amount", "type": "double"},
        {"name": "rate", "type": "float"},
        {"name": "name", "type": "string"},
        {"name": "raw", "type": "bytes"},
        {"name": "paid", "type": ["null", "boolean"]},
        {"name": "note", "type": ["string", "null"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["new", "paid"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 3}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "n", "type": ["null", "int"]},
                        {"name": "s", "type": "string"},
                    ],
                },
            },
        },
    ],
}


def avro_version(schema: dict[str, Any]) -> SchemaVersion:
    return SchemaVersion(1, 1, "avro", json.dumps(schema).encode())


def avro_payload(schema: dict[str, Any], value: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return file.getvalue()


_avro_orders = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "count": st.integers(-(2**31), 2**31 - 1),
        "amount": st.floats(),
        "rate": st.floats(width=32),
        "name": st.text(max_size=90),
        "raw": st.binary(max_size=5),
        "paid": st.none() | st.booleans(),
        "note": st.none() | st.text(max_size=3),
        "state": st.sampled_from(["new", "paid"]),
        "at": st.integers(-(10**12), 10**13).map(
            lambda each: datetime.fromtimestamp(each / 1000, UTC)
        ),
        "day": st.dates(),
        "price": st.decimals(-9999999, 9999999, places=2, allow_nan=False),
        "code": st.binary(min_size=3, max_size=3),
        "lines": st.lists(
            st.fixed_dictionaries({"n": st.none() | st.integers(0, 300), "s": st.text(max_size=2)}),
            max_size=3,
        ),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_avro_orders, min_size=1, max_size=5), st.data())
def test_quick_avro_agrees_with_the_reference_and_with_fastavro(
    values: list[Any], data: Any
) -> None:
    payloads = [avro_payload(AVRO, each) for each in values]
    typed = agree(avro_version(AVRO), payloads)
    assert not typed.rejected
    parsed = fastavro.parse_schema(json.loads(json.dumps(AVRO)))
    for payload, found in zip(payloads, typed.value.to_pylist(), strict=True):
        read = fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)
        assert _comparable(found) == _comparable(read)
    damaged = [_damaged(data.draw, each) for each in payloads]
    agree(avro_version(AVRO), [*payloads, *damaged])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_any_bytes_as_avro_keep_their_row(payloads: list[bytes]) -> None:
    assert len(agree(avro_version(AVRO), payloads).value) == len(payloads)


def test_unions_maps_and_recursion_of_avro_are_decoded() -> None:
    schema = {
        "type": "record",
        "name": "Node",
        "namespace": "a.b",
        "fields": [
            {"name": "either", "type": ["null", "int", "string"]},
            {"name": "counts", "type": {"type": "map", "values": "long"}},
            {"name": "next", "type": ["null", "Node"], "default": None},
        ],
    }
    value: Any = None
    for level in range(6):
        value = {"either": level, "counts": {"a": level}, "next": value}
    (found,) = decode(avro_version(schema), [avro_payload(schema, value)]).value.to_pylist()
    assert found["either"] == "5" and found["counts"] == [("a", 5)]
    deepest = found["next"]["next"]["next"]
    assert json.loads(deepest)["next"]["next"]["either"] == 0


def test_a_huge_claim_of_avro_is_refused_before_anything_is_allocated() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}],
    }
    claim = fastavro_long(1 << 40)
    typed = decode(avro_version(schema), [claim])
    assert "claims" in typed.error[0].as_py()


def fastavro_long(number: int) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, "long", number)
    return file.getvalue()


# ---- Protobuf ----


def proto_schema() -> bytes:
    files = descriptor_pb2.FileDescriptorSet()
    for known in (timestamp_pb2, wrappers_pb2):
        known.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="order.proto", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    field = descriptor_pb2.FieldDescriptorProto
    message = file.message_type.add(name="Order")
    state = message.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=2)
    line = message.nested_type.add(name="Line")
    line.field.add(name="n", number=1, type=field.TYPE_INT32, label=1)
    line.field.add(name="s", number=2, type=field.TYPE_STRING, label=1)
    scalars = [
        ("id", field.TYPE_INT64),
        ("count", field.TYPE_INT32),
        ("delta", field.TYPE_SINT64),
        ("small", field.TYPE_SINT32),
        ("unsigned", field.TYPE_UINT32),
        ("large", field.TYPE_UINT64),
        ("fixed", field.TYPE_FIXED32),
        ("signed", field.TYPE_SFIXED64),
        ("amount", field.TYPE_DOUBLE),
        ("rate", field.TYPE_FLOAT),
        ("paid", field.TYPE_BOOL),
        ("name", field.TYPE_STRING),
        ("raw", field.TYPE_BYTES),
    ]
    for number, (name, kind) in enumerate(scalars, 1):
        message.field.add(name=name, number=number, type=kind, label=1)
    message.field.add(
        name="state", number=14, type=field.TYPE_ENUM, type_name=".Order.State", label=1
    )
    message.field.add(
        name="line", number=15, type=field.TYPE_MESSAGE, type_name=".Order.Line", label=1
    )
    message.field.add(
        name="lines", number=16, type=field.TYPE_MESSAGE, type_name=".Order.Line", label=3
    )
    message.field.add(name="numbers", number=17, type=field.TYPE_INT32, label=3)
    message.field.add(name="names", number=18, type=field.TYPE_STRING, label=3)
    for name, number, known_type in (("at", 19, "Timestamp"), ("maybe", 20, "Int64Value")):
        message.field.add(
            name=name,
            number=number,
            type=field.TYPE_MESSAGE,
            type_name=f".google.protobuf.{known_type}",
            label=1,
        )
    return files.SerializeToString()


PROTO = SchemaVersion(1, 1, "protobuf", proto_schema())
_parsed = parse(PROTO).schema
assert isinstance(_parsed, ProtobufSchema)
Order: Any = _parsed.message

_proto_orders = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(-(2**63), 2**63 - 1),
        "count": st.integers(-(2**31), 2**31 - 1),
        "delta": st.integers(-(2**63), 2**63 - 1),
        "small": st.integers(-(2**31), 2**31 - 1),
        "unsigned": st.integers(0, 2**32 - 1),
        "large": st.integers(0, 2**64 - 1),
        "fixed": st.integers(0, 2**32 - 1),
        "signed": st.integers(-(2**63), 2**63 - 1),
        "amount": st.floats(),
        "rate": st.floats(width=32),
        "paid": st.booleans(),
        "name": st.text(max_size=200),
        "raw": st.binary(max_size=5),
        "state": st.sampled_from([0, 2, 7]),
        "line": st.builds(dict, n=st.integers(0, 300), s=st.text(max_size=2)),
        "lines": st.lists(
            st.builds(dict, n=st.integers(-5, 300), s=st.text(max_size=2)), max_size=3
        ),
        "numbers": st.lists(st.integers(-5, 2**31 - 1), max_size=4),
        "names": st.lists(st.text(max_size=2), max_size=3),
        "at": st.builds(dict, seconds=st.integers(-(10**12), 10**12), nanos=st.integers(-1, 10**9)),
        "maybe": st.builds(dict, value=st.integers(-5, 5)),
    },
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_proto_orders, min_size=1, max_size=5), st.data())
def test_quick_protobuf_agrees_with_the_reference(values: list[Any], data: Any) -> None:
    payloads = [Order(**each).SerializeToString() for each in values]
    agree(PROTO, payloads)
    damaged = [_damaged(data.draw, each) for each in payloads]
    agree(PROTO, [*payloads, *damaged])


def test_protobuf_values_have_the_declared_types() -> None:
    payload = Order(
        id=7, state=2, at={"seconds": 1, "nanos": 1000}, lines=[{"n": 1}], large=2**64 - 1
    ).SerializeToString()
    (value,) = decode(PROTO, [payload]).value.to_pylist()
    assert value["id"] == 7 and value["state"] == "PAID" and int(value["large"]) == 2**64 - 1
    assert value["at"] == datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)
    assert value["lines"] == [{"n": 1, "s": ""}]
    assert value["name"] == "" and value["maybe"] is None and value["line"] is None
