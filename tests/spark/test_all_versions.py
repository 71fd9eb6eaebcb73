"""Typed reads know every version of a schema, not the newest one alone."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from sulina.errors import NotFound
from sulina.lake.typed.columns import PayloadDecoder
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.lake.typed.table import table_schema
from tests.spark.lake_folder import LakeFolder
from tests.spark.typed_reads import put, register, table, values
from tests.support.server import SulinaProcess

TEXT = {"type": "string"}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def read(
    lake: LakeFolder,
    server: SulinaProcess,
    subject: str,
    schemas: list[dict[str, Any]],
    payloads: list[bytes],
    **options: Any,
) -> list[Any]:
    """Register ``schemas``, publish one payload with each, and read all of them."""
    versions = register(server, subject, "json_schema", *schemas, compatibility="none")
    for version, payload in zip(versions, payloads, strict=True):
        put(lake, payload, schema=(version["id"], version["version"]))
    return values(lake, registry=server.http_url, subject=subject, **options)


def test_a_dropped_field_is_still_there_in_history(
    lake: LakeFolder, shared_sulina_process: SulinaProcess
) -> None:
    found = read(
        lake,
        shared_sulina_process,
        "all-dropped",
        [schema(a=TEXT, b=TEXT), schema(b=TEXT)],
        [b'{"a":"old","b":"x"}', b'{"b":"y"}'],
    )
    assert found == [{"a": "old", "b": "x"}, {"a": None, "b": "y"}]


def test_an_added_field_has_its_default_in_older_records(
    lake: LakeFolder, shared_sulina_process: SulinaProcess
) -> None:
    found = read(
        lake,
        shared_sulina_process,
        "all-added",
        [schema(a=TEXT), schema(a=TEXT, state={"type": "string", "default": "new"})],
        [b'{"a":"x"}', b'{"a":"y","state":"paid"}'],
    )
    assert [each["state"] for each in found] == ["new", "paid"]


def test_columns_come_in_declared_order(
    lake: LakeFolder, shared_sulina_process: SulinaProcess
) -> None:
    (found,) = read(
        lake,
        shared_sulina_process,
        "all-ordered",
        [schema(zone=TEXT, amount=TEXT, middle=TEXT)],
        [b'{"amount":"a"}'],
    )
    assert list(found) == ["zone", "amount", "middle"]


def test_formats_are_types(lake: LakeFolder, shared_sulina_process: SulinaProcess) -> None:
    formats = ("date-time", "date", "uuid", "decimal")
    (found,) = read(
        lake,
        shared_sulina_process,
        "all-formats",
        [schema(**{each: {"type": "string", "format": each} for each in formats})],
        [
            b'{"date-time":"2026-05-01T12:00:00Z","date":"2026-05-01",'
            b'"uuid":"0E984725-C51C-4BF4-9960-E1C80E27ABA0","decimal":"1.5"}'
        ],
    )
    assert found == {
        "date-time": datetime(2026, 5, 1, 12, tzinfo=UTC),
        "date": date(2026, 5, 1),
        "uuid": "0e984725-c51c-4bf4-9960-e1c80e27aba0",
        "decimal": Decimal("1.5"),
    }


def test_protobuf_becomes_columns(lake: LakeFolder, shared_sulina_process: SulinaProcess) -> None:
    text = 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; }'
    (version,) = register(shared_sulina_process, "all-proto", "protobuf", text)
    put(lake, b"\x08\x07\x12\x01x", b"", schema=(version["id"], version["version"]))
    found = values(lake, registry=shared_sulina_process.http_url, subject="all-proto")
    assert found == [{"id": 7, "note": "x"}, {"id": 0, "note": ""}]


def test_a_version_is_read_as_of_itself(
    lake: LakeFolder, shared_sulina_process: SulinaProcess
) -> None:
    schemas = [schema(a=TEXT, b=TEXT), schema(b=TEXT, c=TEXT)]
    payloads = [b'{"a":"1","b":"2"}', b'{"b":"3","c":"4"}']
    found = read(lake, shared_sulina_process, "all-as-of", schemas, payloads, version=1)
    assert found == [{"a": "1", "b": "2"}, {"a": None, "b": "3"}]
    with pytest.raises(NotFound, match="no version 9"):
        values(lake, registry=shared_sulina_process.http_url, subject="all-as-of", version=9)


def test_stored_columns_are_read_if_they_are_of_the_same_versions(
    lake: LakeFolder, shared_sulina_process: SulinaProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, subject = shared_sulina_process, "all-stored"
    first = schema(a=TEXT, at={"type": "string", "format": "date-time"}, n={"type": "array"})
    (version,) = register(server, subject, "json_schema", first, compatibility="none")
    names = version["id"], version["version"]
    stored = table_schema([SchemaVersion(*names, "json_schema", json.dumps(first).encode())])
    payloads = [b'{"a":"x","at":"2026-05-01T12:00:00Z","n":[1]}', b"bad"]
    put(lake, *payloads, schema=names)
    lake.add("/default/orders", 2, payloads=payloads, schema=names, table=stored)
    given: dict[str, Any] = {"registry": server.http_url, "subject": subject}
    given |= {"onBadPayload": "null", "columns": "offset,value,value_error"}
    rows = table(lake, **given)
    for name in ("value", "value_error"):
        column = rows.column(name).to_pylist()
        assert column[:2] == column[2:]

    decoded = []

    def decode(self: PayloadDecoder, payloads: Any, *more: Any) -> Any:
        decoded.append(len(payloads))
        return original(self, payloads, *more)

    original = PayloadDecoder.decode
    monkeypatch.setattr(PayloadDecoder, "decode", decode)
    table(lake, **given)
    assert decoded == [2]
    # Another version: what was stored may have other defaults.
    register(server, subject, "json_schema", schema(a=TEXT, b={"type": "string", "default": "?"}))
    found = table(lake, **given).column("value").to_pylist()
    assert [each and each["b"] for each in found] == ["?", None, "?", None]
    assert decoded == [2, 2, 2]
