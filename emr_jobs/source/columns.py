"""The data source's columns, and the conversion of an object's rows to Spark's.

If the user specifies a schema, only its columns are read from the objects. It may use other types
to which the values can be cast, such as ``string`` for payloads and keys.
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
from sulina.lake.typed.columns import Typed

NAMESPACE: Final = "namespace"
TOPIC: Final = "topic"
PARTITION: Final = "partition"
_TYPED: Final = (lake.VALUE, lake.VALUE_ERROR)
"""The payload as columns, and why it does not fit."""

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
_TOPIC_COLUMNS: Final[dict[str, DataType]] = {
    NAMESPACE: StringType(),
    TOPIC: StringType(),
    PARTITION: IntegerType(),
}
_NEVER_NULL: Final = frozenset(_TOPIC_COLUMNS) | {
    field.name for field in lake.OBJECT_SCHEMA if not field.nullable
}
"""Spark does not check them for nulls, which saves work per row."""
_to_arrow: Final[Callable[..., Any]] = to_arrow_schema
_TAKES_NULL_TYPE: Final = pyspark.__version__.startswith("4.0.")
DEFAULT: Final = (*_TOPIC_COLUMNS, *(name for name in _STORED if name != lake.FRAME))
"""The default columns. ``frame`` is for replays and must be requested."""


def default_schema(columns: Sequence[str] = (), value: DataType | None = None) -> StructType:
    """The schema of ``columns``, or of the default ones. Raises ``Refused`` for unknown columns.

    With typed payloads, ``value`` and ``value_error`` replace ``payload``.
    """
    if not columns:
        columns = DEFAULT
        if value is not None:
            place = columns.index(lake.PAYLOAD)
            columns = (*columns[:place], *_TYPED, *columns[place + 1 :])
    types = _types(value)
    for name in columns:
        if name not in types:
            raise Refused(f"there is no column {name!r}: choose from {', '.join(types)}")
    return StructType([StructField(name, types[name], name not in _NEVER_NULL) for name in columns])


def check_schema(schema: StructType, value: DataType | None) -> None:
    """Raises ``Refused`` if the user's schema has an unknown column."""
    default_schema(schema.fieldNames() or [lake.OFFSET], value)


def arrow_schema(schema: StructType) -> Any:
    """The Arrow types that Spark expects in batches of ``schema``."""
    # Spark 4.1 and newer require the time zone; older versions have no such parameter.
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return _to_arrow(schema, timezone="UTC")
    return _to_arrow(schema)


class Shaper:
    """Converts rows of an object to batches of the schema that Spark requested.

    Columns in ``empty`` are null in all rows. For Spark 4.0 they have Arrow's null type, which
    takes no memory; later versions require the column's own type.
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
        """The columns that must be read from objects."""
        return [name for name in self._names if name in _STORED and name not in self._empty]

    @property
    def wants_value(self) -> bool:
        """Whether a typed column is requested."""
        return any(name in self._names for name in _TYPED)

    def shape(self, rows: Any, name: ObjectName, typed: Typed | None = None) -> Any:
        """A record batch of the schema. Raises ``Refused`` for values that cannot be cast."""
        count = rows.num_rows
        topic: dict[str, str | int] = {
            NAMESPACE: name.namespace,
            TOPIC: name.topic,
            PARTITION: name.partition,
        }
        columns = []
        for field in self._schema:
            if field.name in self._empty:
                column = self._repeat(None, field, count)
            elif field.name in _TYPED:
                assert typed is not None, "typed columns come with a decoder"
                column = typed.value if field.name == lake.VALUE else typed.error
            elif field.name in _STORED:
                column = rows.column(field.name)
            else:
                column = self._repeat(topic[field.name], field, count)
            if column.type != field.type:
                column = _cast(column, field)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _repeat(self, value: str | int | None, field: Any, count: int) -> Any:
        """A column of one repeated value, cached because most batches need the same."""
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
        if pa.types.is_nested(field.type):
            return column.cast(field.type)
        return pc.cast(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Refused(
            f"column {field.name} cannot be read as {field.type}: {error}. Read it as "
            f"{_STORED.get(field.name, StringType()).simpleString()} and convert it in Spark"
        ) from None


def _types(value: DataType | None) -> dict[str, DataType]:
    types = {**_TOPIC_COLUMNS, **_STORED}
    if value is not None:
        types |= {lake.VALUE: value, lake.VALUE_ERROR: StringType()}
    return types
