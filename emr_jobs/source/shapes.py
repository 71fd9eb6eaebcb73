"""The shape of typed payloads, between a schema and Spark's types. Pure.

What a schema leaves open (several types at once, any value) becomes the text of its JSON, so that
nothing is lost and Spark's own functions can look into it.
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
"""Any value, as the text of its JSON."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A type: simple, or made of others."""

    kind: str
    fields: Mapping[str, Shape] = field(default_factory=dict)
    """Of a struct."""
    item: Shape | None = None
    """Of an array, and of the values of a map."""
    precision: int = 0
    scale: int = 0

    @property
    def has_texts(self) -> bool:
        """Whether some part is any value: Arrow's own reader of JSON can't give that."""
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


def spark_type(shape: Shape) -> DataType:
    """The same in Spark. Everything may be null: a registry's versions differ in their fields."""
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


def from_json(value: Any, shape: Shape) -> Any:
    """A value that was read from JSON, as Arrow takes it. Raises ``ValueError`` if it differs."""
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
