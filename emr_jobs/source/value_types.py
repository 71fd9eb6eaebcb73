"""The Spark types of a table's columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sulina.lake.typed.table import Column

_SIMPLE: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "local_timestamp": TimestampNTZType(),
    "time": LongType(),
    "string": StringType(),
    "uuid": StringType(),
    "json": StringType(),
    "binary": BinaryType(),
}


def struct_of(columns: Sequence[Column]) -> StructType:
    """The type of ``value``; everything may be null."""
    return StructType([StructField(each.name, _type(each)) for each in columns])


def _type(column: Column) -> DataType:
    if column.kind == "struct":
        return struct_of(column.children)
    if column.kind == "list":
        return ArrayType(_type(column.children[0]))
    if column.kind == "map":
        key, value = column.children
        return MapType(_type(key), _type(value))
    if column.kind == "decimal":
        return DecimalType(column.precision, column.scale)
    return _SIMPLE[column.kind]
