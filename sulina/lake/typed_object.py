"""The typed columns of an object: their schema, and how they are written.

They follow the columns of ``OBJECT_SCHEMA``. Numbers and times have statistics, so that engines
skip row groups; how values are stored depends on the first ones of the object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
from sulina.lake.typed.encodings import encodings
from sulina.lake.typed.table import TableSchema


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

    def writer_options(self, first: pa.RecordBatch) -> dict[str, Any]:
        """Options for ``pyarrow.parquet.ParquetWriter``, from the first records of an object."""
        values = first.column(first.schema.get_field_index(VALUE))
        found = encodings(self.table.columns, values, VALUE)
        base = WRITER_OPTIONS
        return {
            **base,
            "use_dictionary": [*base["use_dictionary"], *found.dictionaries, VALUE_ERROR],
            "column_encoding": {**base["column_encoding"], **found.others},
            "write_statistics": [*base["write_statistics"], *found.ordered, VALUE_ERROR],
        }

    def add_to(self, batch: pa.RecordBatch, decoder: PayloadDecoder) -> tuple[pa.RecordBatch, int]:
        """The batch with its typed columns, and how many payloads do not fit."""
        columns = [batch.column(name) for name in (PAYLOAD, SCHEMA_ID, SCHEMA_VERSION)]
        typed = decoder.decode(*columns)
        whole = [*batch.columns, typed.value, typed.error]
        return pa.RecordBatch.from_arrays(whole, schema=self.schema), typed.rejected
