"""Administration through the client: namespaces, topics, descriptions, refusals."""

from __future__ import annotations

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.operations.topics import topic_rows
from sulina import AlreadyExists, Client, Delivery, NotFound, Refused, Retriable, Start
from sulina.metadata.keys import topics
from sulina.names import TopicName
from tests.broker.actions import bodies, log_of, look, numbered, publish, read_all, subscribe, take
from tests.broker.cluster import Cluster
from tests.broker.conftest import MakeCluster

TOPIC = "/default/admin"


async def names(client: Client, **arguments: object) -> list[str]:
    return [row["topic"] for row in await client.admin("topic.list", arguments)]


# ---- namespaces ----


async def test_the_first_namespaces_are_there_from_the_beginning(client: Client) -> None:
    assert await client.admin("namespace.list") == ["default", "system"]
    for name in ("default", "system"):
        with pytest.raises(Refused, match="always exists and cannot be deleted"):
            await client.admin("namespace.delete", {"namespace": name})


async def test_topics_of_a_namespace_that_is_not_there_are_refused(client: Client) -> None:
    with pytest.raises(NotFound, match="there is no namespace 'nowhere': create it first"):
        await client.producer("/nowhere/topic").open()
    with pytest.raises(NotFound, match="there is no namespace 'nowhere'"):
        await client.admin("topic.create", {"topic": "/nowhere/topic"})


# ---- topics ----


async def test_a_topic_is_made_listed_described_and_deleted(client: Client) -> None:
    await client.admin("topic.create", {"topic": TOPIC})
    with pytest.raises(AlreadyExists, match="/default/admin already exists"):
        await client.admin("topic.create", {"topic": TOPIC})
    await publish(client, TOPIC, numbered(7), batch_records=7)
    await subscribe(client, TOPIC, "s", start=Start.offset(2))
    (row,) = await client.admin("topic.list")
    assert row == {
        "topic": TOPIC,
        "delivery": "reliable",
        "partitions": 0,
        "producers": 0,
        "consumers": 0,
        "records": 7,
    }
    described = await client.admin("topic.describe", {"topic": TOPIC})
    assert (described["topic"], described["delivery"]) == (TOPIC, "reliable")
    (log,) = described["logs"]
    assert (log["start_offset"], log["end_offset"]) == (0, 7)
    assert [row["backlog"] for row in log["subscriptions"]] == [5]
    counters = log["counters"]
    assert (counters["frames_in"], counters["records_in"]) == (1, 7)
    assert log["ledgers"][0]["bytes"] == counters["bytes_in"] > 0
    await client.admin("topic.delete", {"topic": TOPIC})
    assert await names(client) == []
    with pytest.raises(NotFound, match="there is no topic /default/admin"):
        await client.admin("topic.describe", {"topic": TOPIC})
    with pytest.raises(NotFound, match="there is no topic /default/admin"):
        await client.admin("topic.delete", {"topic": TOPIC})


async def test_a_partitioned_topic_is_one_topic_with_parts(client: Client) -> None:
    await client.admin("topic.create", {"topic": TOPIC, "partitions": 3})
    parts = [f"{TOPIC}-part-{number}" for number in range(3)]
    assert await names(client) == [TOPIC]
    assert sorted(await names(client, all=True)) == sorted([TOPIC, *parts])
    info = await client.topic(TOPIC)
    assert (info.partitions, info.delivery) == (tuple(parts), Delivery.RELIABLE)
    described = await client.admin("topic.describe", {"topic": TOPIC})
    assert [log["topic"] for log in described["logs"]] == parts
    with pytest.raises(
        Refused, match=r"delete individual partition .* delete /default/admin instead"
    ):
        await client.admin("topic.delete", {"topic": parts[0]})
    with pytest.raises(Refused, match="is partitioned: read one of its partitions"):
        await client.read(TOPIC, Start.earliest())
    await client.admin("topic.delete", {"topic": TOPIC})
    assert await names(client, all=True) == []


async def test_a_partition_can_be_used_like_a_topic(client: Client) -> None:
    await client.admin("topic.create", {"topic": TOPIC, "partitions": 3})
    async with (
        client.consumer(TOPIC, "all") as every,
        client.consumer(f"{TOPIC}-part-1", "one") as one,
    ):
        await publish(client, f"{TOPIC}-part-1", numbered(5))
        assert bodies(await take(one, 5)) == numbered(5)
        assert {message.partition for message in await take(every, 5)} == {1}


async def test_topics_are_listed_by_namespace(client: Client) -> None:
    await client.admin("namespace.create", {"namespace": "shop"})
    for topic in ("/default/a", "/default/b", "/shop/a"):
        await client.admin("topic.create", {"topic": topic})
    assert await names(client) == ["/default/a", "/default/b", "/shop/a"]
    assert await names(client, namespace="shop") == ["/shop/a"]


async def test_topics_are_not_made_by_themselves_where_that_is_forbidden(
    make_cluster: MakeCluster,
) -> None:
    cluster = await make_cluster(BrokerSettings(auto_create_topics=False))
    async with cluster.client() as client:
        for opening in (client.producer(TOPIC), client.consumer(TOPIC, "s")):
            with pytest.raises(
                NotFound, match="create it with `sulina topic create /default/admin`"
            ):
                await opening.open()
        await client.admin("topic.create", {"topic": TOPIC})
        await publish(client, TOPIC, numbered(1))


async def test_consumers_and_producers_of_a_deleted_topic_are_told(client: Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(1))
        await take(consumer, 1)
        await client.admin("topic.delete", {"topic": TOPIC})
        with pytest.raises(NotFound, match="/default/admin was deleted"):
            await consumer.receive(10)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "topic is missing"),
        ({"topic": 5}, "topic must be text, not 5"),
        ({"topic": "orders"}, "'orders' is not a topic name: use /namespace/topic"),
        ({"topic": "/default/a/b"}, "is not a topic name"),
        ({"topic": "/default/spa ce"}, "is not a topic name"),
        ({"topic": "/default/" + "x" * 300}, "at most 255 characters"),
        ({"topic": TOPIC, "partitions": -1}, r"partitions must be a whole number.* not -1"),
        ({"topic": TOPIC, "partitions": "many"}, "partitions must be a whole number"),
        ({"topic": TOPIC, "partitions": 100_000}, "a topic has 0 to 4096 partitions"),
        ({"topic": TOPIC, "delivery": "soon"}, "delivery is one of reliable, non_reliable"),
    ],
)
async def test_a_topic_that_makes_no_sense_is_refused_with_the_rule(
    client: Client, arguments: dict[str, object], why: str
) -> None:
    with pytest.raises(Refused, match=why):
        await client.admin("topic.create", arguments)


# ---- names that look alike ----


async def test_names_that_begin_alike_never_mix(client: Client) -> None:
    pairs = ("/default/foo", "/default/foobar", "/default/foo-part", "/default/fo")
    for name in pairs:
        await publish(client, name, [name.encode()], name="same producer")
        await subscribe(client, name, "s", start=Start.earliest())
    for name in pairs:
        assert await read_all(client, name) == [name.encode()]
        assert (await log_of(client, name))["end_offset"] == 1
    await client.admin("topic.delete", {"topic": "/default/foo"})
    for name in pairs[1:]:
        assert await read_all(client, name) == [name.encode()]
        assert (await look(client, name, "s"))["backlog"] == 1
    await publish(client, "/default/foo", [b"new"])
    assert await client.admin("subscription.list", {"topic": "/default/foo"}) == []


async def test_subscriptions_that_begin_alike_never_mix(client: Client) -> None:
    labels = ["s", "s2", "s/2", "s%2F2", "S", "ß ä", "cursors"]
    for label in labels:
        await subscribe(client, TOPIC, label)
    await publish(client, TOPIC, numbered(2))
    async with client.consumer(TOPIC, "s") as consumer:
        await consumer.ack_cumulative((await take(consumer, 2))[-1])
        await consumer.flush_acks()
        assert (await look(client, TOPIC, "s"))["backlog"] == 0
        await consumer.unsubscribe()
    rows = await client.admin("subscription.list", {"topic": TOPIC})
    assert {row["subscription"]: row["backlog"] for row in rows} == dict.fromkeys(labels[1:], 2)


# ---- the rest ----


async def test_the_brokers_numbers_add_up(client: Client) -> None:
    async with client.consumer(TOPIC, "s"), client.producer("/default/b"):
        await publish(client, TOPIC, numbered(5))
        stats = await client.admin("broker.stats")
    assert (stats["broker"], stats["topics"]) == ("broker-1", 2)
    assert (stats["producers"], stats["consumers"], stats["records_in"]) == (1, 1, 5)
    assert stats["bytes_in"] > 0


async def test_an_unknown_operation_is_refused_with_the_known_ones(client: Client) -> None:
    with pytest.raises(
        Refused, match=r"there is no operation 'topic.destroy': choose from .*topic.del"
    ):
        await client.admin("topic.destroy", {"topic": TOPIC})


async def test_subscriptions_of_a_partitioned_topic_are_looked_at_by_partition(
    client: Client,
) -> None:
    await client.admin("topic.create", {"topic": TOPIC, "partitions": 2})
    with pytest.raises(Refused, match="use them, starting with /default/admin-part-0"):
        await look(client, TOPIC, "s")
    arguments = {"topic": TOPIC, "subscription": "s"}
    with pytest.raises(Refused, match="has 2 partitions"):
        await client.admin("subscription.create", arguments)


async def test_a_subscription_is_made_once(client: Client) -> None:
    await client.admin("topic.create", {"topic": TOPIC})
    arguments = {"topic": TOPIC, "subscription": "s", "type": "failover"}
    await client.admin("subscription.create", arguments)
    with pytest.raises(Refused, match="the subscription 's' of /default/admin already exists"):
        await client.admin("subscription.create", arguments)
    with pytest.raises(Refused, match="type is one of exclusive, shared"):
        await client.admin("subscription.create", {**arguments, "subscription": "t", "type": "x"})


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
