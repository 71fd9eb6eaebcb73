"""Converts rows of a data frame to records: payload, key and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from pyspark.sql.types import BinaryType, MapType, StringType, StructType

from sulina.errors import Refused

PAYLOAD: Final = "payload"
KEY: Final = "key"
ATTRIBUTES: Final = "attributes"
_ROWS: Final = 4096


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Records to publish, column by column."""

    payloads: list[bytes]
    keys: list[bytes | None] | None
    attributes: list[Mapping[str, str] | None] | None

    def __len__(self) -> int:
        return len(self.payloads)


def check_columns(schema: StructType) -> None:
    """Raises ``Refused`` if a data frame with this schema cannot be published."""
    text = (BinaryType, StringType)
    allowed: dict[str, tuple[type, ...]] = {PAYLOAD: text, KEY: text, ATTRIBUTES: (MapType,)}
    for field in schema.fields:
        if field.name not in allowed:
            raise Refused(
                f"column {field.name} cannot be published: records have payload (binary or "
                "string), key (binary or string) and attributes (map of strings). Put other "
                "columns into the payload: to_json(struct(...)) AS payload"
            )
        if not isinstance(field.dataType, allowed[field.name]):
            raise Refused(
                f"column {field.name} must not be of type {field.dataType.simpleString()}"
            )
    if PAYLOAD not in schema.fieldNames():
        raise Refused("there is no column payload: create one with to_json(struct(...)) AS payload")


def from_batches(batches: Iterable[Any]) -> Iterator[RecordChunk]:
    """Records from Arrow batches."""
    for batch in batches:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        for start in range(0, batch.num_rows, _ROWS):
            part = {name: values[start : start + _ROWS] for name, values in columns.items()}
            yield _records(part)


def from_rows(rows: Iterable[Any], names: Sequence[str]) -> Iterator[RecordChunk]:
    """Records from Spark's rows."""
    iterator = iter(rows)
    while chunk := list(islice(iterator, _ROWS)):
        yield _records({name: [row[name] for row in chunk] for name in names})


def _records(columns: Mapping[str, list[Any]]) -> RecordChunk:
    payloads = columns[PAYLOAD]
    if None in payloads:
        raise Refused("a payload is null: filter such rows out, or use an empty payload")
    keys, attributes = columns.get(KEY), columns.get(ATTRIBUTES)
    return RecordChunk(
        [_bytes(value) for value in payloads],
        None if keys is None else [None if key is None else _bytes(key) for key in keys],
        None if attributes is None else [_attributes(entry) for entry in attributes],
    )


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _attributes(entry: Any) -> Mapping[str, str] | None:
    """A map is a list of pairs in Arrow and a dictionary in a row."""
    return (
        {name: value for name, value in dict(entry).items() if value is not None} if entry else None
    )
