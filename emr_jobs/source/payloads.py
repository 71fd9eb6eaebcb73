"""Decodes payloads to the typed columns, with a schema from the registry or as text.

The registry is queried once, on the driver; tasks receive all versions with the plan, and compute
the same table from them (``sulina.lake.typed``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow.compute as pc
from pyspark.sql.types import StructType

from emr_jobs.source.options import PayloadOptions, TopicPatterns
from emr_jobs.source.registry import fetch_versions
from emr_jobs.source.value_types import struct_of
from sulina.errors import Refused
from sulina.lake.schema import (
    OFFSET,
    PAYLOAD,
    SCHEMA_ID,
    SCHEMA_VERSION,
    VALUE,
    VALUE_ERROR,
)
from sulina.lake.summary import ObjectSummary, TypedSummary
from sulina.lake.typed.columns import PayloadDecoder, Typed
from sulina.lake.typed.schema_version import TYPED, SchemaVersion
from sulina.lake.typed.table import TableSchema, table_schema

_TYPES: Final = {"json": "json_schema", "avro": "avro", "protobuf": "protobuf"}


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes payloads into one table. It is sent to the tasks with the plan."""

    versions: tuple[SchemaVersion, ...]
    as_of: int
    """The version whose columns to read; 0 for those of all."""
    fail: bool

    @property
    def type(self) -> StructType:
        """The Spark type of the column ``value``."""
        return struct_of(_table(self.versions, self.as_of).columns)

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

    def decode(self, rows: Any, summary: ObjectSummary) -> Typed:
        """The typed columns of ``rows``, which has the columns that :meth:`columns` named.

        A payload that does not fit has a null value and a reason, or raises ``Refused``, depending
        on the option ``onBadPayload``.
        """
        if VALUE in rows.schema.names:
            typed = Typed(rows.column(VALUE), rows.column(VALUE_ERROR))
        else:
            columns = [rows.column(name) for name in (PAYLOAD, SCHEMA_ID, SCHEMA_VERSION)]
            typed = _decoder(self.versions, self.as_of).decode(*columns)
        if self.fail and typed.rejected:
            raise _bad(rows, typed, summary)
        return typed


@lru_cache(maxsize=8)
def _table(versions: tuple[SchemaVersion, ...], as_of: int) -> TableSchema:
    found = table_schema(versions)
    if found is None:
        types = ", ".join(sorted({each.type for each in versions}))
        raise Refused(
            f"the subject has the type {types}, which has no columns: read the column payload"
        )
    return found.as_of(as_of) if as_of else found


@lru_cache(maxsize=8)
def _decoder(versions: tuple[SchemaVersion, ...], as_of: int) -> PayloadDecoder:
    return PayloadDecoder(_table(versions, as_of))


def _bad(rows: Any, typed: Typed, summary: ObjectSummary) -> Refused:
    index = pc.index(pc.is_valid(typed.error), True).as_py()
    at = f"a record of ledger {summary.ledger}"
    if OFFSET in rows.schema.names:
        at = f"record {rows.column(OFFSET)[index].as_py()}"
    return Refused(
        f"the payload of {at} of {summary.topic} does not match its schema: "
        f"{typed.error[index].as_py()}. With the option onBadPayload=null, such values become "
        "null, and the column value_error has the reason"
    )


def make_decoder(payload: PayloadOptions, topics: TopicPatterns) -> Decoder | None:
    """The decoder for the options; None for plain bytes. May query the registry.

    Raises ``Refused`` if the schema is not found or has no columns, ``NotFound`` for a version that
    does not exist, ``Unavailable`` if the registry does not answer.
    """
    if not payload.format and not payload.registry:
        return None
    if payload.registry:
        versions = fetch_versions(payload.registry, payload.subject, topics)
        wanted = _TYPES.get(payload.format)
        if wanted and versions[-1].type != wanted:
            raise Refused(
                f"the newest version of the subject has the type {versions[-1].type}, which cannot "
                f"be read as {payload.format}: leave out the option payload"
            )
    else:
        definition = payload.schema.encode()
        versions = (SchemaVersion(0, 0, _TYPES[payload.format], definition),)
    _table(versions, payload.version)
    return Decoder(versions, payload.version, payload.fail)
