"""Expiry: nobody gets a record too late, it is counted, and everything else arrives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.topic_log.ledger_settings import LedgerSettings
from sulina import Client, FailurePolicy, Refused, Start
from sulina.runtime.memory_disk import MemoryDisk
from tests.broker.actions import (
    ack_all,
    bodies,
    eventually,
    look,
    numbered,
    publish,
    read_all,
    subscribe,
    take,
)
from tests.broker.moved_cluster import HOUR, MovedClock, MovedCluster, running
from tests.broker.moved_cluster import client as client
from tests.broker.moved_cluster import cluster as cluster
from tests.broker.moved_cluster import cluster_and_client as cluster_and_client

TOPIC = "/default/expiring"
TYPES = ["exclusive", "failover", "shared", "key_shared"]


async def send(client: Client, payloads: list[bytes], **options: Any) -> None:
    async with client.producer(TOPIC) as producer:
        await producer.send_many(payloads, **options)


async def set_ttl(client: Client, hours: float) -> None:
    await client.admin("topic.policy", {"topic": TOPIC, "ttl_ms": int(hours * HOUR * 1000)})


def sweep(cluster: MovedCluster) -> None:
    """What the broker does every few seconds."""
    for topic in cluster.broker.loaded():
        for subscription in topic.subscriptions.values():
            subscription.expire()


async def expired(client: Client, count: int, name: str = "s") -> None:
    """Wait until that many records are passed over, and nothing is left."""

    async def done() -> bool:
        found = await look(client, TOPIC, name)
        return (found["counters"]["expired"], found["backlog"]) == (count, 0)

    await eventually(done)


@pytest.mark.parametrize("type_", TYPES)
async def test_a_record_that_nobody_took_in_time_is_passed_over(
    cluster: MovedCluster, client: Client, type_: str
) -> None:
    await subscribe(client, TOPIC, "s", type=type_)
    await send(client, [b"short"], keys=["k"], expires=timedelta(hours=1))
    await send(client, [b"long"], keys=["k"], expires=3 * HOUR)
    await send(client, [b"for ever"], keys=["k"])
    cluster.move(1.1)
    async with client.consumer(TOPIC, "s", type=type_) as consumer:
        messages = await take(consumer, 2)
        assert bodies(messages) == [b"long", b"for ever"]
        await ack_all(consumer, messages)
    await expired(client, 1)
    assert await read_all(client, TOPIC) == [b"short", b"long", b"for ever"], "history shows all"


async def test_a_time_to_live_counts_from_publishing_and_may_change(
    cluster: MovedCluster, client: Client
) -> None:
    await subscribe(client, TOPIC, "s")
    await set_ttl(client, 1)
    await send(client, [b"old"])
    cluster.move(1.1)
    sweep(cluster)
    await expired(client, 1)
    now = cluster.clock.wall_us()
    await send(client, [b"new"], publish_time_us=now)
    await set_ttl(client, 3)
    cluster.move(2)
    async with client.consumer(TOPIC, "s") as consumer:
        assert bodies(await take(consumer, 1)) == [b"new"], "the longer time counts"


async def test_the_namespace_sets_the_time_to_live_of_its_topics(
    cluster: MovedCluster, client: Client
) -> None:
    await subscribe(client, TOPIC, "s")
    await client.admin("namespace.policy", {"namespace": "default", "ttl_ms": 1000})
    await send(client, [b"old"])
    cluster.move(1)
    sweep(cluster)
    await expired(client, 1)


async def test_a_frame_expires_record_by_record(cluster: MovedCluster, client: Client) -> None:
    await subscribe(client, TOPIC, "s")
    now = cluster.clock.wall_us()
    async with client.producer(TOPIC) as producer:
        for number, minutes in enumerate((0, 10, 15, 5)):
            await producer.send(b"%d" % number, publish_time_us=now + minutes * 60_000_000)
    await set_ttl(client, 1)
    cluster.move(1 + 7 / 60)
    async with client.consumer(TOPIC, "s") as consumer:
        messages = await take(consumer, 2)
        assert bodies(messages) == [b"1", b"2"]
        await ack_all(consumer, messages)
        await expired(client, 2)


async def test_what_waits_for_redelivery_expires_and_what_a_consumer_has_does_not(
    cluster: MovedCluster, client: Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await send(client, numbered(3), expires=HOUR)
        first, second, third = await take(consumer, 3)
        await consumer.nack(first, delay_ms=50_000)
        await consumer.flush_acks()
        cluster.move(1.1)
        sweep(cluster)
        await consumer.nack(second, delay_ms=0)
        await ack_all(consumer, [third])
        sweep(cluster)
        await send(client, [b"next"])
        (following,) = await take(consumer, 1)
        assert following.payload == b"next"
        await ack_all(consumer, [following])

        async def gone() -> bool:
            sweep(cluster)
            return int((await look(client, TOPIC, "s"))["backlog"]) == 0

        await eventually(gone)
        counters = (await look(client, TOPIC, "s"))["counters"]
        assert (counters["expired"], counters["acknowledged"]) == (2, 2)


async def test_a_delayed_record_lives_from_its_delivery_time_on(
    cluster: MovedCluster, client: Client
) -> None:
    await set_ttl_of_new_topic(client)
    await subscribe(client, TOPIC, "s")
    await send(client, [b"late"], delay=5 * HOUR)
    await send(client, [b"own"], delay=5 * HOUR, expires=6 * HOUR)
    cluster.move(5.5)
    async with client.consumer(TOPIC, "s") as consumer:
        assert bodies(await take(consumer, 2)) == [b"late", b"own"]
    cluster.move(1)
    sweep(cluster)
    await expired(client, 2)


async def set_ttl_of_new_topic(client: Client) -> None:
    await client.admin("topic.create", {"topic": TOPIC})
    await set_ttl(client, 1)


async def test_a_restart_keeps_the_expiry_and_the_counted_position() -> None:
    disk, clock = MemoryDisk(), MovedClock()
    cluster = MovedCluster(disk, clock=clock)
    async with cluster, cluster.client() as client:
        await subscribe(client, TOPIC, "s")
        await subscribe(client, TOPIC, "t")
        await send(client, numbered(5), expires=HOUR)
        await send(client, [b"kept"])
    clock.ahead += 2 * HOUR
    again = MovedCluster(disk, metadata=cluster.metadata, clock=clock)
    async with again, again.client() as client:
        async with client.consumer(TOPIC, "s") as consumer:
            assert bodies(await take(consumer, 1)) == [b"kept"]
        sweep(again)

        async def passed() -> bool:
            found = await look(client, TOPIC, "t")
            return (found["position"], found["counters"]["expired"]) == (5, 5)

        await eventually(passed)


async def test_a_long_backlog_is_passed_over_from_storage_without_a_consumer() -> None:
    settings = BrokerSettings(ledger=LedgerSettings(roll_bytes=2000), cache_bytes=1)
    async with running(settings) as (cluster, client):
        await subscribe(client, TOPIC, "s")
        await publish(client, TOPIC, numbered(300))
        await set_ttl(client, 1)
        cluster.move(1.1)
        sweep(cluster)
        await expired(client, 300)
        await client.admin("topic.policy", {"topic": TOPIC, "delete_consumed": True})
        (topic,) = cluster.broker.loaded()
        assert await cluster.broker.retention.apply(topic) > 0, "it counts as consumed"


@pytest.mark.parametrize("delay", [0, 3 * HOUR])
async def test_expired_records_become_dead_letters_if_the_policy_says_so(
    cluster: MovedCluster, client: Client, delay: int
) -> None:
    policy = FailurePolicy(dead_letter_expired=True, dead_letter_topic="/default/dead")
    await set_ttl_of_new_topic(client)
    await client.admin("namespace.policy", {"namespace": "default", "ttl_ms": HOUR * 1000})
    await subscribe(client, TOPIC, "s", failure_policy=policy)
    await send(client, numbered(3), keys=["a", "b", "c"], delay=delay)
    cluster.move(4.1)
    sweep(cluster)
    await expired(client, 3)
    assert (await look(client, TOPIC, "s"))["counters"]["dead_lettered"] == 3
    async with client.consumer("/default/dead", "look", start=Start.earliest()) as consumer:
        found = await take(consumer, 3)
    assert bodies(found) == numbered(3), "they do not expire there at once"
    assert {message.attributes["x-failure-reason"] for message in found} == {"expired"}
    assert "x-poison-policy" not in found[0].attributes, "none decided"
    assert (await client.admin.messages.replay("/default/dead")).replayed == 3
    async with client.consumer(TOPIC, "look", start=Start.earliest()) as consumer:
        assert not {*(await take(consumer, 3))[0].attributes}, "nothing of a dead letter stays"


async def test_a_topic_that_stores_nothing_lets_records_expire_too(
    cluster: MovedCluster, client: Client
) -> None:
    async with (
        client.producer(TOPIC, delivery="non_reliable") as producer,
        client.consumer(TOPIC, "s") as consumer,
    ):
        cluster.move(2)  # the producer's clock is two hours behind
        await producer.send(b"late", expires=HOUR)
        await producer.send(b"next")
        assert bodies(await take(consumer, 1)) == [b"next"]


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ({"expires": 0}, "expired already"),
        ({"expires": -1}, "negative"),
        ({"expires": datetime(2020, 1, 1, tzinfo=UTC)}, "expired already"),
        ({"expires": datetime(2060, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"expires": 60, "delay": 60}, "before it is delivered"),
        ({"expires": "soon"}, "timedelta or seconds"),
    ],
)
async def test_an_expiry_that_makes_no_sense_is_refused(
    client: Client, times: dict[str, Any], problem: str
) -> None:
    async with client.producer(TOPIC) as producer:
        for way in (producer.send(b"x", **times), producer.send_many([b"x"], **times)):
            with pytest.raises(Refused, match=problem):
                await way
