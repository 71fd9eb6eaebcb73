"""What retention removes leaves the table before the store, and comes back when that is undone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from sulina.names import TopicName
from sulina.tables.catalogs import open_catalog
from sulina.tables.iceberg import find_table
from sulina.tables.objects import Lake, LakePlace
from sulina.tables.tables import Tables

TOPIC = TopicName.parse("/default/orders")


async def test_removed_objects_leave_the_table_first_and_come_back_once(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    place = LakePlace.parse(str(lake))
    tables = Tables(Lake(place), open_catalog(f"sqlite:///{tmp_path}/catalog.db", place))

    def offsets() -> list[int]:
        tables.backfill(TOPIC)
        found = find_table(tables._catalog, "sulina", TOPIC).scan(selected_fields=("offset",))
        return sorted(found.to_arrow()["offset"].to_pylist())

    async with (
        run_embedded(
            tmp_path / "data", DoorSettings(Listen(port=0)), tier=f"file://{lake}"
        ) as server,
        sulina.connect(server.addresses.url) as client,
    ):
        broker = server.broker
        for number in range(3):
            async with client.producer(str(TOPIC)) as producer:
                await (await producer.send(f"order {number}".encode()))
            await client.admin.ledgers.offload(str(TOPIC))
            async with asyncio.timeout(60):
                while broker.tiering.counters.objects <= number:
                    await asyncio.sleep(0.01)
        assert offsets() == [0, 1, 2]

        topic = await broker.topic(TOPIC, create=False)
        await client.admin.topics.policy(str(TOPIC), retention_bytes=1)
        assert await broker.retention.apply(topic) == 2
        assert offsets() == [2]
        assert len(list(lake.rglob("*.parquet"))) == 3

        await client.admin.topics.policy(str(TOPIC), retention_bytes=None)
        await client.admin.topics.undo_retention(str(TOPIC))
        assert offsets() == [0, 1, 2]
        assert len(list(lake.rglob("_removed-*"))) == 1

        # Their time is over at once; but tables have not had the time to drop them.
        broker.settings = replace(
            broker.settings, tier=replace(broker.settings.tier, grace_seconds=0.001)
        )
        await client.admin.topics.policy(str(TOPIC), retention_bytes=1)
        assert await broker.retention.apply(topic) == 2
        await asyncio.sleep(0.01)
        await broker.retention.apply(topic)
        assert len(list(lake.rglob("0*.parquet"))) == 3
        assert offsets() == [2]
        await client.admin.topics.policy(str(TOPIC), retention_bytes=None)
        await client.admin.topics.undo_retention(str(TOPIC))
        broker.tiering.settings = replace(broker.tiering.settings, tables_seconds=0.001)
        await client.admin.topics.policy(str(TOPIC), retention_bytes=1)
        assert await broker.retention.apply(topic) == 2
        await asyncio.sleep(0.01)
        await broker.retention.apply(topic)
        assert len(list(lake.rglob("0*.parquet"))) == 1
        assert offsets() == [2]
