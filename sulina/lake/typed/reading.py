"""Typed columns for readers: those that an object has, or decoded from its payloads.

Both give the same: all readers compute the same table from the same versions of a subject.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sulina.lake.schema import PAYLOAD, SCHEMA_ID, SCHEMA_VERSION, VALUE, VALUE_ERROR
from sulina.lake.summary import TypedSummary
from sulina.lake.typed.columns import PayloadDecoder, Typed
from sulina.lake.typed.schema_version import TYPED, SchemaVersion
from sulina.lake.typed.table import TableSchema, table_schema


@dataclass(frozen=True, slots=True)
class ValueReader:
    """The table of some versions. It can be sent to other processes; not for several threads."""

    versions: tuple[SchemaVersion, ...]
    as_of: int = 0
    """The version whose columns to read; 0 for those of all."""

    @property
    def table(self) -> TableSchema | None:
        """None if no version has columns. Raises ``NotFound`` if there is no version ``as_of``."""
        return _table(self.versions, self.as_of)

    def columns(self, stored: TypedSummary | None) -> tuple[str, ...]:
        """The columns of an object that :meth:`decode` needs.

        Those that were stored count only if they are of the same versions: with others, defaults
        and the reading of records that name no version may differ.
        """
        numbers = {each.number for each in self.versions if each.type in TYPED}
        same = stored is not None and stored.subject_id == self.versions[-1].id
        if stored is not None and same and set(stored.versions) == numbers and not self.as_of:
            return VALUE, VALUE_ERROR
        return PAYLOAD, SCHEMA_ID, SCHEMA_VERSION

    def decode(self, rows: Any) -> Typed:
        """The typed columns of a record batch that has the columns which :meth:`columns` named."""
        if VALUE in rows.schema.names:
            return Typed(rows.column(VALUE), rows.column(VALUE_ERROR))
        columns = [rows.column(name) for name in (PAYLOAD, SCHEMA_ID, SCHEMA_VERSION)]
        return _decoder(self.versions, self.as_of).decode(*columns)


@lru_cache(maxsize=8)
def _table(versions: tuple[SchemaVersion, ...], as_of: int) -> TableSchema | None:
    found = table_schema(versions)
    return found.as_of(as_of) if found is not None and as_of else found


@lru_cache(maxsize=8)
def _decoder(versions: tuple[SchemaVersion, ...], as_of: int) -> PayloadDecoder:
    table = _table(versions, as_of)
    assert table is not None, "only versions with columns are decoded"
    return PayloadDecoder(table)
