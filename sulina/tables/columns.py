"""The columns of a topic's table, in Iceberg's terms.

All columns of the objects except ``frame``, and ``partition``, whose value comes from the partition
of the file. Field ids are those of the objects; an object without ids is read by name. ``value``
and ``value_error`` come with the first object that has them, and grow with it: columns are
identified by id, and none is ever removed.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from sulina.lake.schema import (
    ATTRIBUTES,
    FRAME,
    OBJECT_SCHEMA,
    OFFSET,
    PUBLISH_TIME,
    VALUE,
    VALUE_ERROR,
    WRITTEN_SCHEMA,
)

PARTITION: Final = "partition"
_PARTITION_ID: Final = 100
"""Among those that objects leave to tables."""


def _base() -> Schema:
    plain = pa.schema(
        [
            field.with_type(OBJECT_SCHEMA.field(field.name).type)
            if field.name != ATTRIBUTES
            else field
            for field in WRITTEN_SCHEMA
            if field.name != FRAME
        ]
    )
    fields = pyarrow_to_schema(plain).fields
    partition = NestedField(_PARTITION_ID, PARTITION, IntegerType(), required=False)
    return Schema(*fields, partition)


def _id(name: str) -> int:
    return int(OBJECT_SCHEMA.get_field_index(name)) + 1


SCHEMA: Final = _base()
"""Of a topic without typed columns."""
_FRAME: Final = MappedField.model_validate({"field-id": _id(FRAME), "names": [FRAME]})
NAMES: Final = NameMapping([*SCHEMA.name_mapping.root, _FRAME])
"""The ids of columns in objects without ids. pyiceberg refuses an object with a column that is not
here, although the table does not have it."""
OFFSET_ID: Final = _id(OFFSET)
TIME_ID: Final = _id(PUBLISH_TIME)
_BY_PARTITION: Final = PartitionField(_PARTITION_ID, 1000, IdentityTransform(), PARTITION)
SPEC: Final = PartitionSpec(_BY_PARTITION)
"""Of files with records of several days."""
DAY_SPEC: Final = PartitionSpec(
    _BY_PARTITION,
    PartitionField(TIME_ID, 1001, DayTransform(), f"{PUBLISH_TIME}_day"),
    spec_id=1,
)
"""Of files with records of one day."""
ORDER: Final = SortOrder(SortField(OFFSET_ID, IdentityTransform()), order_id=1)


def typed_fields(object_schema: pa.Schema) -> tuple[NestedField, ...]:
    """``value`` and ``value_error`` of an object, if it has them."""
    names = [each for each in (VALUE, VALUE_ERROR) if each in object_schema.names]
    if not names:
        return ()
    return pyarrow_to_schema(pa.schema([object_schema.field(each) for each in names])).fields


def grown(schema: Schema, typed: tuple[NestedField, ...]) -> Schema | None:
    """``schema`` with the typed columns of an object, or None if it has them all."""
    fields = _merged(schema.fields, typed)
    if fields == schema.fields:
        return None
    return Schema(*fields, schema_id=schema.schema_id + 1)


def _merged(
    known: tuple[NestedField, ...], found: tuple[NestedField, ...]
) -> tuple[NestedField, ...]:
    """The known fields in their order, wider where need be, then those that are new."""
    new = {field.field_id: field for field in found}
    fields = [
        _field(field, _wider(field.field_type, new.pop(field.field_id).field_type))
        if field.field_id in new
        else field
        for field in known
    ]
    names = {field.name for field in fields}
    for field in new.values():
        name = field.name if field.name not in names else f"{field.name}_{field.field_id}"
        fields.append(NestedField(field.field_id, name, field.field_type, required=False))
        names.add(name)
    return tuple(fields)


def _field(field: NestedField, type_: IcebergType) -> NestedField:
    if type_ == field.field_type:
        return field
    return NestedField(field.field_id, field.name, type_, required=field.required, doc=field.doc)


def _wider(known: IcebergType, found: IcebergType) -> IcebergType:
    """The type that holds both. An id has one kind of values, so others do not meet."""
    match known, found:
        case StructType(), StructType():
            return StructType(*_merged(known.fields, found.fields))
        case ListType(), ListType():
            element = _wider(known.element_type, found.element_type)
            return ListType(known.element_id, element, element_required=known.element_required)
        case MapType(), MapType():
            value = _wider(known.value_type, found.value_type)
            return MapType(
                *(known.key_id, known.key_type, known.value_id, value),
                value_required=known.value_required,
            )
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return found
        case DecimalType(), DecimalType() if found.precision > known.precision:
            return found
        case _:
            return known
