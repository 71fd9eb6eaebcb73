"""A broker that is restarted, or killed and started again, has everything that it acknowledged."""

from __future__ import annotations

import asyncio

from broker_containers.broker.settings import BrokerSettings
from sulina import Client, Consumer, Delivery, Start
from sulina.runtime.memory_disk import MemoryDisk
from tests.broker.actions import (
    ack_all,
    bodies,
    eventually,
    log_of,
    look,
    numbered,
    publish,
    read_all,
    read_messages,
    subscribe,
    take,
)
from tests.broker.cluster import Cluster
from tests.broker.memory_cluster import GatedDisk, MemoryCluster

TOPIC = "/default/kept"


async def test_offsets_go_on_and_never_begin_again(cluster: Cluster) -> None:
    for run in range(4):
        async with cluster.client() as client:
            ids = await publish(client, TOPIC, numbered(5, first=5 * run))
            assert [each.offset for each in ids] == list(range(5 * run, 5 * run + 5))
        await cluster.restart()
    async with cluster.client() as client:
        messages = await read_messages(client, TOPIC)
        assert [message.offset for message in messages] == list(range(20))
        assert bodies(messages) == numbered(20)


async def test_a_topic_without_new_records_keeps_its_place_over_many_restarts(
    cluster: Cluster,
) -> None:
    async with cluster.client() as client:
        await publish(client, TOPIC, numbered(3))
        ledgers = (await log_of(client, TOPIC))["ledgers"]
    for _ in range(3):
        await cluster.restart()
        async with cluster.client() as client:
            log = await log_of(client, TOPIC)
            assert (log["start_offset"], log["end_offset"]) == (0, 3)
            assert [each["id"] for each in log["ledgers"]] == [each["id"] for each in ledgers]


async def test_namespaces_topics_and_subscriptions_are_there_again(cluster: Cluster) -> None:
    async with cluster.client() as client:
        await client.admin("namespace.create", {"namespace": "shop"})
        await client.admin("topic.create", {"topic": "/shop/orders", "partitions": 4})
        quick = {"topic": "/shop/ticks", "delivery": "non_reliable"}
        await client.admin("topic.create", quick)
        await publish(client, TOPIC, numbered(2))
        await subscribe(client, "/shop/orders", "billing", type="key_shared")
        await subscribe(client, TOPIC, "a", type="failover")
        await subscribe(client, TOPIC, "b", start=Start.earliest())
        topics = await client.admin("topic.list", {"all": True})
    await cluster.restart()
    async with cluster.client() as client:
        assert set(await client.admin("namespace.list")) == {"default", "shop", "system"}
        kept = ("topic", "delivery", "partitions")
        after = await client.admin("topic.list", {"all": True})
        assert [[row[name] for name in kept] for row in after] == [
            [row[name] for name in kept] for row in topics
        ]
        assert (await client.topic("/shop/ticks")).delivery is Delivery.NON_RELIABLE
        assert len((await client.topic("/shop/orders")).partitions) == 4
        for part in range(4):
            found = await look(client, f"/shop/orders-part-{part}", "billing")
            assert found["type"] == "key_shared"
        rows = await client.admin("subscription.list", {"topic": TOPIC})
        assert {row["subscription"]: (row["type"], row["backlog"]) for row in rows} == {
            "a": ("failover", 0),
            "b": ("exclusive", 2),
        }


async def test_what_was_deleted_stays_deleted(cluster: Cluster) -> None:
    async with cluster.client() as client:
        await client.admin("namespace.create", {"namespace": "gone"})
        await publish(client, "/gone/topic", numbered(3))
        await client.admin("topic.delete", {"topic": "/gone/topic"})
        await client.admin("namespace.delete", {"namespace": "gone"})
    await cluster.restart()
    async with cluster.client() as client:
        assert "gone" not in await client.admin("namespace.list")
        assert await client.admin("topic.list") == []


async def test_a_topic_that_is_made_again_begins_empty(cluster: Cluster) -> None:
    async with cluster.client() as client:
        await publish(client, TOPIC, numbered(5), name="meter")
        await subscribe(client, TOPIC, "s", start=Start.earliest())
        await client.admin("topic.delete", {"topic": TOPIC})
        await publish(client, TOPIC, [b"new"], name="meter")
    await cluster.restart()
    async with cluster.client() as client:
        assert await read_all(client, TOPIC) == [b"new"]
        assert await client.admin("subscription.list", {"topic": TOPIC}) == []


async def test_clients_notice_nothing_but_a_pause(cluster: Cluster, client: Client) -> None:
    """Producers and consumers work on through several clean restarts."""
    received: list[int] = []
    published = 0
    finished = asyncio.Event()

    async def consume(consumer: Consumer) -> None:
        async for message in consumer:
            received.append(int(message.payload))
            await consumer.ack(message)
            if len(set(received)) == 600:
                finished.set()

    async with client.consumer(TOPIC, "s") as consumer:
        consuming = asyncio.create_task(consume(consumer))
        async with client.producer(TOPIC, batch_records=10) as producer:
            for _ in range(4):
                for payload in numbered(150, first=published):
                    await producer.send(payload)
                    await asyncio.sleep(0)
                published += 150
                await cluster.restart()
        await asyncio.wait_for(finished.wait(), 20)
        consuming.cancel()
        await consumer.flush_acks()
        assert (await look(client, TOPIC, "s"))["backlog"] == 0
    assert await read_all(client, TOPIC) == numbered(600)
    first_seen = list(dict.fromkeys(received))
    assert first_seen == list(range(600)), "in order, whatever came twice"


async def test_a_stop_stores_the_cursors_of_all_subscriptions_even_amid_a_flush() -> None:
    disk, metadata = MemoryDisk(), GatedDisk()
    settings = BrokerSettings(cursor_flush_seconds=0.01)
    names = [f"subscription-{number}" for number in range(150)]
    cluster = MemoryCluster(disk, metadata=metadata, settings=settings)
    async with cluster, cluster.client() as client:
        await publish(client, TOPIC, numbered(1))
        for name in names:
            await subscribe(client, TOPIC, name, start=Start.earliest())
        (topic,) = cluster.broker.loaded()
        consumers = [await client.consumer(TOPIC, name).open() for name in names]
        metadata.close_gate()
        for consumer in consumers:
            await ack_all(consumer, await take(consumer, 1))

        async def a_flush_is_under_way() -> bool:
            return not all(found.dirty for found in topic.subscriptions.values())

        await eventually(a_flush_is_under_way)
        asyncio.get_running_loop().call_later(0.05, metadata.open_gate)
        await cluster.broker.close()
    async with MemoryCluster(disk, metadata=metadata) as again, again.client() as client:
        rows = await client.admin("subscription.list", {"topic": TOPIC})
        assert {row["position"] for row in rows} == {1}


async def test_a_reliable_send_is_not_acknowledged_from_memory() -> None:
    disk = GatedDisk("sync")
    async with (
        MemoryCluster(disk) as cluster,
        cluster.client() as client,
        client.producer(TOPIC) as producer,
    ):
        await (await producer.send(b"opens the ledger"))
        disk.close_gate()
        ticket = await producer.send(b"written, and not synced")
        await disk.blocked()
        for _ in range(20):
            await client.ping()
        assert not ticket.done()
        assert await read_all(client, TOPIC) == [b"opens the ledger"], "nor shown to anybody"
        disk.open_gate()
        assert (await ticket).offset == 1
