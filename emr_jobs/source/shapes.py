"""The shape of typed payloads: an intermediate form between a schema and Spark's types. Pure.

Values whose type a schema leaves open become JSON text, so that nothing is lost and Spark's JSON
functions can read them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

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
    TimestampType,
)

TEXT: Final = "text"
"""Any value, as JSON text."""


@dataclass(frozen=True, slots=True)
class PayloadShape:
    """A simple or nested type."""

    kind: str
    fields: Mapping[str, PayloadShape] = field(default_factory=dict)
    """The fields of a struct."""
    item: PayloadShape | None = None
    """The items of an array, or the values of a map."""
    precision: int = 0
    scale: int = 0

    @property
    def has_texts(self) -> bool:
        """Whether some part is JSON text, which Arrow's JSON reader does not support."""
        inner = [*self.fields.values(), *([] if self.item is None else [self.item])]
        return self.kind == TEXT or any(each.has_texts for each in inner)


_SIMPLE: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    TEXT: StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
}


def spark_type(shape: PayloadShape) -> DataType:
    """The Spark type. Everything is nullable, because the versions of a schema differ."""
    if shape.kind == "struct":
        fields = [StructField(name, spark_type(each)) for name, each in shape.fields.items()]
        return StructType(fields)
    if shape.kind == "decimal":
        return DecimalType(shape.precision, shape.scale)
    if shape.kind in ("array", "map"):
        assert shape.item is not None
        inner = spark_type(shape.item)
        return ArrayType(inner) if shape.kind == "array" else MapType(StringType(), inner)
    return _SIMPLE[shape.kind]


def from_json(value: Any, shape: PayloadShape) -> Any:
    """Convert a JSON value for Arrow. Raises ``ValueError`` if it does not match the shape."""
    if value is None:
        return None
    kind = shape.kind
    if kind == TEXT:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if kind == "struct" and isinstance(value, dict):
        return {name: from_json(value.get(name), each) for name, each in shape.fields.items()}
    if kind == "array" and isinstance(value, list):
        assert shape.item is not None
        return [from_json(each, shape.item) for each in value]
    if kind == "map" and isinstance(value, dict):
        assert shape.item is not None
        return [(name, from_json(each, shape.item)) for name, each in value.items()]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "double" and number:
        return float(value)
    if kind == "long" and number and int(value) == value and -(1 << 63) <= value < 1 << 63:
        return int(value)
    if (kind == "string" and isinstance(value, str)) or (
        kind == "boolean" and isinstance(value, bool)
    ):
        return value
    raise ValueError(f"{json.dumps(value)[:80]} is not of type {kind}")
