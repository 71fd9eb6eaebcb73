"""The list of topics has the number of records of each, if it can be determined."""

from __future__ import annotations

from broker_containers.operations.topic_rows import topic_rows
from sulina import Client, Retriable
from sulina.metadata.keys import topics
from sulina.names import TopicName
from tests.broker.actions import numbered, publish
from tests.broker.cluster import Cluster

TOPIC = "/default/kept"
PARTITIONED = "/default/orders"


async def records(client: Client) -> dict[str, int | None]:
    return {row["topic"]: row["records"] for row in await client.admin("topic.list")}


async def test_records_are_counted_after_a_restart_though_no_topic_is_open(
    cluster: Cluster,
) -> None:
    async with cluster.client() as client:
        await client.admin("topic.create", {"topic": PARTITIONED, "partitions": 3})
        await client.admin("topic.create", {"topic": "/default/unused"})
        await client.admin("topic.create", {"topic": "/default/quick", "delivery": "non_reliable"})
        await publish(client, TOPIC, numbered(7))
        await publish(client, PARTITIONED, numbered(30))
    await cluster.restart()
    async with cluster.client() as client:
        assert await records(client) == {
            PARTITIONED: 30,
            "/default/quick": None,
            "/default/unused": 0,
            TOPIC: 7,
        }
        assert cluster.broker.names() == [], "and none was opened to be counted"
        await publish(client, TOPIC, numbered(2))
        assert (await records(client))[TOPIC] == 9


async def test_a_topic_that_another_broker_writes_has_no_number_rather_than_a_wrong_one(
    cluster: Cluster,
) -> None:
    broker = cluster.broker
    async with cluster.client() as client:
        await client.admin("topic.create", {"topic": PARTITIONED, "partitions": 2})
        await publish(client, PARTITIONED, numbered(20))
    name = TopicName.parse(PARTITIONED)
    found = await topics.list_all(broker.store, "default")
    here = {topic.name: topic for topic in broker.loaded()}
    assert sorted(here) == [name.partition(0), name.partition(1)]

    async def counted() -> int | None:
        (row,) = await topic_rows(broker.store, {name: found[name]}, here)
        return row.records

    assert await counted() == 20
    del here[name.partition(1)]  # as if it were open elsewhere
    assert await counted() is None
    await broker.unload(name.partition(1), Retriable("it moves"))
    assert await counted() == 20
