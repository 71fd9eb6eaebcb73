"""Delayed delivery and its limits: no record arrives early, others overtake it, nothing is lost."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.subscriptions.limits import SubscriptionLimits
from broker_containers.topic_log.ledger_settings import LedgerSettings
from sulina import Client, FailurePolicy, Poison, Refused, Start
from sulina.runtime.memory_disk import MemoryDisk
from sulina.wire import commands_pb2 as pb
from sulina.wire.encode import Origin, encode_frame
from tests.broker.actions import (
    PATIENCE,
    ack_all,
    bodies,
    eventually,
    look,
    numbered,
    publish,
    read_all,
    take,
)
from tests.broker.moved_cluster import HOUR, MovedClock, MovedCluster, running
from tests.broker.moved_cluster import client as client
from tests.broker.moved_cluster import cluster as cluster
from tests.broker.moved_cluster import cluster_and_client as cluster_and_client
from tests.broker.peer import Peer

TOPIC = "/default/delayed"
TYPES = ["exclusive", "failover", "shared", "key_shared"]


async def backlog(client: Client) -> int:
    return int((await look(client, TOPIC, "s"))["backlog"])


@pytest.mark.parametrize("type_", TYPES)
async def test_a_delayed_record_comes_when_its_time_has_come_and_not_before(
    cluster: MovedCluster, client: Client, type_: str
) -> None:
    async with client.consumer(TOPIC, "s", type=type_) as consumer:
        await later(client, TOPIC, [b"late"], key="k")
        await publish(client, TOPIC, numbered(20), keys=["k"] * 20)
        messages = await take(consumer, 20)
        assert bodies(messages) == numbered(20), "others overtake it"
        await ack_all(consumer, messages)
        found = await look(client, TOPIC, "s")
        assert (found["backlog"], found["delayed_frames"]) == (21, 1), "the cursor stays before it"
        cluster.move(0.9)
        await publish(client, TOPIC, [b"another"])
        assert bodies(await take(consumer, 1)) == [b"another"]
        cluster.move(0.2)
        (late,) = await take(consumer, 1)
        assert (late.payload, late.offset) == (b"late", 0)


async def test_a_clock_that_runs_is_enough(client: Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer, client.producer(TOPIC) as producer:
        sent = time.time()
        await producer.send(b"late", delay=0.15)
        await producer.send(b"at once")
        assert bodies(await take(consumer, 1)) == [b"at once"]
        assert bodies(await take(consumer, 1)) == [b"late"]
        assert time.time() >= sent + 0.15


async def test_a_restart_keeps_the_delay_and_what_was_acknowledged() -> None:
    disk, clock = MemoryDisk(), MovedClock()
    cluster = MovedCluster(disk, clock=clock)
    async with cluster, cluster.client() as client, client.consumer(TOPIC, "s") as consumer:
        await later(client, TOPIC, [b"first", b"second"])
        await publish(client, TOPIC, numbered(30))
        await later(client, TOPIC, [b"third"], hours=2)
        await ack_all(consumer, await take(consumer, 30))
    again = MovedCluster(disk, metadata=cluster.metadata, clock=clock)
    async with again, again.client() as client, client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, [b"new"])
        assert bodies(await take(consumer, 1)) == [b"new"]
        again.move(1.1)
        messages = await take(consumer, 2)
        assert bodies(messages) == [b"first", b"second"]
        await ack_all(consumer, messages)
        again.move(1.1)
        assert bodies(await take(consumer, 1)) == [b"third"]


async def test_a_delayed_record_comes_again_as_any_other(
    cluster: MovedCluster, client: Client
) -> None:
    policy = FailurePolicy(
        max_redelivery_count=1,
        base_redelivery_delay_ms=1,
        max_redelivery_delay_ms=1,
        poison=Poison.DEAD_LETTER,
        dead_letter_topic="/default/dead",
    )
    async with client.consumer(TOPIC, "s", failure_policy=policy) as consumer:
        await later(client, TOPIC, [b"late"])
        cluster.move(1.1)
        (first,) = await take(consumer, 1)
        await consumer.nack(first)
        (second,) = await take(consumer, 1)
        assert (second.payload, second.attempt) == (b"late", 2)
        await consumer.nack(second)

        async def buried() -> bool:
            return await backlog(client) == 0

        await eventually(buried)
    assert await read_all(client, "/default/dead") == [b"late"]


async def test_seeking_back_delays_what_is_not_due_and_shows_what_is(
    cluster: MovedCluster, client: Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await later(client, TOPIC, [b"one"])
        await later(client, TOPIC, [b"five"], hours=5)
        await publish(client, TOPIC, [b"at once"])
        await take(consumer, 1)
        cluster.move(1.1)
        await ack_all(consumer, await take(consumer, 1))
        await consumer.seek(Start.earliest())
        assert bodies(await take(consumer, 2)) == [b"one", b"at once"], "in order, being due"
        cluster.move(4)
        assert bodies(await take(consumer, 1)) == [b"five"]


async def test_a_new_subscription_waits_for_what_is_not_due(
    cluster: MovedCluster, client: Client
) -> None:
    await later(client, TOPIC, [b"late"])
    await publish(client, TOPIC, [b"at once"])
    async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
        assert bodies(await take(consumer, 1)) == [b"at once"]
        cluster.move(1.1)
        assert bodies(await take(consumer, 1)) == [b"late"]
    assert await read_all(client, TOPIC) == [b"late", b"at once"], "reading shows what is stored"


async def test_what_is_due_is_read_from_storage_if_memory_forgot_it() -> None:
    settings = BrokerSettings(cache_bytes=1)
    async with (
        running(settings) as (cluster, client),
        client.consumer(TOPIC, "s") as consumer,
    ):
        await later(client, TOPIC, numbered(30))
        await publish(client, TOPIC, numbered(30, first=30))
        assert bodies(await take(consumer, 30)) == numbered(30, first=30)
        cluster.move(1.1)
        assert bodies(await take(consumer, 30)) == numbered(30)


async def test_a_clock_that_is_set_back_delays_and_does_not_lose(
    cluster: MovedCluster, client: Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await later(client, TOPIC, [b"late"])
        cluster.move(-2)
        cluster.move(1.5)
        await publish(client, TOPIC, [b"at once"])
        assert bodies(await take(consumer, 1)) == [b"at once"]
        cluster.move(2)
        assert bodies(await take(consumer, 1)) == [b"late"]


async def test_at_the_bound_of_delayed_frames_nothing_is_read_ahead_and_nothing_is_lost() -> None:
    settings = BrokerSettings(subscription=SubscriptionLimits(delayed=3))
    async with (
        running(settings) as (cluster, client),
        client.consumer(TOPIC, "s") as consumer,
    ):
        for hour in range(1, 6):
            await later(client, TOPIC, [b"%d" % hour], hours=hour)
        await publish(client, TOPIC, [b"behind them"])
        (topic,) = cluster.broker.loaded()
        subscription = topic.subscription("s")
        for hour in range(1, 3):
            cluster.move(1.01)
            assert bodies(await take(consumer, 1)) == [b"%d" % hour]
            assert subscription.delayed_frames <= 3
        assert bodies(await take(consumer, 1)) == [b"behind them"]
        cluster.move(3.1)
        assert bodies(await take(consumer, 3)) == [b"3", b"4", b"5"]


async def test_consumed_data_stays_while_it_holds_a_record_that_is_not_delivered() -> None:
    settings = BrokerSettings(ledger=LedgerSettings(roll_bytes=500))
    async with (
        running(settings) as (cluster, client),
        client.consumer(TOPIC, "s") as consumer,
    ):
        await later(client, TOPIC, [b"late"])
        await publish(client, TOPIC, [bytes(200)] * 20)
        await client.admin("topic.policy", {"topic": TOPIC, "delete_consumed": True})
        await ack_all(consumer, await take(consumer, 20))
        (topic,) = cluster.broker.loaded()
        assert await cluster.broker.retention.apply(topic) == 0
        cluster.move(1.1)
        await ack_all(consumer, await take(consumer, 1))
        assert await cluster.broker.retention.apply(topic) > 0


async def test_what_retention_removed_before_its_time_is_passed_over() -> None:
    settings = BrokerSettings(ledger=LedgerSettings(roll_bytes=500), cache_bytes=1)
    async with (
        running(settings) as (cluster, client),
        client.consumer(TOPIC, "s") as consumer,
    ):
        await later(client, TOPIC, [b"late"])
        await publish(client, TOPIC, [bytes(200)] * 20)
        await ack_all(consumer, await take(consumer, 20))
        await client.admin("topic.policy", {"topic": TOPIC, "retention_bytes": 1})
        (topic,) = cluster.broker.loaded()
        assert await cluster.broker.retention.apply(topic) > 0
        cluster.move(1.1)

        async def passed_over() -> bool:
            return await backlog(client) == 0

        await eventually(passed_over)
        assert (await look(client, TOPIC, "s"))["counters"]["skipped"] == 1


@pytest.mark.parametrize("way", ["send", "send_many"])
async def test_a_time_too_far_ahead_is_refused_before_anything_is_sent(
    client: Client, way: str
) -> None:
    async with client.producer(TOPIC) as producer:
        delay = timedelta(days=31)
        sending = (
            producer.send(b"x", delay=delay)
            if way == "send"
            else producer.send_many([b"x"], delay=delay)
        )
        with pytest.raises(Refused, match=r"31\.0 days ahead.* at most 30"):
            await sending
        await (await producer.send(b"x", delay=timedelta(days=30)))


async def test_a_broker_refuses_a_time_too_far_ahead_and_takes_what_follows(
    cluster: MovedCluster, client: Client
) -> None:
    async with client.producer(TOPIC) as producer:
        assert isinstance(cluster.clock, MovedClock)
        cluster.clock.ahead = -2 * 86_400
        ticket = await producer.send(b"x", delay=timedelta(days=30))
        with pytest.raises(Refused, match=r"32\.0 days ahead by the broker's clock"):
            await asyncio.wait_for(ticket, PATIENCE)
        assert (await (await producer.send(b"y"))).offset == 0


async def test_a_topic_that_stores_nothing_refuses_delays(client: Client) -> None:
    async with client.producer(TOPIC, delivery="non_reliable") as producer:
        for way in (producer.send(b"x", delay=1), producer.send_many([b"x"], delay=1)):
            with pytest.raises(Refused, match="non_reliable and stores nothing"):
                await way


async def test_a_broker_refuses_a_delayed_frame_for_a_topic_that_stores_nothing(
    cluster: MovedCluster, client: Client
) -> None:
    await client.admin("topic.create", {"topic": TOPIC, "delivery": "non_reliable"})
    async with Peer(cluster.port) as peer:
        producer = (await peer.producer(TOPIC, "p")).producer
        soon = cluster.clock.wall_us() + HOUR
        peer.publish(producer, 0, encode_frame(Origin("p"), 0, [b"x"], 1, due_us=soon))
        failed = await peer.next(pb.PublishFailed)
        assert "non_reliable topic stores nothing" in failed.error.message
        peer.publish(producer, 1, encode_frame(Origin("p"), 1, [b"y"], 1))
        assert (await peer.next(pb.Published)).first_number == 1


async def later(
    client: Client, topic: str, payloads: list[bytes], hours: float = 1, key: str | None = None
) -> None:
    """Publish records, each in a frame of its own, to be delivered in some hours."""
    async with client.producer(topic) as producer:
        for payload in payloads:
            await producer.send(payload, delay=hours * HOUR, key=key)
            await producer.flush()
