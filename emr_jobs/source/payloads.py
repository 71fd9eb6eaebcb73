"""Decodes JSON and Avro payloads to a typed column, with a schema from the registry or as text.

The registry is queried once, on the driver; tasks receive all versions with the plan. Avro payloads
are decoded with the version with which they were written, which the record names, and resolved to
the selected version; JSON payloads are read directly into its fields.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql.types import DataType

from emr_jobs.source.avro_schema import avro_shape
from emr_jobs.source.json_schema import json_shape
from emr_jobs.source.options import PayloadOptions, TopicPatterns
from emr_jobs.source.registry import SchemaVersion, fetch_versions
from emr_jobs.source.shapes import PayloadShape, from_json, spark_type
from sulina.errors import Refused
from sulina.lake.schema import OFFSET, PAYLOAD, SCHEMA_ID, SCHEMA_VERSION
from sulina.lake.summary import ObjectSummary

_Convert = Callable[[bytes, int, int], Any]


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes payloads into one type. It is sent to the tasks with the plan."""

    format: str
    definition: str
    """The schema whose fields become columns."""
    writers: tuple[SchemaVersion, ...]
    """The versions with which records may have been written; empty without a registry."""
    shape: PayloadShape
    fail: bool

    @property
    def type(self) -> DataType:
        """The Spark type of the column ``value``."""
        return spark_type(self.shape)

    def decode(self, rows: Any, type_: Any, summary: ObjectSummary) -> Any:
        """The payloads of ``rows`` as an array of ``type_``.

        A payload that does not match the schema raises ``Refused`` or becomes null, depending on
        the option ``onBadPayload``. A null payload becomes null.
        """
        payloads = rows.column(PAYLOAD)
        if self.format == "json" and not self.shape.has_texts:
            quick = _read_json(payloads, type_)
            if quick is not None:
                return quick
        convert = self._json() if self.format == "json" else self._avro()
        ids = rows.column(SCHEMA_ID).to_pylist()
        versions = rows.column(SCHEMA_VERSION).to_pylist()
        values = []
        for index, payload in enumerate(payloads.to_pylist()):
            try:
                values.append(
                    None if payload is None else convert(payload, ids[index], versions[index])
                )
            except (ValueError, TypeError, KeyError, EOFError, IndexError) as error:
                if self.fail:
                    raise self._bad(rows, index, summary, error) from None
                values.append(None)
        return pa.array(values, type_)

    def _bad(self, rows: Any, index: int, summary: ObjectSummary, error: Exception) -> Refused:
        at = f"a record of ledger {summary.ledger}"
        if OFFSET in rows.schema.names:
            at = f"record {rows.column(OFFSET)[index].as_py()}"
        return Refused(
            f"the payload of {at} of {summary.topic} does not match its {self.format} schema: "
            f"{error}. With the option onBadPayload=null, such values become null"
        )

    def _json(self) -> _Convert:
        shape = self.shape
        return lambda payload, _, __: from_json(json.loads(payload), shape)

    def _avro(self) -> _Convert:
        import fastavro

        reader = fastavro.parse_schema(json.loads(self.definition))
        writers = {
            (each.id, each.number): fastavro.parse_schema(json.loads(each.definition))
            for each in self.writers
            if each.type == "avro"
        }

        def convert(payload: bytes, id_: int, version: int) -> Any:
            # A record without a version was written with the selected one.
            writer = writers.get((id_, version), reader)
            return fastavro.schemaless_reader(io.BytesIO(payload), writer, reader)

        return convert


def make_decoder(payload: PayloadOptions, topics: TopicPatterns) -> Decoder | None:
    """The decoder for the options; None for plain bytes. May query the registry.

    Raises ``Refused`` if the schema is not found or cannot be represented as columns,
    ``Unavailable`` if the registry does not answer.
    """
    if not payload.format and not payload.registry:
        return None
    versions: tuple[SchemaVersion, ...] = ()
    format_, definition = payload.format, payload.schema
    if payload.registry:
        versions = fetch_versions(payload.registry, payload.subject, topics)
        latest = versions[-1]
        found = {"json_schema": "json", "avro": "avro"}.get(latest.type)
        if found is None or (format_ and format_ != found):
            raise Refused(
                f"subject {latest.subject} has the type {latest.type}, which cannot be read as "
                f"{format_ or 'json or avro'}"
            )
        format_, definition = found, latest.definition
    shape = json_shape(definition) if format_ == "json" else avro_shape(definition)
    return Decoder(format_, definition, versions, shape, payload.fail)


def _read_json(payloads: Any, type_: Any) -> Any | None:
    """Decode all payloads at once; None if they are not exactly one JSON object each."""
    if payloads.null_count or not len(payloads):
        return None
    # Each contains at least one object, so if the counts match, each contains exactly one.
    whole = pc.and_(pc.starts_with(payloads, "{"), pc.ends_with(payloads, "}"))
    if not pc.all(whole).as_py():
        return None
    joined = b"\n".join(payloads.to_pylist())
    try:
        table = pj.read_json(
            pa.BufferReader(joined),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(joined) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema(list(type_)), unexpected_field_behavior="ignore"
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != len(payloads):
        return None
    columns = [table.column(field.name).combine_chunks() for field in type_]
    return pa.StructArray.from_arrays(columns, fields=list(type_))
