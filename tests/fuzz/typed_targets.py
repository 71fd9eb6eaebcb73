"""Payloads and schemas that become typed columns of the lake."""

from __future__ import annotations

import json

import pyarrow as pa

from sulina.errors import Refused
from sulina.lake.typed.columns import VersionDecoder
from sulina.lake.typed.schema_version import TYPED, SchemaVersion
from sulina.lake.typed.table import table_schema
from sulina.lake.typed.versions import parse
from tests.fuzz.target import Stateless, Target
from tests.lake.typed import samples

_VERSIONS = (samples.JSON, samples.AVRO, samples.PROTO)


def fuzz_payload(data: bytes) -> None:
    """Payloads of a schema keep their rows, and quick decoders agree with the reference.

    The first byte chooses the schema; the rest are payloads between bytes of 0xFE.
    """
    version = _VERSIONS[data[0] % len(_VERSIONS)] if data else _VERSIONS[0]
    payloads = pa.array(data[1:].split(b"\xfe"), pa.binary())
    found = VersionDecoder(parse(version)).decode(payloads)
    reference = VersionDecoder(parse(version))
    reference.quick = []
    expected = reference.decode(payloads)
    found.value.validate(full=True)
    assert found.error.equals(expected.error)
    assert str(found.value) == str(expected.value)  # NaN is not equal to itself


def fuzz_definition(data: bytes) -> None:
    """A definition makes a table of bounded size, or is ``Refused``."""
    kind = TYPED[data[0] % len(TYPED)] if data else TYPED[0]
    try:
        table = table_schema([SchemaVersion(1, 1, kind, data[1:])])
    except Refused:
        return
    assert table is not None and table.leaves <= 2000
    assert pa.types.is_struct(table.arrow_type)


def _payload_seeds() -> list[bytes]:
    return [
        bytes([place]) + b"\xfe".join([payload, payload, b""])
        for place, payload in enumerate(samples.PAYLOADS)
    ]


def _definition_seeds() -> list[bytes]:
    nested = {"properties": {"a": {"$ref": "#"}, "b": {"items": {"type": "integer"}}}}
    return [
        *(bytes([place]) + version.definition for place, version in enumerate(_VERSIONS)),
        b"\0" + json.dumps(nested).encode(),
    ]


TARGETS = (
    Target(
        name="typed-payload",
        summary="payloads to typed columns: JSON, Avro, Protobuf",
        seeds=_payload_seeds,
        open=lambda: Stateless(fuzz_payload),
    ),
    Target(
        name="typed-schema",
        summary="a schema to the columns of a table",
        seeds=_definition_seeds,
        open=lambda: Stateless(fuzz_definition),
    ),
)
