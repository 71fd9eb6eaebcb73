"""The typed columns of an object: their schema, and how they are written.

They follow the columns of ``OBJECT_SCHEMA``. All texts have dictionaries, which Parquet's writer
gives up where they do not pay; numbers and times have statistics, so that engines skip row groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from sulina.lake.schema import (
    PAYLOAD,
    SCHEMA_ID,
    SCHEMA_VERSION,
    VALUE,
    VALUE_ERROR,
    VALUE_ERROR_ID,
    VALUE_ID,
    WRITER_OPTIONS,
    WRITTEN_SCHEMA,
    with_id,
)
from sulina.lake.typed.columns import PayloadDecoder
from sulina.lake.typed.table import Column, TableSchema

_TEXTS: Final = ("string", "uuid", "json")
_NO_STATISTICS: Final = (*_TEXTS, "binary")


@dataclass(frozen=True, slots=True)
class TypedObject:
    """How the objects of a table are written."""

    table: TableSchema

    @property
    def schema(self) -> pa.Schema:
        """The schema of the object, with field ids."""
        value = with_id(pa.field(VALUE, self.table.arrow_type), VALUE_ID)
        error = with_id(pa.field(VALUE_ERROR, pa.string()), VALUE_ERROR_ID)
        return pa.schema([*WRITTEN_SCHEMA, value, error])

    @property
    def writer_options(self) -> dict[str, Any]:
        """Options for ``pyarrow.parquet.ParquetWriter``."""
        leaves = list(_leaves(self.table.columns, VALUE))
        texts = [path for path, kind in leaves if kind in _TEXTS]
        counted = [path for path, kind in leaves if kind not in _NO_STATISTICS]
        return {
            **WRITER_OPTIONS,
            "use_dictionary": [*WRITER_OPTIONS["use_dictionary"], *texts, VALUE_ERROR],
            "write_statistics": [*WRITER_OPTIONS["write_statistics"], *counted, VALUE_ERROR],
        }

    def add_to(self, batch: pa.RecordBatch, decoder: PayloadDecoder) -> tuple[pa.RecordBatch, int]:
        """The batch with its typed columns, and how many payloads do not fit."""
        columns = [batch.column(name) for name in (PAYLOAD, SCHEMA_ID, SCHEMA_VERSION)]
        typed = decoder.decode(*columns)
        whole = [*batch.columns, typed.value, typed.error]
        return pa.RecordBatch.from_arrays(whole, schema=self.schema), typed.rejected


def _leaves(columns: Sequence[Column], path: str) -> Iterator[tuple[str, str]]:
    """The columns of values, with the names that Parquet gives them."""
    for each in columns:
        place = f"{path}.{each.name}"
        if each.kind == "list":
            yield from _inner(each.children[0], f"{place}.list.element")
        elif each.kind == "map":
            for name, child in zip(("key", "value"), each.children, strict=True):
                yield from _inner(child, f"{place}.key_value.{name}")
        else:
            yield from _inner(each, place)


def _inner(column: Column, place: str) -> Iterator[tuple[str, str]]:
    if column.kind == "struct":
        yield from _leaves(column.children, place)
    elif column.children:
        whole, _, _ = place.rpartition(".")
        yield from _leaves([column], whole)
    else:
        yield place, column.kind
