"""Payloads as typed columns: JSON and Avro, by a schema of the registry or one given as text.

The registry is asked on the driver, once: tasks get all versions along with the plan. Avro data is
read with the version it was written with, as its record says, into the fields of the version
chosen (schema resolution); JSON is read into those fields as it is.
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
from emr_jobs.source.options import Payload, Topics
from emr_jobs.source.registry import Version, fetch_versions
from emr_jobs.source.shapes import Shape, from_json, spark_type
from sulina.errors import Refused
from sulina.lake.schema import OFFSET, PAYLOAD, SCHEMA_ID, SCHEMA_VERSION
from sulina.lake.summary import ObjectSummary

_Convert = Callable[[bytes, int, int], Any]


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes payloads into one type. Goes to the tasks with the plan."""

    format: str
    definition: str
    """The schema whose fields are the columns."""
    writers: tuple[Version, ...]
    """What records may name as the version they were written with; none without a registry."""
    shape: Shape
    fail: bool

    @property
    def type(self) -> DataType:
        """Of the typed column, in Spark."""
        return spark_type(self.shape)

    def decode(self, rows: Any, type_: Any, summary: ObjectSummary) -> Any:
        """The payloads of ``rows`` as an array of ``type_``.

        A payload that is not as the schema says raises ``Refused``, or becomes null, as the
        option ``onBadPayload`` has it. A null payload gives a null value.
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
            f"the payload of {at} of {summary.topic} is not the {self.format} that its schema "
            f"says: {error}. With option onBadPayload=null such values are null"
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
            # Records that name no version were written with the one that was chosen.
            writer = writers.get((id_, version), reader)
            return fastavro.schemaless_reader(io.BytesIO(payload), writer, reader)

        return convert


def make_decoder(payload: Payload, topics: Topics) -> Decoder | None:
    """A decoder as the options say; None for plain bytes. May ask the registry.

    Raises ``Refused`` if the schema can't be found or made into columns, ``Unavailable`` if the
    registry does not answer.
    """
    if not payload.format and not payload.registry:
        return None
    versions: tuple[Version, ...] = ()
    format_, definition = payload.format, payload.schema
    if payload.registry:
        versions = fetch_versions(payload.registry, payload.subject, topics)
        latest = versions[-1]
        found = {"json_schema": "json", "avro": "avro"}.get(latest.type)
        if found is None or (format_ and format_ != found):
            raise Refused(
                f"subject {latest.subject} is of type {latest.type}, "
                f"which can't be read as {format_ or 'json or avro'}"
            )
        format_, definition = found, latest.definition
    shape = json_shape(definition) if format_ == "json" else avro_shape(definition)
    return Decoder(format_, definition, versions, shape, payload.fail)


def _read_json(payloads: Any, type_: Any) -> Any | None:
    """All payloads at once, with no Python a record; None if they are not one JSON object each."""
    if payloads.null_count or not len(payloads):
        return None
    # Each is an object at least, so if the rows are as many as the payloads, each is just one.
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
