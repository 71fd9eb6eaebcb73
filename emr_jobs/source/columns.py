"""The columns that the data source offers, and the way from an object's rows to Spark's.

A schema given by the user selects: only its columns are read from the objects. Columns may be
asked for in another type that their values can be cast to, as payloads and keys in ``string``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sulina.errors import Refused
from sulina.lake import schema as lake
from sulina.lake.layout import ObjectName

NAMESPACE: Final = "namespace"
TOPIC: Final = "topic"
PARTITION: Final = "partition"
VALUE: Final = "value"
"""The payload as typed fields."""

_STORED: Final[dict[str, DataType]] = {
    lake.OFFSET: LongType(),
    lake.PUBLISH_TIME: TimestampType(),
    lake.PRODUCER: StringType(),
    lake.SEQUENCE: LongType(),
    lake.KEY: BinaryType(),
    lake.PAYLOAD: BinaryType(),
    lake.ATTRIBUTES: MapType(StringType(), StringType()),
    lake.SCHEMA_ID: LongType(),
    lake.SCHEMA_VERSION: IntegerType(),
    lake.DELIVERY_TIME: TimestampType(),
    lake.FRAME: BinaryType(),
}
_PLACES: Final[dict[str, DataType]] = {
    NAMESPACE: StringType(),
    TOPIC: StringType(),
    PARTITION: IntegerType(),
}
_NEVER_NULL: Final = frozenset(_PLACES) | {
    field.name for field in lake.OBJECT_SCHEMA if not field.nullable
}
"""Spark does not look for nulls in them, which saves a part of its work for each row."""
_to_arrow: Final[Callable[..., Any]] = to_arrow_schema
_TAKES_NULL_TYPE: Final = pyspark.__version__.startswith("4.0.")
DEFAULT: Final = (*_PLACES, *(name for name in _STORED if name != lake.FRAME))
"""What a read has unless told otherwise. ``frame`` is for replays and has to be asked for."""


def default_schema(columns: Sequence[str] = (), value: DataType | None = None) -> StructType:
    """The schema of a read of ``columns``, or of the usual ones. Raises ``Refused``.

    With typed payloads (``value``) these take the place of the payload's bytes.
    """
    if not columns:
        columns = DEFAULT
        if value is not None:
            columns = [VALUE if name == lake.PAYLOAD else name for name in columns]
    types = _types(value)
    for name in columns:
        if name not in types:
            raise Refused(f"there is no column {name!r}: those known are {', '.join(types)}")
    return StructType([StructField(name, types[name], name not in _NEVER_NULL) for name in columns])


def check_schema(schema: StructType, value: DataType | None) -> None:
    """Raise ``Refused`` if the user asks for a column that there is not."""
    default_schema(schema.fieldNames() or [lake.OFFSET], value)


def arrow_schema(schema: StructType) -> Any:
    """The very types in which Spark expects batches of ``schema``."""
    # From 4.1 on the time zone has to be told; before, there is no such parameter.
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return _to_arrow(schema, timezone="UTC")
    return _to_arrow(schema)


class Shaper:
    """Turns rows of an object into batches of the schema that Spark asked for.

    Columns of ``empty`` are null in all rows. Spark 4.0 gets them in Arrow's type for that,
    whatever theirs is: it has no bytes, and no value is asked for where there is none. Later
    versions insist on the right type.
    """

    def __init__(self, schema: StructType, empty: Collection[str] = ()) -> None:
        fields = arrow_schema(schema)
        for number, name in enumerate(fields.names):
            if name in empty and _TAKES_NULL_TYPE:
                fields = fields.set(number, pa.field(name, pa.null()))
        self._schema = fields
        self._names = schema.fieldNames()
        self._empty = empty
        self._repeated: dict[tuple[str, str | int | None], Any] = {}

    @property
    def stored(self) -> list[str]:
        """The columns that have to be read from objects for it."""
        return [name for name in self._names if name in _STORED and name not in self._empty]

    @property
    def wants_value(self) -> bool:
        return VALUE in self._names

    @property
    def value_type(self) -> Any:
        """The type of the payload's typed column in Arrow."""
        return self._schema.field(VALUE).type

    def shape(self, rows: Any, name: ObjectName, value: Any = None) -> Any:
        """A record batch of the schema. Raises ``Refused`` for values that can't be cast."""
        count = rows.num_rows
        place: dict[str, str | int] = {
            NAMESPACE: name.namespace,
            TOPIC: name.topic,
            PARTITION: name.partition,
        }
        columns = []
        for field in self._schema:
            if field.name in self._empty:
                column = self._repeat(None, field, count)
            elif field.name == VALUE:
                column = value
            elif field.name in _STORED:
                column = rows.column(field.name)
            else:
                column = self._repeat(place[field.name], field, count)
            if column.type != field.type:
                column = _cast(column, field)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _repeat(self, value: str | int | None, field: Any, count: int) -> Any:
        """A column of one value, which most batches share with the one before."""
        found = self._repeated.get((field.name, value))
        if found is None or len(found) < count:
            found = (
                pa.nulls(count, field.type)
                if value is None
                else _cast(pa.repeat(pa.scalar(value), count), field)
            )
            self._repeated[field.name, value] = found
        return found.slice(0, count)


def _cast(column: Any, field: Any) -> Any:
    try:
        if pa.types.is_map(field.type):
            return column.cast(field.type)
        return pc.cast(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Refused(
            f"column {field.name} can't be read as {field.type}: {error}. Read it as "
            f"{_STORED.get(field.name, StringType()).simpleString()} and convert it in Spark"
        ) from None


def _types(value: DataType | None) -> dict[str, DataType]:
    types = {**_PLACES, **_STORED}
    if value is not None:
        types[VALUE] = value
    return types
