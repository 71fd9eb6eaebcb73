"""Limits of delayed delivery: the time ahead, the number of records, retention, storage."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.subscriptions.dispatcher import SubscriptionLimits
from broker_containers.topic_log.managed_ledger import LedgerSettings
from sulina import Client, Refused
from sulina.wire import commands_pb2 as pb
from sulina.wire.encode import Origin, encode_frame
from tests.broker.actions import (
    PATIENCE,
    ack_all,
    bodies,
    eventually,
    look,
    publish,
    take,
)
from tests.broker.moved_clock import HOUR, MovedClock, MovedCluster, later, running
from tests.broker.peer import Peer

TOPIC = "/default/delayed"


async def backlog(client: Client) -> int:
    return int((await look(client, TOPIC, "s"))["backlog"])


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


async def test_errors_name_the_remedy(client: Client) -> None:
    async with client.producer(TOPIC) as producer:
        for wrong in (
            {"deliver_at": datetime(2030, 1, 1)},  # noqa: DTZ001
            {"delay": -1},
            {"delay": float("nan")},
            {"delay": True},
            {"deliver_at": "tomorrow"},
            {"deliver_at": 1, "delay": 1},
        ):
            with pytest.raises(Refused):
                await producer.send(b"x", **wrong)
