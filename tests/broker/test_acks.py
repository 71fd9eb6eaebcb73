"""Acknowledgements: individual, cumulative, by batch, late, and across restarts."""

from __future__ import annotations

from broker_containers.broker.settings import BrokerSettings
from sulina import Client, Start
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command
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

TOPIC = "/default/acks"
EARLIEST = Start.earliest()


async def position(client: Client, subscription: str = "s") -> int:
    found = (await look(client, TOPIC, subscription))["position"]
    assert isinstance(found, int)
    return found


# ---- which records are meant ----


async def test_a_cumulative_acknowledgement_counts_for_everything_before_it(
    client: Client,
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(20), batch_records=6)
        messages = await take(consumer, 20)
        await consumer.ack_cumulative(messages[13])
        await consumer.flush_acks()
        assert await position(client) == 14
        await consumer.ack_cumulative(messages[5])  # an earlier one changes nothing
        await consumer.flush_acks()
        assert await position(client) == 14
    async with client.consumer(TOPIC, "s") as consumer:
        assert bodies(await take(consumer, 6)) == numbered(6, first=14)


async def test_a_cumulative_acknowledgement_of_a_partition_leaves_the_others_alone(
    client: Client,
) -> None:
    await client.admin("topic.create", {"topic": TOPIC, "partitions": 2})
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(40), keys=[f"k{n}" for n in range(40)])
        messages = await take(consumer, 40)
        mine = [message for message in messages if message.partition == 0]
        await consumer.ack_cumulative(mine[-1])
        await consumer.flush_acks()
    async with client.consumer(TOPIC, "s") as consumer:
        rest = await take(consumer, 40 - len(mine))
        assert {message.partition for message in rest} == {1}


async def test_a_batch_is_acknowledged_as_a_whole(client: Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(30), batch_records=10)
        batches = [await consumer.receive_batch(10) for _ in range(3)]
        await consumer.ack(batches[1])
        await consumer.flush_acks()
        found = await look(client, TOPIC, "s")
        assert (found["position"], found["acked_above"]) == (0, [[10, 19]])
        await consumer.ack_cumulative(batches[2])
        await consumer.flush_acks()
        assert await position(client) == 30


async def test_part_of_a_batch_is_acknowledged_without_the_rest(client: Client) -> None:
    async with (
        client.consumer(TOPIC, "s", type="shared") as one,
        client.consumer(TOPIC, "s", type="shared") as two,
    ):
        async with client.producer(TOPIC) as producer:
            await producer.send_many(numbered(100))
        mine = [await one.receive_batch(10)]
        await one.ack(mine[0])
        await one.flush_acks()
        found = await look(client, TOPIC, "s")
        assert found["counters"]["acknowledged"] == len(mine[0])
        theirs = await two.receive_batch(10)
        assert not set(mine[0].payloads) & set(theirs.payloads)


async def test_what_was_never_published_cant_be_acknowledged(
    cluster: Cluster, client: Client
) -> None:
    await publish(client, TOPIC, numbered(3))
    async with Peer(cluster.port) as peer:
        handle = await peer.subscribe(TOPIC, "s", records=10)
        for _ in range(3):
            await peer.next(pb.Deliver)
        far = pb.Selection(first=1, last=1 << 60)
        await peer.ask(Command.ACK, pb.Ack(consumer=handle, selections=[far]), pb.Done)
        beyond = pb.Selection(first=1 << 40, last=1 << 41)
        await peer.ask(Command.ACK, pb.Ack(consumer=handle, selections=[beyond]), pb.Done)
        await peer.ask(Command.ACK, pb.Ack(consumer=handle, cumulative=True), pb.Done)
    found = await look(client, TOPIC, "s")
    assert (found["position"], found["backlog"]) == (0, 3)
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(2, first=3))
        assert bodies(await take(consumer, 3)) == [b"0", b"3", b"4"]


async def test_offsets_that_are_no_range_are_refused(cluster: Cluster, client: Client) -> None:
    await publish(client, TOPIC, numbered(3))
    async with Peer(cluster.port) as peer:
        handle = await peer.subscribe(TOPIC, "s", records=0)
        backwards = pb.Selection(first=2, last=1)
        refusal = await peer.ask(
            Command.ACK, pb.Ack(consumer=handle, selections=[backwards]), pb.Error
        )
        assert (refusal.kind, refusal.message) == (pb.REFUSED, "offsets 2 to 1 are not a range")


# ---- restarts ----


async def test_ten_thousand_holes_in_a_cursor_survive_a_restart(
    cluster: Cluster, client: Client
) -> None:
    async with client.consumer(TOPIC, "s", type="shared", queue_records=50_000) as consumer:
        await publish(client, TOPIC, numbered(20_000), batch_records=5000)
        for message in await take(consumer, 20_000):
            if int(message.payload) % 2:
                await consumer.ack(message)
        await consumer.flush_acks()
    await cluster.restart()
    async with cluster.client() as later, later.consumer(TOPIC, "s", type="shared") as consumer:
        rest = await take(consumer, 10_000)
        assert [int(message.payload) for message in rest] == list(range(0, 20_000, 2))


async def test_cursors_are_stored_without_waiting_for_a_clean_stop(
    make_cluster: MakeCluster,
) -> None:
    cluster = await make_cluster(BrokerSettings(cursor_flush_seconds=0.02))
    async with cluster.client() as client, client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(10))
        await ack_all(consumer, (await take(consumer, 10))[:6])

        async def stored() -> bool:
            key = "/state/default/acks/cursors/s"
            item = await cluster.broker.store.get(key)
            return item is not None and b"6" in item.value

        await eventually(stored)


async def test_a_fresh_subscription_restarts_where_it_began_and_not_at_the_end(
    cluster: Cluster, client: Client
) -> None:
    await publish(client, TOPIC, numbered(10))
    await subscribe(client, TOPIC, "from the start", start=EARLIEST)
    await subscribe(client, TOPIC, "from now on")
    await subscribe(client, TOPIC, "from four", start=Start.offset(4))
    await publish(client, TOPIC, numbered(5, first=10))
    await cluster.restart()
    async with cluster.client() as later:
        await publish(later, TOPIC, numbered(5, first=15))
        for name, first in (("from the start", 0), ("from now on", 10), ("from four", 4)):
            async with later.consumer(TOPIC, name) as consumer:
                assert bodies(await take(consumer, 20 - first)) == numbered(20 - first, first)


async def test_a_consumer_goes_on_over_a_restart_and_gets_nothing_twice_that_it_acknowledged(
    cluster: Cluster, client: Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        seen: list[bytes] = []
        for round_ in range(4):
            await publish(client, TOPIC, numbered(10, first=10 * round_))
            messages = await take(consumer, 10)
            seen += bodies(messages)
            await ack_all(consumer, messages)
            await cluster.restart()
        assert seen == numbered(40)
