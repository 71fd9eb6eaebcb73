"""Protobuf payloads, one at a time, by Protobuf's own library. Pure.

An absent field is null if its schema tells absent from default, and otherwise the default. An empty
payload is a message without fields, as Protobuf defines it.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from sulina.lake.typed.protobuf_shape import ProtobufSchema, ProtobufWire
from sulina.lake.typed.rows import ReadOne, Unfit
from sulina.lake.typed.shapes import BARE, RANGES, Shape

FIRST_SECOND, LAST_SECOND = (each // 1_000_000 for each in RANGES["timestamp"])
"""Before and after, a ``Timestamp`` is invalid."""


def protobuf_reader(schema: ProtobufSchema) -> ReadOne:
    """Reads payloads of ``schema``."""

    def read(payload: bytes) -> Any:
        message = schema.message()
        try:
            message.ParseFromString(payload)
        except DecodeError as error:
            raise Unfit(f"it is not a {message.DESCRIPTOR.full_name}: {error}") from None
        if schema.shape.wire == BARE:
            return {"value": _json(message)}
        return _struct(message, schema.shape)

    return read


def _struct(message: Any, shape: Shape) -> Any:
    found = {}
    for each in shape.fields:
        try:
            found[each.name] = _field(message, each.name, each.shape)
        except Unfit as error:
            raise error.within(each.name) from None
        except UnicodeDecodeError:
            raise Unfit("a string is not UTF-8", each.name) from None
    return found


def _field(message: Any, name: str, shape: Shape) -> Any:
    wire: ProtobufWire = shape.wire
    if wire.form == "list":
        assert shape.item is not None
        return [_value(each, shape.item, shape.item.wire) for each in getattr(message, name)]
    if wire.form == "map":
        assert shape.item is not None and shape.key is not None
        entries = getattr(message, name)
        return [
            (
                _value(key, shape.key, shape.key.wire),
                _value(entries[key], shape.item, shape.item.wire),
            )
            for key in sorted(entries)
        ]
    if wire.presence and not message.HasField(name):
        return None
    return _value(getattr(message, name), shape, wire)


def _value(value: Any, shape: Shape, wire: ProtobufWire) -> Any:
    if wire.form == "timestamp":
        if not FIRST_SECOND <= value.seconds <= LAST_SECOND or not 0 <= value.nanos < 1_000_000_000:
            raise Unfit(f"{value.seconds} seconds and {value.nanos} nanoseconds are not a time")
        return value.seconds * 1_000_000 + value.nanos // 1000
    if wire.form == "wrapper":
        assert wire.item is not None
        return _value(value.value, shape, wire.item)
    if wire.form == "open":
        return _json(value)
    if wire.form == "message":
        return _struct(value, shape)
    if wire.field is not None and wire.field.enum_type is not None:
        return enum_name(wire.field, value)
    return value


def enum_name(field: Any, number: int) -> str:
    """An enum's value by name; one that the schema lacks is its number."""
    found = field.enum_type.values_by_number.get(number)
    return str(number) if found is None else str(found.name)


def _json(message: Message) -> str:
    try:
        return json_format.MessageToJson(
            message, indent=None, preserving_proto_field_name=True, ensure_ascii=False
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise Unfit(f"it has no form in JSON: {error}") from None
