"""Where a subscription starts, seeking, and deleting it."""

from __future__ import annotations

import asyncio

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.topic_log.ledger_settings import LedgerSettings
from sulina import Client, NotFound, Refused, Start
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command
from tests.broker.actions import (
    ack_all,
    bodies,
    consumers,
    eventually,
    look,
    numbered,
    publish,
    subscribe,
    take,
    take_all,
)
from tests.broker.cluster import Cluster
from tests.broker.conftest import MakeCluster
from tests.broker.memory_cluster import GatedDisk, MemoryCluster
from tests.broker.peer import Peer

TOPIC = "/default/start"
SECOND = 1_000_000


async def publish_at_seconds(client: Client, count: int, batch_records: int = 10) -> None:
    """Record n is published at second 1000 + n."""
    async with client.producer(TOPIC, batch_records=batch_records) as producer:
        for number in range(count):
            time = (1000 + number) * SECOND
            await producer.send(b"%d" % number, publish_time_us=time)


async def first_of(client: Client, start: Start) -> bytes:
    """What a new subscription with this start gets first."""
    async with client.consumer(TOPIC, "new", start=start) as consumer:
        (message,) = await take(consumer, 1)
        await consumer.unsubscribe()
        return message.payload


# ---- a new subscription ----


async def test_a_new_subscription_begins_with_what_is_published_from_now_on(
    client: Client,
) -> None:
    await publish(client, TOPIC, numbered(5))
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(5, first=5))
        assert bodies(await take(consumer, 5)) == numbered(5, first=5)


async def test_a_new_subscription_may_begin_at_any_offset_also_within_a_batch(
    client: Client,
) -> None:
    await publish(client, TOPIC, numbered(30), batch_records=10)
    for offset in (0, 1, 9, 10, 11, 25, 29):
        assert await first_of(client, Start.offset(offset)) == b"%d" % offset


async def test_records_before_the_start_count_as_done(client: Client) -> None:
    await publish(client, TOPIC, numbered(20), batch_records=10)
    async with client.consumer(TOPIC, "s", start=Start.offset(5)) as consumer:
        messages = await take(consumer, 15)
        assert (await look(client, TOPIC, "s"))["position"] == 5
        await ack_all(consumer, messages)
    assert (await look(client, TOPIC, "s"))["backlog"] == 0


@pytest.mark.parametrize("start", [Start.offset(1000), Start.time(5000 * SECOND)], ids=str)
async def test_what_is_beyond_the_end_begins_at_the_end(client: Client, start: Start) -> None:
    await publish_at_seconds(client, 5)
    async with client.consumer(TOPIC, "s", start=start) as consumer:
        await publish(client, TOPIC, numbered(1, first=5))
        assert bodies(await take(consumer, 1)) == [b"5"]


async def test_a_new_subscription_may_begin_at_a_time(client: Client) -> None:
    await publish_at_seconds(client, 50, batch_records=1)
    for number in (0, 1, 17, 49):
        exact = Start.time((1000 + number) * SECOND)
        assert await first_of(client, exact) == b"%d" % number
        if number:
            between = Start.time((1000 + number) * SECOND - SECOND // 2)
            assert await first_of(client, between) == b"%d" % number
    assert await first_of(client, Start.time(0)) == b"0"


async def test_a_time_within_a_batch_begins_with_the_first_record_of_that_time(
    client: Client,
) -> None:
    await publish_at_seconds(client, 30, batch_records=10)
    for number in (4, 10, 19, 25):
        assert await first_of(client, Start.time((1000 + number) * SECOND)) == b"%d" % number


async def test_each_partition_begins_at_the_time(client: Client) -> None:
    await client.admin("topic.create", {"topic": TOPIC, "partitions": 3})
    async with client.producer(TOPIC, batch_records=1) as producer:
        for number in range(60):
            time = (1000 + number) * SECOND
            await producer.send(b"%d" % number, key=f"key-{number}", publish_time_us=time)
    async with client.consumer(TOPIC, "s", start=Start.time(1040 * SECOND)) as consumer:
        messages = await take(consumer, 20)
        assert sorted(int(message.payload) for message in messages) == list(range(40, 60))


async def test_an_existing_subscription_goes_on_whatever_start_is_asked_for(
    client: Client,
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(10))
        await ack_all(consumer, (await take(consumer, 10))[:6])
    async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
        assert bodies(await take(consumer, 4)) == numbered(4, first=6)


# ---- seek ----


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (Start.earliest(), 0),
        (Start.offset(7), 7),
        (Start.offset(13), 13),
        (Start.time(1021 * SECOND), 21),
        (Start.time(0), 0),
    ],
    ids=["earliest", "an offset", "a later offset", "a time", "the first time"],
)
async def test_a_seek_goes_on_from_anywhere(client: Client, start: Start, first: int) -> None:
    await publish_at_seconds(client, 30, batch_records=10)
    async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
        await ack_all(consumer, await take(consumer, 12))
        await consumer.seek(start)
        assert bodies(await take(consumer, 30 - first)) == numbered(30 - first, first)


async def test_a_seek_to_the_latest_skips_everything(client: Client) -> None:
    await publish(client, TOPIC, numbered(30))
    async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
        await take(consumer, 3)
        await consumer.seek(Start.latest())
        assert (await look(client, TOPIC, "s"))["backlog"] == 0
        await publish(client, TOPIC, [b"next"])
        assert bodies(await take(consumer, 1)) == [b"next"]


async def test_what_was_received_before_a_seek_is_not_acknowledged_after_it(
    client: Client,
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(10))
        messages = await take(consumer, 10)
        await consumer.seek(Start.offset(0))
        await ack_all(consumer, messages)
        await consumer.ack_cumulative(messages[-1])
        await consumer.flush_acks()
        assert (await look(client, TOPIC, "s"))["position"] == 0
        assert bodies(await take(consumer, 10)) == numbered(10)


async def test_a_seek_survives_a_restart(cluster: Cluster, client: Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(10))
        await ack_all(consumer, await take(consumer, 10))
        await consumer.seek(Start.offset(4))
    await cluster.restart()
    async with cluster.client() as later, later.consumer(TOPIC, "s") as consumer:
        assert bodies(await take(consumer, 6)) == numbered(6, first=4)


async def test_a_seek_moves_every_partition(client: Client) -> None:
    await client.admin("topic.create", {"topic": TOPIC, "partitions": 3})
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(30), keys=[f"key-{n}" for n in range(30)])
        await ack_all(consumer, await take(consumer, 30))
        await consumer.seek(Start.earliest())
        again = await take(consumer, 30)
        assert sorted(int(message.payload) for message in again) == list(range(30))


async def test_deliveries_go_on_when_the_seeking_consumer_leaves_before_its_answer() -> None:
    metadata = GatedDisk()
    async with (
        MemoryCluster(GatedDisk(), metadata=metadata) as cluster,
        cluster.client() as client,
        Peer(cluster.port) as peer,
    ):
        await publish(client, TOPIC, numbered(5))
        handle = await peer.subscribe(TOPIC, "s", records=100)
        for _ in range(5):
            await peer.next(pb.Deliver)
        metadata.close_gate()  # the seek waits for its cursor to be stored
        seek = pb.Seek(consumer=handle, start=pb.Start(earliest=True))
        peer.send(Command.SEEK, seek, request=7)
        peer.send(Command.CLOSE_CONSUMER, pb.CloseConsumer(consumer=handle), request=8)
        assert (await peer.receive()).request == 8
        metadata.open_gate()
        assert (await peer.receive()).request == 7
        async with client.consumer(TOPIC, "s") as consumer:
            assert bodies(await take(consumer, 5)) == numbered(5)


async def test_deliveries_go_on_when_the_connection_is_lost_during_a_seek() -> None:
    metadata = GatedDisk()
    async with MemoryCluster(GatedDisk(), metadata=metadata) as cluster, cluster.client() as client:
        await publish(client, TOPIC, numbered(5))
        async with Peer(cluster.port) as peer:
            handle = await peer.subscribe(TOPIC, "s", records=100)
            for _ in range(5):
                await peer.next(pb.Deliver)
            metadata.close_gate()
            seek = pb.Seek(consumer=handle, start=pb.Start(earliest=True))
            peer.send(Command.SEEK, seek, request=7)
            await peer.ask(Command.PING, pb.Ping(), pb.Pong)

        async def gone() -> bool:
            return not (await look(client, TOPIC, "s"))["consumers"]

        await eventually(gone)
        metadata.open_gate()
        async with client.consumer(TOPIC, "s") as consumer:
            assert bodies(await take(consumer, 5)) == numbered(5)


# ---- administration ----


async def test_an_administrator_makes_and_moves_subscriptions(client: Client) -> None:
    await publish_at_seconds(client, 10, batch_records=1)
    name = {"topic": TOPIC, "subscription": "s"}
    made = await client.admin(
        "subscription.create", {**name, "type": "shared", "start": {"offset": 3}}
    )
    assert (made["position"], made["type"], made["backlog"]) == (3, "shared", 7)
    for start, position in (
        ("earliest", 0),
        ("latest", 10),
        ({"offset": 4}, 4),
        ({"time_us": 1006 * SECOND}, 6),
    ):
        moved = await client.admin("subscription.seek", {**name, "start": start})
        assert moved["position"] == position
    async with client.consumer(TOPIC, "s", type="shared") as consumer:
        assert bodies(await take(consumer, 4)) == numbered(4, first=6)
        with pytest.raises(Refused, match="has consumers: close them before moving it"):
            await client.admin("subscription.seek", {**name, "start": "earliest"})
    with pytest.raises(Refused, match="start is latest, earliest, an offset or a time"):
        await client.admin("subscription.seek", {**name, "start": "yesterday"})


# ---- the end ----


async def test_unsubscribing_deletes_the_subscription_with_its_position(client: Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(5))
        await take(consumer, 5)
        await consumer.unsubscribe()
    with pytest.raises(NotFound, match="no subscription 's'"):
        await look(client, TOPIC, "s")
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, [b"next"])
        assert bodies(await take(consumer, 1)) == [b"next"], "it is new, and begins at the end"


async def test_an_unsubscribed_subscription_does_not_come_back_after_a_restart(
    cluster: Cluster, client: Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(5))
        await consumer.unsubscribe()
    await subscribe(client, TOPIC, "kept")
    await cluster.restart()
    async with cluster.client() as later:
        found = await later.admin("subscription.list", {"topic": TOPIC})
        assert [each["subscription"] for each in found] == ["kept"]


async def test_unsubscribing_is_refused_while_others_use_the_subscription(
    client: Client,
) -> None:
    async with consumers(client, TOPIC, "s", 2, type="shared") as (first, second):
        with pytest.raises(Refused, match="has 1 other consumers: close them before"):
            await first.unsubscribe()
        await publish(client, TOPIC, numbered(4))
        assert sum(map(len, await take_all([first, second], 4))) == 4


async def test_an_administrator_deletes_a_subscription_and_its_consumers_are_told(
    client: Client,
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        waiting = asyncio.create_task(consumer.receive(10))
        await client.admin("subscription.delete", {"topic": TOPIC, "subscription": "s"})
        with pytest.raises(NotFound, match="the subscription 's' was deleted"):
            await waiting


async def test_unsubscribing_from_a_partitioned_topic_deletes_it_everywhere(
    client: Client,
) -> None:
    await client.admin("topic.create", {"topic": TOPIC, "partitions": 3})
    async with client.consumer(TOPIC, "s") as consumer:
        await consumer.unsubscribe()
    for part in range(3):
        found = await client.admin("subscription.list", {"topic": f"{TOPIC}-part-{part}"})
        assert found == []


async def test_times_and_offsets_in_older_ledgers_are_found(make_cluster: MakeCluster) -> None:
    cluster = await make_cluster(BrokerSettings(ledger=LedgerSettings(roll_bytes=600)))
    async with cluster.client() as client:
        await publish_at_seconds(client, 60, batch_records=1)
        (log,) = (await client.admin("topic.describe", {"topic": TOPIC}))["logs"]
        assert len(log["ledgers"]) > 5
        for number in (0, 1, 5, 23, 42, 58, 59):
            assert await first_of(client, Start.offset(number)) == b"%d" % number
            time = Start.time((1000 + number) * SECOND)
            assert await first_of(client, time) == b"%d" % number
