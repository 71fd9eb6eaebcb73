"""Whether Protobuf data of one message type can be read with another without losing values.

Fields are matched by number, as on the wire. Protobuf keeps fields that the reader lacks; fields
that the data lacks have their defaults.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from broker_containers.schemas.steps import TooManySteps, spend

_D: Final = FieldDescriptor
_NAMES: Final = {
    getattr(_D, name): name.removeprefix("TYPE_").lower()
    for name in vars(_D)
    if name.startswith("TYPE_")
}
_READABLE: Final[dict[int, tuple[int, ...]]] = {
    _D.TYPE_INT32: (_D.TYPE_INT64,),
    _D.TYPE_UINT32: (_D.TYPE_UINT64, _D.TYPE_INT64),
    _D.TYPE_SINT32: (_D.TYPE_SINT64,),
    _D.TYPE_BOOL: (_D.TYPE_INT32, _D.TYPE_INT64, _D.TYPE_UINT32, _D.TYPE_UINT64),
    _D.TYPE_ENUM: (_D.TYPE_INT32, _D.TYPE_INT64),
    _D.TYPE_STRING: (_D.TYPE_BYTES,),
    _D.TYPE_MESSAGE: (_D.TYPE_BYTES,),
}
"""Types as which a type can be read with all its values: wider or less structured ones."""


def unreadable(writer: Descriptor, reader: Descriptor) -> list[str]:
    """Why the reader cannot read the writer's messages, one sentence per problem."""
    comparison = _Comparison()
    try:
        comparison.messages(writer, reader, "")
    except (TooManySteps, RecursionError):
        return ["the schemas are too complex to compare: simplify them"]
    return comparison.found


class _Comparison:
    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()
        self.found: list[str] = []

    def messages(self, writer: Descriptor, reader: Descriptor, path: str) -> None:
        pair = writer.full_name, reader.full_name
        if pair in self._seen:
            return
        self._seen.add(pair)
        spend(1 + ((len(writer.fields) + len(reader.fields)) >> 2))
        written = {field.number: field for field in writer.fields}
        for field in reader.fields:
            place = f"{path}.{field.name}" if path else field.name
            before = written.get(field.number)
            if before is not None:
                self._fields(before, field, place)
            if field.is_required and not (before is not None and before.is_required):
                self._tell(place, "it is required and may be missing in data")
        for group in reader.oneofs:
            those = [written[field.number] for field in group.fields if field.number in written]
            groups = [field.containing_oneof for field in those]
            if len(those) > 1 and (None in groups or len({g.name for g in groups if g}) > 1):
                names = ", ".join(field.name for field in those)
                self._tell(path, f"{names} could be set together, but {group.name} keeps only one")

    def _fields(self, writer: FieldDescriptor, reader: FieldDescriptor, place: str) -> None:
        if writer.is_repeated and not reader.is_repeated:
            self._tell(place, "there may be several values, but only one is read")
        if writer.type != reader.type:
            if reader.type not in _READABLE.get(writer.type, ()):
                names = _NAMES[writer.type], _NAMES[reader.type]
                self._tell(place, f"{names[0]} cannot be read as {names[1]}")
        elif reader.enum_type is not None:
            self._enums(_enum(writer), reader.enum_type, place)
        elif reader.message_type is not None:
            self.messages(_message(writer), reader.message_type, place)

    def _enums(self, writer: EnumDescriptor, reader: EnumDescriptor, place: str) -> None:
        if not reader.is_closed:
            return  # an open enum keeps unknown numbers
        spend((len(writer.values) + len(reader.values)) >> 3)
        extra = {*writer.values_by_number} - {*reader.values_by_number}
        if extra:
            names = (writer.values_by_number[number].name for number in sorted(extra))
            self._tell(place, f"the enum {reader.name} lacks {', '.join(names)}")

    def _tell(self, place: str, why: str) -> None:
        self.found.append(f"{place}: {why}" if place else why)


def _enum(field: FieldDescriptor) -> EnumDescriptor:
    assert field.enum_type is not None
    return field.enum_type


def _message(field: FieldDescriptor) -> Descriptor:
    assert field.message_type is not None
    return field.message_type
