"""Decodes payloads to the typed columns, with a schema from the registry or as text.

The registry is queried once, on the driver; tasks receive all versions with the plan, and compute
the same table from them (``sulina.lake.typed``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow.compute as pc
from pyspark.sql.types import StructType

from emr_jobs.source.options import PayloadOptions, TopicPatterns
from emr_jobs.source.registry import Registry, fetch_versions
from emr_jobs.source.value_types import struct_of
from sulina.errors import Refused
from sulina.lake.schema import OFFSET
from sulina.lake.summary import TypedSummary
from sulina.lake.typed.columns import Typed
from sulina.lake.typed.reading import ValueReader
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.lake.typed.table import TableSchema
from sulina.names import TopicName

_TYPES: Final = {"json": "json_schema", "avro": "avro", "protobuf": "protobuf"}


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes payloads into one table. It is sent to the tasks with the plan."""

    reader: ValueReader
    fail: bool

    @property
    def type(self) -> StructType:
        """The Spark type of the column ``value``."""
        return struct_of(_table(self.reader).columns)

    def columns(self, stored: TypedSummary | None) -> tuple[str, ...]:
        """The columns of an object that :meth:`decode` needs."""
        return self.reader.columns(stored)

    def decode(self, rows: Any, topic: TopicName) -> Typed:
        """The typed columns of ``rows``, which has the columns that :meth:`columns` named.

        A payload that does not fit has a null value and a reason, or raises ``Refused``, depending
        on the option ``onBadPayload``.
        """
        typed = self.reader.decode(rows)
        if self.fail and typed.rejected:
            raise _bad(rows, typed, topic)
        return typed


def _table(reader: ValueReader) -> TableSchema:
    found = reader.table
    if found is None:
        types = ", ".join(sorted({each.type for each in reader.versions}))
        raise Refused(
            f"the subject has the type {types}, which has no columns: read the column payload"
        )
    return found


def _bad(rows: Any, typed: Typed, topic: TopicName) -> Refused:
    index = pc.index(pc.is_valid(typed.error), True).as_py()
    at = "a record"
    if OFFSET in rows.schema.names:
        at = f"record {rows.column(OFFSET)[index].as_py()}"
    return Refused(
        f"the payload of {at} of {topic} does not match its schema: "
        f"{typed.error[index].as_py()}. With the option onBadPayload=null (of a job: "
        "--on-bad-payload null), such values become null, and the column value_error has the reason"
    )


def make_decoder(payload: PayloadOptions, topics: TopicPatterns) -> Decoder | None:
    """The decoder for the options; None for plain bytes. May query the registry.

    Raises ``Refused`` if the schema is not found or has no columns, ``NotFound`` for a version that
    does not exist, ``Unavailable`` if the registry does not answer.
    """
    if not payload.format and not payload.registry:
        return None
    if payload.registry:
        versions = fetch_versions(
            Registry(payload.registry, payload.token), payload.subject, topics
        )
        wanted = _TYPES.get(payload.format)
        if wanted and versions[-1].type != wanted:
            raise Refused(
                f"the newest version of the subject has the type {versions[-1].type}, which cannot "
                f"be read as {payload.format}: leave out the option payload"
            )
    else:
        definition = payload.schema.encode()
        versions = (SchemaVersion(0, 0, _TYPES[payload.format], definition),)
    reader = ValueReader(versions, payload.version)
    _table(reader)
    return Decoder(reader, payload.fail)
