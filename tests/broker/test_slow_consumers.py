"""Credit bounds what a consumer is sent; slow consumers affect neither others nor memory."""

from __future__ import annotations

import asyncio
import random

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.subscriptions.limits import SubscriptionLimits
from broker_containers.topic_log.ledger_settings import LedgerSettings
from sulina import Client, Consumer, Start
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command
from sulina.wire.decode import Frame
from tests.broker.actions import (
    ack_all,
    bodies,
    eventually,
    look,
    numbered,
    publish,
    subscribe,
    take,
)
from tests.broker.cluster import Cluster
from tests.broker.conftest import MakeCluster
from tests.broker.peer import Peer

TOPIC = "/default/slow"
CACHE = 64 << 10
FRAME = 4 << 10


def large(number: int) -> bytes:
    return b"%06d" % number + b"." * (FRAME - 6)


def numbers(payloads: list[bytes]) -> list[int]:
    return [int(payload[:6]) for payload in payloads]


@pytest.fixture
async def small(make_cluster: MakeCluster) -> Cluster:
    """A broker that keeps very little in memory."""
    ledger = LedgerSettings(roll_bytes=200 << 10)
    return await make_cluster(BrokerSettings(cache_bytes=CACHE, ledger=ledger))


async def cache_bytes(client: Client) -> int:
    found = (await client.admin("broker.stats"))["cache_bytes"]
    assert isinstance(found, int)
    return found


async def test_a_lagging_consumer_joins_the_tail_without_a_gap_or_a_repeat(
    small: Cluster,
) -> None:
    async with small.client() as client, small.client() as other:
        await subscribe(client, TOPIC, "lagging")
        async with client.consumer(TOPIC, "tail") as tail, client.producer(TOPIC) as producer:
            for number in range(300):
                await (await producer.send(large(number)))
                assert numbers([(await tail.receive(10)).payload]) == [number]
            assert await cache_bytes(client) <= CACHE
            # It reads from the journal while more is published, then from the tail.
            async with other.consumer(TOPIC, "lagging", queue_bytes=5 * FRAME) as lagging:
                seen: list[int] = []
                for number in range(300, 500):
                    await producer.send(large(number))
                    if number % 3 == 0:
                        seen += numbers(bodies(await take(lagging, 4)))
                seen += numbers(bodies(await take(lagging, 500 - len(seen))))
                assert seen == list(range(500))
                for number in range(500, 520):
                    await (await producer.send(large(number)))
                    assert numbers(bodies(await take(lagging, 1))) == [number]
            assert numbers(bodies(await take(tail, 220))) == list(range(300, 520))


async def test_the_cache_stays_within_its_bound_however_many_topics_there_are(
    small: Cluster,
) -> None:
    async with small.client() as client:
        producers = [
            await client.producer(f"/default/topic-{number}").open() for number in range(10)
        ]
        for number in range(50):
            for producer in producers:
                await producer.send(large(number))
            if number % 10 == 0:
                await asyncio.gather(*(producer.flush() for producer in producers))
                assert await cache_bytes(client) <= CACHE
        await asyncio.gather(*(producer.flush() for producer in producers))
        assert 0 < await cache_bytes(client) <= CACHE


async def test_a_deleted_topic_leaves_nothing_in_the_cache(client: Client) -> None:
    await publish(client, TOPIC, numbered(20))
    assert await cache_bytes(client) > 0
    await client.admin("topic.delete", {"topic": TOPIC})
    assert await cache_bytes(client) == 0


async def test_consumers_of_every_speed_all_see_everything_in_order(small: Cluster) -> None:
    chance = random.Random(3)
    total = 400

    async def follow(consumer: Consumer, pauses: float) -> list[int]:
        seen: list[int] = []
        while len(seen) < total:
            seen += numbers([message.payload for message in await consumer.receive_batch(20)])
            if chance.random() < pauses:
                await asyncio.sleep(chance.random() / 200)
        return seen

    async with small.client() as client, small.client() as other:
        async with asyncio.TaskGroup() as group:
            tasks = []
            for index, pauses in enumerate((0.0, 0.1, 0.5, 1.0)):
                consumer = await other.consumer(
                    TOPIC, f"speed-{index}", queue_bytes=(index + 1) * 3 * FRAME
                ).open()
                tasks.append(group.create_task(follow(consumer, pauses)))
            async with client.producer(TOPIC, batch_bytes=3 * FRAME) as producer:
                for number in range(total):
                    await producer.send(large(number))
                    if number % 20 == 0:
                        await producer.flush()
        for task in tasks:
            assert task.result() == list(range(total))


async def test_a_consumer_that_never_reads_its_socket_costs_a_bounded_buffer(
    small: Cluster,
) -> None:
    payload = b"." * (256 << 10)
    async with Peer(small.port, small_buffers=True) as stuck:
        await stuck.subscribe(TOPIC, "stuck", records=1 << 30, bytes_=1 << 40)
        async with small.client() as client, client.consumer(TOPIC, "busy") as busy:
            async with client.producer(TOPIC, batch_records=1) as producer:
                for _ in range(100):
                    await (await producer.send(payload))
                    assert len((await busy.receive(10)).payload) == len(payload)
            sessions = small.server.binary._sessions
            queued = [s.stream._transport.get_write_buffer_size() for s in sessions]  # type: ignore[union-attr]
            assert max(queued) < 4 << 20
            (found,) = (await look(client, TOPIC, "stuck"))["consumers"]
            assert found["sent"] < 60, "of a hundred"
            assert await cache_bytes(client) <= CACHE + (300 << 10)
            # When it reads at last, nothing is missing.
            offsets: list[int] = []
            while len(offsets) < 100:
                incoming = await stuck.receive()
                assert isinstance(incoming.body, pb.Deliver)
                offsets.append(Frame(incoming.data).header.base_offset)
            assert offsets == list(range(100))


async def test_a_consumer_that_acknowledges_nothing_gets_no_more_than_the_window(
    make_cluster: MakeCluster,
) -> None:
    cluster = await make_cluster(
        BrokerSettings(subscription=SubscriptionLimits(frames=10, records=100))
    )
    async with cluster.client() as client:
        await publish(client, TOPIC, numbered(40))
        async with client.consumer(TOPIC, "s", start=Start.earliest()) as lazy:
            messages = await take(lazy, 10)
            assert (await look(client, TOPIC, "s"))["counters"]["delivered"] == 10
            async with client.consumer(TOPIC, "other", start=Start.earliest()) as other:
                for _ in range(4):
                    await ack_all(other, await take(other, 10))
            await ack_all(lazy, messages)
            assert bodies(await take(lazy, 10)) == numbered(10, first=10)


async def test_a_subscription_keeps_little_of_what_is_in_flight_in_memory(
    small: Cluster,
) -> None:
    payload = b"." * (128 << 10)
    async with (
        small.client() as client,
        client.consumer(TOPIC, "s", queue_bytes=64 << 20) as consumer,
    ):
        await publish(client, TOPIC, [payload] * 80)
        messages = await take(consumer, 80)  # ten megabytes in flight
        (topic,) = small.broker.loaded()
        assert topic.subscription("s")._reading.kept_bytes <= 5 << 20
        await ack_all(consumer, messages)


async def test_a_subscription_without_consumers_holds_nothing_up(small: Cluster) -> None:
    async with small.client() as client:
        await subscribe(client, TOPIC, "nobody")
        await publish(client, TOPIC, [large(number) for number in range(200)])
        assert await cache_bytes(client) <= CACHE

        async def backlog() -> bool:
            return bool((await look(client, TOPIC, "nobody"))["backlog"] == 200)

        await eventually(backlog)
        async with client.consumer(TOPIC, "nobody") as consumer:
            assert numbers(bodies(await take(consumer, 200))) == list(range(200))


async def test_a_slow_non_reliable_consumer_misses_records_and_delays_nobody(
    small: Cluster,
) -> None:
    kind = "non_reliable"
    async with small.client() as client, small.client() as other:
        await client.admin("topic.create", {"topic": TOPIC, "delivery": kind})
        async with (
            other.consumer(TOPIC, "slow", queue_records=3) as slow,
            client.consumer(TOPIC, "fast") as fast,
            client.producer(TOPIC) as producer,
        ):
            for number in range(200):
                await (await producer.send(large(number)))
                assert numbers(bodies(await take(fast, 1))) == [number]
            assert await cache_bytes(client) <= CACHE
            seen: list[int] = []
            while not seen or seen[-1] != 199:
                seen += numbers(bodies(await take(slow, 1)))
            assert seen == sorted(set(seen)), "in order, none twice"
            assert len(seen) < 200
            assert (await look(client, TOPIC, "slow"))["counters"]["skipped"] == 200 - len(seen)


async def sent(client: Client) -> int:
    found = (await look(client, TOPIC, "s"))["counters"]["delivered"]
    assert isinstance(found, int)
    return found


async def test_without_credit_nothing_comes_and_with_it_exactly_what_was_granted(
    cluster: Cluster, client: Client
) -> None:
    await publish(client, TOPIC, numbered(10))
    async with Peer(cluster.port) as peer:
        body = pb.Subscribe(
            topic=TOPIC, subscription="s", consumer="c", start=pb.Start(earliest=True)
        )
        handle = (await peer.ask(Command.SUBSCRIBE, body, pb.Subscribed)).consumer
        await client.ping()
        assert await sent(client) == 0
        for granted in (3, 2):
            peer.grant(handle, granted)
            for _ in range(granted):
                await peer.next(pb.Deliver)
        await peer.ask(Command.PING, pb.Ping(), pb.Pong)
        assert await sent(client) == 5
