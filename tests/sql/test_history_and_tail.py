"""A query has each record once, wherever the records are, and whatever moves meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.replacing import replaceable
from storage_grpc.tier.tier import Rewrite
from sulina import NotFound, Refused
from sulina.names import TopicName
from sulina.sql.session import SqlSession
from tests.broker.actions import eventually, numbered, publish
from tests.broker.test_compacted_topics import NEWEST, compact, fill
from tests.sql.conftest import Place, rows_of

ONCE = 'SELECT count(*) AS n, count(DISTINCT (partition, "offset")) AS different FROM {}'
ID = {"id": {"type": "integer"}}


async def twice(
    place: Place, name: str, meanwhile: Callable[[], Coroutine[Any, Any, Any]], lake: bool = True
) -> list[list[dict[str, Any]]]:
    """The records of a topic in a session, before and after something happens."""
    loop = asyncio.get_running_loop()
    query = f'SELECT "offset", payload FROM {name} ORDER BY ALL'

    def work(session: SqlSession) -> list[list[dict[str, Any]]]:
        before = rows_of(session, query)
        asyncio.run_coroutine_threadsafe(meanwhile(), loop).result()
        return [before, rows_of(session, query)]

    return await place.session(work, lake)


async def test_objects_and_what_is_not_tiered_yet_are_one_table(place: Place, name: str) -> None:
    topic = f"/default/{name}"
    await place.client.admin.topics.create(topic, partitions=2)
    await publish(place.client, topic, numbered(300), batch_records=10)
    await place.offload(topic)
    await publish(place.client, topic, numbered(100), batch_records=10)
    once, parts, one = await place.query(
        ONCE.format(f"default.{name}"),
        f'SELECT partition, max("offset") + 1 AS n FROM {name} GROUP BY 1',
        f'SELECT count(*) AS n FROM "/default/{name}-part-1"',
    )
    assert once == [{"n": 400, "different": 400}]
    assert sum(row["n"] for row in parts) == 400
    assert one[0]["n"] == next(row["n"] for row in parts if row["partition"] == 1)
    assert await place.client.admin.subscriptions.list(f"{topic}-part-0") == ()


async def test_without_a_lake_everything_comes_from_the_brokers(place: Place, name: str) -> None:
    await place.publish(f"/default/{name}", *numbered(50))
    await place.offload(f"/default/{name}")
    await place.publish(f"/default/{name}", *numbered(5))
    assert await place.query(ONCE.format(name), lake=False) == [[{"n": 55, "different": 55}]]


async def test_a_session_keeps_its_records_while_others_are_published_and_tiered(
    place: Place, name: str
) -> None:
    topic = f"/default/{name}"
    await place.publish(topic, *numbered(50))
    await place.offload(topic)
    await place.publish(topic, *numbered(50))

    async def more() -> None:
        await place.publish(topic, *numbered(50))
        await place.offload(topic)

    before, after = await twice(place, name, more)
    assert len(before) == 100
    assert after == before
    assert await place.query(ONCE.format(name)) == [[{"n": 150, "different": 150}]]


async def test_objects_that_are_merged_meanwhile_change_nothing(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, tiering = f"/default/{name}", place.cluster.broker.tiering
    at_once = replace(tiering.settings, local_seconds=0.0, check_seconds=0.05)
    monkeypatch.setattr(tiering, "settings", at_once)
    for _ in range(3):
        await place.publish(topic, *numbered(20))
        await place.offload(topic)
    await place.publish(topic, *numbered(5))
    objects = f"ledgers/*/topic={name}/*/0000*.parquet"
    old = sorted(place.lake.glob(objects))

    async def only_objects() -> bool:
        rows = await place.client.admin.ledgers.list(topic)
        return [row.where for row in rows].count("object") == 3

    async def merged() -> None:
        await eventually(only_objects)
        broker = place.cluster.broker
        log = (await broker.topic(TopicName.parse(topic), create=False)).log
        assert isinstance(log, ManagedLedger)
        small = replaceable(log.refs)
        assert len(small) == 2
        await broker.replacing.replace_objects(
            log, small, Rewrite.MERGE, seconds=60, keep_seconds=600
        )
        for path in old[:2]:
            path.unlink()

    before, after = await twice(place, name, merged)
    assert len(before) == 65
    assert after == before

    def work(session: SqlSession) -> tuple[list[dict[str, Any]], int]:
        rows = rows_of(session, f'SELECT "offset", payload FROM {name} ORDER BY ALL')
        (dataset,) = session.topics.values()
        return rows, len(dataset.opened)

    assert len(old) == 3
    assert await place.session(work) == (before, 2)


async def test_records_that_retention_deletes_meanwhile_make_a_query_fail(
    place: Place, name: str
) -> None:
    topic = f"/default/{name}"
    await place.publish(topic, *numbered(40))

    async def deleted() -> None:
        await place.client.admin.topics.policy(topic, retention_ms=1)

        async def empty() -> bool:
            return (await place.client.admin.topics.log(topic)).start_offset == 40

        await eventually(empty)

    with pytest.raises(NotFound, match=f"records 0 to 39 of {topic} no longer exist: retention"):
        await twice(place, name, deleted)
    assert await place.query(ONCE.format(name)) == [[{"n": 0, "different": 0}]]


async def test_the_lake_of_another_cluster_is_refused(place: Place, name: str) -> None:
    topic = f"/default/{name}"
    await place.publish(topic, *numbered(40))
    await place.offload(topic)
    (path,) = place.lake.glob(f"ledgers/*/topic={name}/*/*.parquet")
    await place.publish(f"/default/{name}x", *numbered(41))
    await place.offload(f"/default/{name}x")
    (other,) = place.lake.glob(f"ledgers/*/topic={name}x/*/*.parquet")
    other.replace(path)
    with pytest.raises(Refused, match="not the object that the brokers wrote"):
        await place.query(f"SELECT max(payload) FROM {name}")


async def test_payloads_of_all_ages_and_versions_are_typed(place: Place, name: str) -> None:
    topic, schemas = f"/default/{name}", place.client.admin.schemas
    await place.publish(topic, b'{"id": 1}', b"not JSON")  # an object without typed columns
    await place.offload(topic)
    for properties in (ID, {**ID, "city": {"type": "string", "default": "Sulina"}}):
        schema = {"type": "object", "properties": properties}
        await schemas.register(name, "json_schema", definition=json.dumps(schema))
        await schemas.bind(topic, subject=name)
        await place.publish(topic, b'{"id": %d}' % len(properties))
        if properties is ID:
            await place.offload(topic)  # typed by the first version only
    assert await place.query(
        f'SELECT "offset", value.id, value.city, value_error IS NULL AS fits FROM {name} ORDER BY 1'
    ) == [
        [
            {"offset": 0, "id": 1, "city": "Sulina", "fits": True},
            {"offset": 1, "id": None, "city": None, "fits": False},
            {"offset": 2, "id": 1, "city": "Sulina", "fits": True},
            {"offset": 3, "id": 2, "city": "Sulina", "fits": True},
        ]
    ]


async def test_a_compacted_topic_has_the_records_that_are_left(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiering = place.cluster.broker.tiering
    at_once = replace(tiering.settings, local_seconds=0.0, check_seconds=0.1)
    monkeypatch.setattr(tiering, "settings", at_once)
    await fill(place.client)
    await compact(place.client)
    for lake in (True, False):
        counted, rows, some = await place.query(
            "SELECT count(*) AS n FROM profiles",
            'SELECT payload FROM profiles ORDER BY "offset"',
            'SELECT payload FROM profiles WHERE "offset" BETWEEN 26 AND 27 ORDER BY "offset"',
            lake=lake,
        )
        assert counted == [{"n": len(NEWEST)}]
        assert [row["payload"] for row in rows] == NEWEST
        assert [row["payload"] for row in some] == NEWEST[1:3]


@pytest.mark.parametrize(
    ("condition", "opened", "count"),
    [
        ("TRUE", 3, 40),
        ('"offset" BETWEEN 12 AND 14', 1, 3),
        ('"offset" >= 30', 0, 10),
        ("partition IN (1, 2)", 0, 0),
        ("publish_time > now()", 0, 0),
        ('octet_length(payload) = 1 AND "offset" < 20', 2, 20),
    ],
)
async def test_objects_that_a_condition_excludes_are_not_opened(
    place: Place, condition: str, opened: int, count: int
) -> None:
    topic = "/default/skipping"
    if not list(place.lake.glob("ledgers/*/topic=skipping/*/*.parquet")):
        for _ in range(3):
            await place.publish(topic, *numbered(10))
            await place.offload(topic)
        await place.publish(topic, *numbered(10))

    def work(session: SqlSession) -> tuple[int, int]:
        (row,) = rows_of(session, f"SELECT count(*) AS n FROM skipping WHERE {condition}")
        (dataset,) = session.topics.values()
        return len(dataset.opened), row["n"]

    assert await place.session(work) == (opened, count)
