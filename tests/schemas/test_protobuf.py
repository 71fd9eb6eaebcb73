"""Protobuf: .proto text compiled by protoc, descriptors, and data that is really read."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_containers.schemas.errors import InvalidPayload, InvalidSchema
from broker_containers.schemas.protobuf import Protobuf, descriptors_of
from broker_containers.schemas.registry import SchemaRegistry
from sulina.metadata.store import MetadataStore
from sulina.runtime.protoc import Protoc
from sulina.runtime.real_clock import RealClock

D = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "int32": D.TYPE_INT32, "int64": D.TYPE_INT64, "uint32": D.TYPE_UINT32,
    "uint64": D.TYPE_UINT64, "sint32": D.TYPE_SINT32, "sint64": D.TYPE_SINT64,
    "fixed32": D.TYPE_FIXED32, "sfixed64": D.TYPE_SFIXED64, "bool": D.TYPE_BOOL,
    "string": D.TYPE_STRING, "bytes": D.TYPE_BYTES, "double": D.TYPE_DOUBLE, "float": D.TYPE_FLOAT,
}  # fmt: skip
SIGNED = {bits: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (32, 64)}
UNSIGNED = {bits: st.integers(0, (1 << bits) - 1) for bits in (32, 64)}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int32": SIGNED[32], "int64": SIGNED[64], "uint32": UNSIGNED[32], "uint64": UNSIGNED[64],
    "sint32": SIGNED[32], "sint64": SIGNED[64], "fixed32": UNSIGNED[32], "sfixed64": SIGNED[64],
    "bool": st.booleans(), "string": st.text(max_size=5), "bytes": st.binary(max_size=5),
    "double": st.floats(allow_nan=False), "float": st.floats(width=32, allow_nan=False),
}  # fmt: skip


def message(**fields: tuple[int, str, bool]) -> descriptor_pb2.FileDescriptorSet:
    """A message with fields of a number, a type, and whether there are several."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="made.proto", package="made", syntax="proto3")
    made = file.message_type.add(name="M")
    for name, (number, kind, several) in fields.items():
        label = D.LABEL_REPEATED if several else D.LABEL_OPTIONAL
        made.field.add(name=name, number=number, type=SCALARS[kind], label=label)
    return files


async def compiled(text: str) -> Protobuf:
    return Protobuf(await descriptors_of(text.encode(), Protoc(RealClock()).compile))


async def unreadable(writer: str, reader: str) -> list[str]:
    return (await compiled(reader)).unreadable(await compiled(writer))


V1 = 'syntax = "proto3"; message User { string name = 1; int32 age = 2; repeated int32 marks = 3; }'


async def test_text_is_compiled_with_what_protobuf_brings_itself() -> None:
    schema = await compiled(
        'syntax = "proto3"; import "google/protobuf/timestamp.proto";'
        "message Event { google.protobuf.Timestamp at = 1; Kind kind = 2; }"
        "enum Kind { A = 0; } message Other { int32 x = 1; }"
    )
    assert schema.message.full_name == "Event"
    schema.check(bytes([0x0A, 0x02, 0x08, 0x05]))


async def test_what_protoc_does_not_take_is_refused_with_its_words() -> None:
    compiler = Protoc(RealClock()).compile
    for text, why in (
        (b"message { oops", "schema.proto:1"),
        (b'import "etc/passwd"; message A {}', "etc/passwd"),
        (b'syntax = "proto3"; enum {', "protoc rejected"),
    ):
        with pytest.raises(InvalidSchema, match=why):
            await descriptors_of(text, compiler)
    with pytest.raises(InvalidSchema, match="grpcio-tools"):
        await descriptors_of(V1.encode(), None)
    with pytest.raises(InvalidSchema, match="empty"):
        await descriptors_of(b"", compiler)


@pytest.mark.parametrize(
    ("descriptors", "why"),
    [
        (b"\xff\xff\xff", "neither .proto text"),
        (message().SerializeToString()[:0] + b"\x0a\x00", "no message"),
        (message(a=(1, "bool", False), b=(1, "bool", False)).SerializeToString(), "descriptors"),
    ],
)
def test_wrong_descriptors_are_refused(descriptors: bytes, why: str) -> None:
    with pytest.raises(InvalidSchema, match=why):
        Protobuf(descriptors)


async def test_remarks_in_the_text_do_not_make_another_schema() -> None:
    first = await compiled(V1)
    second = await compiled(V1.replace("; ", ";\n  // a remark\n  "))
    assert first.fingerprint == second.fingerprint


async def test_what_the_wire_carries_is_readable() -> None:
    head = 'syntax = "proto3"; message User { '
    for reader in (
        head + "string name = 1; }",
        head + "bytes name = 1; int64 age = 2; repeated int32 marks = 3; string mail = 4; }",
        head + "string called = 1; optional int32 age = 2; }",
        head + "repeated string name = 1; }",
    ):
        assert await unreadable(V1, reader) == []


async def test_what_breaks_is_told() -> None:
    head = 'syntax = "proto3"; message User { '
    assert await unreadable(V1, head + "int32 name = 1; uint32 age = 2; int32 marks = 3; }") == [
        "name: string cannot be read as int32",
        "age: int32 cannot be read as uint32",
        "marks: there may be several values, but only one is read",
    ]
    assert await unreadable(V1, head + "oneof one { string name = 1; int32 age = 2; } }") == [
        "name, age could be set together, but one keeps only one"
    ]
    two = 'syntax = "proto2"; message User { '
    assert await unreadable(two + "optional int32 a = 1; }", two + "required int32 a = 1; }") == [
        "a: it is required and may be missing in data"
    ]
    inner = head + "repeated Part parts = 1; message Part { %s size = 1; Part of = 2; } }"
    assert await unreadable(inner % "int64", inner % "int32") == [
        "parts.size: int64 cannot be read as int32"
    ]
    enum = two + "optional E e = 1; enum E { A = 0; %s } }"
    assert await unreadable(enum % "B = 1;", enum % "") == ["e: the enum E lacks B"]


FIELDS = st.dictionaries(
    st.sampled_from("abc"),
    st.tuples(st.integers(1, 4), st.sampled_from(sorted(SCALARS)), st.booleans()),
    min_size=1,
).filter(lambda fields: len({number for number, _, _ in fields.values()}) == len(fields))


@settings(max_examples=200, deadline=None)
@given(FIELDS, FIELDS, st.data())
def test_what_is_called_readable_is_read_with_its_values(
    written: dict[str, tuple[int, str, bool]],
    read: dict[str, tuple[int, str, bool]],
    data: st.DataObject,
) -> None:
    writer, reader = (Protobuf(message(**each).SerializeToString()) for each in (written, read))
    if reader.unreadable(writer):
        return
    sent = GetMessageClass(writer.message)()
    for name, (_, kind, several) in written.items():
        if several:
            getattr(sent, name).extend(data.draw(st.lists(VALUES[kind], max_size=3)))
        else:
            setattr(sent, name, data.draw(VALUES[kind]))
    payload = sent.SerializeToString()
    reader.check(payload)
    got = GetMessageClass(reader.message)()
    got.ParseFromString(payload)
    numbers = {number: (name, several) for name, (number, _, several) in read.items()}
    for name, (number, _, several) in written.items():
        if number in numbers:
            value = getattr(sent, name)
            mine, repeated = numbers[number]
            values = [_raw(each) for each in (value if several else [value])]
            if repeated and not several and not (value or str(value) == "-0.0"):
                values = []  # a default is not sent
            found = getattr(got, mine)
            assert [_raw(each) for each in (found if repeated else [found])] == values


def _raw(value: Any) -> Any:
    """A string may be read as bytes."""
    return value.encode() if isinstance(value, str) else value


def test_a_payload_that_is_no_message_is_refused() -> None:
    schema = Protobuf(message(a=(1, "string", False)).SerializeToString())
    schema.check(b"")
    for wrong in (b"\x0a\x05x", b"\xff", b"\x0a\x01\xff"):
        with pytest.raises(InvalidPayload, match=r"not a made\.M"):
            schema.check(wrong)


async def test_brokers_without_a_compiler_use_what_was_compiled(store: MetadataStore) -> None:
    clock = RealClock()
    await SchemaRegistry(store, clock, Protoc(clock).compile).register("u", "proto", V1.encode())
    other = SchemaRegistry(store, clock)
    stored = await other.version("u", 1)
    (await other.format_of(stored.version)).check(b"\x0a\x01x")
    wider = message(name=(1, "bytes", False), age=(2, "int64", False), marks=(3, "int32", True))
    made = await other.register("u", "protobuf", wider.SerializeToString())
    assert made.version == 2
    assert (await other.version("u", 1)).version.definition_bytes == V1.encode()


def test_descriptors_of_one_schema_do_not_meet_those_of_another() -> None:
    for kind in ("int32", "string"):
        Protobuf(message(a=(1, kind, False)).SerializeToString())
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("made.M")


async def test_without_protoc_text_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidSchema, match=r"install sulina\[schemas\]"):
        await descriptors_of(V1.encode(), Protoc(RealClock()).compile)
