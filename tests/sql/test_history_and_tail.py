"""A query has each record once, wherever the records are, and whatever moves meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sulina import NotFound, Refused
from sulina.sql.session import SqlSession
from tests.broker.actions import eventually, numbered, publish
from tests.sql.conftest import Place, rows_of

ONCE = 'SELECT count(*) AS n, count(DISTINCT (partition, "offset")) AS different FROM {}'
ID = {"id": {"type": "integer"}}
Meanwhile = Callable[[Coroutine[Any, Any, Any]], Any]


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


async def test_records_whose_object_was_replaced_come_from_the_brokers(
    place: Place, name: str
) -> None:
    topic = f"/default/{name}"
    await place.publish(topic, *numbered(40))
    await place.offload(topic)

    async def gone() -> None:
        for path in place.lake.glob(f"ledgers/*/topic={name}/*/*.parquet"):
            path.unlink()

    before, after = await twice(place, name, gone)
    assert len(before) == 40
    assert after == before


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
