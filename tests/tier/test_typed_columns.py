"""A topic with a schema becomes objects with typed columns, and replays stay as they were."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from broker_containers.metrics.collectors.broker import BrokerMetrics
from storage_grpc.tier.wire import from_schema, to_schema
from sulina.lake.typed.schema_version import SchemaVersion

TOPIC = "/default/items"


@dataclass
class Item:
    name: str
    price: float


async def test_objects_of_a_topic_with_a_schema_have_typed_columns(tmp_path: Path) -> None:
    lake = tmp_path / "objects"
    async with (
        run_embedded(
            tmp_path / "data", DoorSettings(Listen(port=0)), tier=f"file://{lake}"
        ) as server,
        sulina.connect(server.addresses.url) as client,
    ):
        async with client.producer(TOPIC, schema=Item) as producer:
            await (await producer.send(Item("bolt", 1.5)))
        async with client.producer(TOPIC) as plain:
            await (await plain.send(b"not an item"))
        await client.admin.ledgers.offload(TOPIC)
        async with asyncio.timeout(60):
            while not server.broker.tiering.counters.objects:
                await asyncio.sleep(0.01)
        rows = _rows(lake)
        assert rows["value"].to_pylist() == [{"name": "bolt", "price": 1.5}, None]
        assert rows["value_error"][1].as_py().startswith("it is not one JSON value")
        assert rows["payload"][1].as_py() == b"not an item"
        text = (await BrokerMetrics(server.broker, 10).collect()).decode()
        assert "sulina_tier_rejected_payloads_total 1" in text
        replayed = await client.read(TOPIC, sulina.Start.earliest())
        assert [payload for batch in replayed for payload in batch.payloads] == rows[
            "payload"
        ].to_pylist()


async def test_objects_from_before_a_schema_are_rewritten_on_request(tmp_path: Path) -> None:
    lake = tmp_path / "objects"
    async with (
        run_embedded(
            tmp_path / "data", DoorSettings(Listen(port=0)), tier=f"file://{lake}"
        ) as server,
        sulina.connect(server.addresses.url) as client,
    ):
        tiering = server.broker.tiering
        tiering.settings = replace(tiering.settings, local_seconds=0.0, check_seconds=0.1)
        async with client.producer(TOPIC) as plain:
            await (await plain.send(b'{"name": "bolt", "price": 1.5}'))
        await client.admin.ledgers.offload(TOPIC)
        async with asyncio.timeout(60):
            while not tiering.counters.local_deleted:
                await asyncio.sleep(0.01)
        with pytest.raises(sulina.errors.Refused, match="no schema"):
            await client.admin.ledgers.rewrite(TOPIC)
        async with client.producer(TOPIC, schema=Item):
            pass
        begun = await client.admin.ledgers.rewrite(TOPIC)
        assert begun.ledgers == 1 and begun.bytes > 0
        async with asyncio.timeout(60):
            while (await client.admin.ledgers.rewrite(TOPIC)).ledgers:
                await asyncio.sleep(0.05)
        (row,) = [row for row in await client.admin.ledgers.list(TOPIC) if row.key]
        assert row.key is not None
        values = pq.read_table(lake / row.key).column("value").to_pylist()
        assert values == [{"name": "bolt", "price": 1.5}]
        await client.admin.ledgers.verify(TOPIC, row.ledger)


def _rows(lake: Path) -> pa.Table:
    return ds.dataset(lake / "ledgers").to_table()


def test_a_version_of_a_schema_crosses_the_wire_as_it_is() -> None:
    for version in (
        SchemaVersion(-5, 7, "avro", b'"int"'),
        SchemaVersion(1, 2, "protobuf", b"text", b""),
    ):
        assert from_schema(to_schema(version)) == version
