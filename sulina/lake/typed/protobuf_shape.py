"""The shape of a Protobuf schema: the first message of its last file. Pure.

Fields are identified by number. Protobuf's own types: ``Timestamp`` becomes a timestamp, the
wrappers what they wrap, ``Struct``, ``Value`` and ``ListValue`` JSON text; ``Duration``, ``Any``
and others are messages like any. Enums become their names, ``uint32`` a long, ``uint64`` a decimal
of 20 digits. A message within itself becomes JSON text from its third repetition on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from sulina.errors import Refused
from sulina.lake.typed.shapes import (
    JSON_TEXT,
    MAX_REPEATS,
    MISSING,
    Budget,
    Shape,
    ShapeField,
    as_struct,
)

_F: Final = FieldDescriptor
_KINDS: Final = {
    _F.TYPE_BOOL: "boolean",
    _F.TYPE_INT32: "int",
    _F.TYPE_SINT32: "int",
    _F.TYPE_SFIXED32: "int",
    _F.TYPE_UINT32: "long",
    _F.TYPE_FIXED32: "long",
    _F.TYPE_INT64: "long",
    _F.TYPE_SINT64: "long",
    _F.TYPE_SFIXED64: "long",
    _F.TYPE_FLOAT: "float",
    _F.TYPE_DOUBLE: "double",
    _F.TYPE_STRING: "string",
    _F.TYPE_BYTES: "binary",
    _F.TYPE_ENUM: "string",
}
_UNSIGNED_64: Final = Shape("decimal", precision=20)
_OWN: Final = "google.protobuf."
_WRAPPERS: Final = frozenset(
    f"{_OWN}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_OPEN: Final = frozenset(f"{_OWN}{name}" for name in ("Struct", "Value", "ListValue"))


@dataclass(frozen=True, slots=True)
class ProtobufWire:
    """How values of a shape are encoded."""

    form: str
    """scalar, message, timestamp, wrapper, open (JSON text), list or map."""
    field: Any = None
    """The descriptor of a scalar's field."""
    item: ProtobufWire | None = None
    """Of a wrapper: of its only field."""
    presence: bool = True
    """Whether an absent value is null, rather than the default."""
    absent: Any = None
    """The value of an absent field, for Arrow."""


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """A parsed schema."""

    shape: Shape
    message: type[Message]


def protobuf_schema(descriptors: bytes) -> ProtobufSchema:
    """Parse a ``FileDescriptorSet``. Raises ``Refused``."""
    files = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        files.ParseFromString(descriptors)
        for file in files.file:
            pool.Add(file)
        last = files.file[-1]
        found = pool.FindFileByName(last.name).message_types_by_name[last.message_type[0].name]
        message = GetMessageClass(found)
    except Exception as error:  # the pool raises several types
        raise Refused(
            f"the Protobuf descriptors of the payloads cannot be read ({error}): register the "
            "schema again"
        ) from None
    shape = _Reader().message(found, 0, ())
    if shape.wire.form in ("timestamp", "wrapper"):  # the schema itself is one of Protobuf's types
        shape = replace(JSON_TEXT, wire=ProtobufWire("open"))
    return ProtobufSchema(as_struct(shape), message)


class _Reader:
    def __init__(self) -> None:
        self._budget = Budget()

    def message(self, message: Descriptor, depth: int, inside: tuple[str, ...]) -> Shape:
        name = message.full_name
        if name == f"{_OWN}Timestamp":
            return Shape("timestamp", wire=ProtobufWire("timestamp"))
        if name in _WRAPPERS:
            inner = self._single(message.fields[0], depth, inside)
            return replace(inner, wire=ProtobufWire("wrapper", item=inner.wire))
        open_ = name in _OPEN or inside.count(name) >= MAX_REPEATS or not message.fields
        if open_ or not self._budget.spend(depth):
            return replace(JSON_TEXT, wire=ProtobufWire("open"))
        fields = [self._field(each, depth + 1, (*inside, name)) for each in message.fields]
        return Shape("struct", tuple(fields), wire=ProtobufWire("message"))

    def _field(self, field: FieldDescriptor, depth: int, inside: tuple[str, ...]) -> ShapeField:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = (
                self._single(field.message_type.fields_by_name[name], depth, inside)
                for name in ("key", "value")
            )
            shape = Shape("map", item=value, key=key, wire=ProtobufWire("map", field))
            return ShapeField(field.name, shape, field.number, default=[])
        shape = self._single(field, depth, inside)
        if field.is_repeated:
            whole = Shape("list", item=shape, wire=ProtobufWire("list", field))
            return ShapeField(field.name, whole, field.number, default=[])
        default = MISSING if shape.wire.presence else shape.wire.absent
        return ShapeField(field.name, shape, field.number, default=default)

    def _single(self, field: FieldDescriptor, depth: int, inside: tuple[str, ...]) -> Shape:
        """The shape of one value of a field."""
        if field.message_type is not None:
            return self.message(field.message_type, depth, inside)
        if field.type in (_F.TYPE_UINT64, _F.TYPE_FIXED64):
            shape = _UNSIGNED_64
        else:
            shape = Shape(_KINDS[field.type])
        default: Any = field.default_value
        if field.enum_type is not None:
            default = field.enum_type.values_by_number[default].name
        # An optional field of proto2 with a default of its own is never null.
        presence = not field.is_repeated and field.has_presence and not field.has_default_value
        return replace(shape, wire=ProtobufWire("scalar", field, None, presence, default))
