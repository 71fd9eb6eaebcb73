"""Reads typed columns through the data source, without Spark, and registers schemas for them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pyarrow as pa

import sulina
from emr_jobs.source.datasource import SulinaDataSource
from tests.spark.lake_folder import LakeFolder
from tests.support.server import SulinaProcess


def table(lake: LakeFolder, topic: str = "/default/orders", **options: Any) -> pa.Table:
    """What the data source returns."""
    given = {"path": lake.root, "topic": topic, "columns": "offset,value", **options}
    source = SulinaDataSource({name: str(value) for name, value in given.items()})
    reader = source.reader(source.schema())
    batches = [batch for each in reader.partitions() for batch in reader.read(each)]
    return pa.Table.from_batches(batches)


def values(lake: LakeFolder, topic: str = "/default/orders", **options: Any) -> list[Any]:
    """The typed column."""
    found: list[Any] = table(lake, topic, **options).column("value").to_pylist()
    return found


def put(lake: LakeFolder, *payloads: bytes, schema: tuple[int, int] = (0, 0)) -> None:
    """One more ledger with these payloads."""
    lake.add("/default/orders", len(payloads), payloads=payloads, schema=schema)


def register(
    server: SulinaProcess,
    subject: str,
    type_: str,
    *definitions: object,
    compatibility: str = "",
) -> list[Any]:
    """Register versions of a subject; objects are written as JSON."""

    async def call() -> list[Any]:
        found = []
        async with sulina.connect(server.url) as client:
            for each in definitions:
                text = each if isinstance(each, str) else json.dumps(each)
                arguments = {"subject": subject, "type": type_, "definition": text}
                found.append(await client.admin("schema.register", arguments))
                if compatibility:
                    mode = {"subject": subject, "compatibility": compatibility}
                    await client.admin("schema.compatibility", mode)
        return found

    return asyncio.run(call())
