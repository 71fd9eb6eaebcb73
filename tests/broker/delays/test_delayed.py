"""Delayed delivery: no record arrives early, others overtake it, nothing is lost."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from broker_containers.broker.settings import BrokerSettings
from sulina import Client, FailurePolicy, Poison, Start
from sulina.runtime.memory_disk import MemoryDisk
from tests.broker.actions import (
    ack_all,
    bodies,
    eventually,
    look,
    numbered,
    publish,
    read_all,
    take,
    take_all,
)
from tests.broker.moved_clock import MovedClock, MovedCluster, later, running

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


async def test_records_due_at_the_same_time_come_in_the_order_in_which_they_were_published(
    cluster: MovedCluster, client: Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        at = datetime.now(UTC) + timedelta(hours=1)
        async with client.producer(TOPIC, batch_records=3) as producer:
            for payload in numbered(50):
                await producer.send(payload, deliver_at=at)
            await producer.send(b"sooner", deliver_at=at - timedelta(minutes=30))
        cluster.move(0.6)
        assert bodies(await take(consumer, 1)) == [b"sooner"]
        cluster.move(0.6)
        assert bodies(await take(consumer, 50)) == numbered(50)


async def test_a_clock_that_runs_is_enough(client: Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer, client.producer(TOPIC) as producer:
        sent = time.time()
        await producer.send(b"late", delay=0.15)
        await producer.send(b"at once")
        assert bodies(await take(consumer, 1)) == [b"at once"]
        assert bodies(await take(consumer, 1)) == [b"late"]
        assert time.time() >= sent + 0.15


async def test_a_time_that_has_passed_delays_nothing(client: Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer, client.producer(TOPIC) as producer:
        await producer.send(b"1", deliver_at=time.time() - 10)
        await producer.send(b"2", delay=0)
        assert bodies(await take(consumer, 2)) == [b"1", b"2"]


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


async def test_a_cumulative_acknowledgement_does_not_cover_what_was_not_delivered_yet(
    cluster: MovedCluster, client: Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await later(client, TOPIC, [b"late"])
        await publish(client, TOPIC, numbered(5))
        messages = await take(consumer, 5)
        await consumer.ack_cumulative(messages[-1])
        await consumer.flush_acks()
        assert await backlog(client) == 6
        cluster.move(1.1)
        (late,) = await take(consumer, 1)
        assert late.payload == b"late"
        await consumer.ack_cumulative(messages[-1])
        await consumer.ack_cumulative(late)
        await consumer.flush_acks()
        assert await backlog(client) == 0


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


async def test_every_consumer_of_a_shared_subscription_may_get_what_is_due(
    cluster: MovedCluster, client: Client
) -> None:
    async with (
        client.consumer(TOPIC, "s", type="shared") as one,
        client.consumer(TOPIC, "s", type="shared") as other,
    ):
        await later(client, TOPIC, numbered(10))
        cluster.move(1.1)
        mine, theirs = await take_all([one, other], 10)
        assert sorted(bodies(mine) + bodies(theirs)) == sorted(numbered(10))
        assert mine and theirs


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
