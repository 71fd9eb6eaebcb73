"""Orders of about 200 bytes in each format that has typed columns, for ``benchmarks.lake``."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from google.protobuf import descriptor_pb2, timestamp_pb2

from sulina.lake.typed.protobuf_shape import protobuf_schema
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.lake.typed.table import TableSchema, table_schema

_STATES: Final = ("new", "paid", "packed", "sent")
_START: Final = 1_777_636_800
_TEXT: Final = {"type": "string"}
_FIELDS: Final = {
    "order": "long",
    "customer": "string",
    "state": "string",
    "amount": "double",
    "currency": "string",
    "placed": "time",
    "items": "int",
    "express": "boolean",
    "street": "string",
    "city": "string",
    "note": "string",
}


@dataclass(frozen=True, slots=True)
class OrderFormat:
    """A format, and its payloads."""

    name: str
    version: SchemaVersion
    encode: Callable[[dict[str, Any]], bytes]
    goal: float = 0.8
    """The rate with typed columns, as a share of that without."""

    @property
    def table(self) -> TableSchema:
        found = table_schema([self.version])
        assert found is not None
        return found


def make_orders(count: int, note: int) -> list[dict[str, Any]]:
    """Orders, the same in each run, with ``note`` words in their note."""
    random = Random(1)
    words = [f"{random.randrange(10**9):x}" for _ in range(2000)]
    return [
        {
            "order": random.randrange(10**8),
            "customer": f"customer-{random.randrange(1000)}",
            "state": random.choice(_STATES),
            "amount": random.randrange(10**5) / 100,
            "currency": random.choice(("EUR", "USD")),
            "placed": (_START + number) * 1_000_000 + random.randrange(10**6),
            "items": random.randrange(20),
            "express": random.random() < 0.5,
            "street": f"{random.choice(words)} {random.randrange(200)}",
            "city": random.choice(words[:200]),
            "note": " ".join(random.choices(words, k=note)),
        }
        for number in range(count)
    ]


def json_format() -> OrderFormat:
    """JSON Schema."""
    types = {"long": "integer", "int": "integer", "double": "number", "boolean": "boolean"}
    properties: dict[str, Any] = {
        name: {"type": types[kind]} if kind in types else dict(_TEXT)
        for name, kind in _FIELDS.items()
    }
    properties["placed"]["format"] = "date-time"
    schema = {"type": "object", "properties": properties}

    def encode(order: dict[str, Any]) -> bytes:
        seconds, micros = divmod(order["placed"] - _START * 1_000_000, 1_000_000)
        minutes, second = divmod(seconds, 60)
        hours, minute = divmod(minutes, 60)
        days, hour = divmod(hours, 24)
        at = f"2026-05-{days % 31 + 1:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"
        return json.dumps({**order, "placed": at}, separators=(",", ":")).encode()

    return OrderFormat(
        "JSON", SchemaVersion(1, 1, "json_schema", json.dumps(schema).encode()), encode, 0.6
    )


def avro_format() -> OrderFormat:
    """Avro."""
    import fastavro

    time = {"type": "long", "logicalType": "timestamp-micros"}
    fields = [
        {"name": name, "type": time if kind == "time" else kind} for name, kind in _FIELDS.items()
    ]
    schema = {"type": "record", "name": "Order", "fields": fields}
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))

    def encode(order: dict[str, Any]) -> bytes:
        data = io.BytesIO()
        fastavro.schemaless_writer(data, parsed, order)
        return data.getvalue()

    return OrderFormat("Avro", SchemaVersion(1, 1, "avro", json.dumps(schema).encode()), encode)


def protobuf_format() -> OrderFormat:
    """Protobuf."""
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {
        "long": field.TYPE_INT64,
        "int": field.TYPE_INT32,
        "double": field.TYPE_DOUBLE,
        "boolean": field.TYPE_BOOL,
        "string": field.TYPE_STRING,
    }
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="order.proto", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate(_FIELDS.items(), 1):
        added = message.field.add(name=name, number=number, label=field.LABEL_OPTIONAL)
        if kind == "time":
            added.type = field.TYPE_MESSAGE
            added.type_name = ".google.protobuf.Timestamp"
        else:
            added.type = kinds[kind]
    descriptors = files.SerializeToString()
    order_class: Any = protobuf_schema(descriptors).message

    def encode(order: dict[str, Any]) -> bytes:
        seconds, micros = divmod(order["placed"], 1_000_000)
        time = {"seconds": seconds, "nanos": micros * 1000}
        data: bytes = order_class(**{**order, "placed": time}).SerializeToString()
        return data

    return OrderFormat("Protobuf", SchemaVersion(1, 1, "protobuf", descriptors), encode)


def formats() -> list[tuple[OrderFormat, int]]:
    """Each format, and the number of words in a note that make about 200 bytes."""
    return [(json_format(), 1), (avro_format(), 13), (protobuf_format(), 11)]
