"""Weaknesses that are known of the system whose architecture this is: a test each that we have
none of them. The numbers are those of the list; what is missing there belongs to other folders
(a cluster of brokers, security) or does not apply (there is no dispatch rate limit)."""

from __future__ import annotations

import random

import pytest

from sulina import Client, FailurePolicy, Start
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
from tests.broker.proxy import Proxy

TOPIC = "/default/strong"


async def test_1_a_reliable_send_is_not_acknowledged_from_memory() -> None:
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


@pytest.mark.parametrize("seed", range(5))
async def test_1_an_acknowledged_send_survives_a_power_cut(seed: int) -> None:
    disk, metadata = MemoryDisk(), MemoryDisk()
    cluster = await MemoryCluster(disk, metadata=metadata).__aenter__()
    async with cluster.client() as client:
        await publish(client, TOPIC, numbered(20), batch_records=3)
        chance = random.Random(seed)
        disk, metadata = disk.crash(chance), metadata.crash(chance)
    await cluster.__aexit__()
    async with MemoryCluster(disk, metadata=metadata) as again, again.client() as client:
        assert await read_all(client, TOPIC) == numbered(20)
        (published,) = await publish(client, TOPIC, [b"next"])
        assert published.offset == 20


async def test_2_offsets_do_not_restart_at_zero(cluster: Cluster) -> None:
    for expected in range(4):
        async with cluster.client() as client:
            (published,) = await publish(client, TOPIC, [b"%d" % expected])
            assert published.offset == expected
        await cluster.restart()
    async with cluster.client() as client:
        assert bodies(await read_messages(client, TOPIC)) == numbered(4)


async def test_5_a_fresh_subscription_far_behind_skips_nothing(client: Client) -> None:
    await publish(client, TOPIC, numbered(2000))
    async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
        assert bodies(await take(consumer, 2000)) == numbered(2000)


async def test_5_a_subscription_without_a_stored_acknowledgement_does_not_restart_at_the_end(
    cluster: Cluster, client: Client
) -> None:
    await subscribe(client, TOPIC, "s")
    await publish(client, TOPIC, numbered(300))
    await cluster.restart()
    async with cluster.client() as later, later.consumer(TOPIC, "s") as consumer:
        assert bodies(await take(consumer, 300)) == numbered(300)


async def test_7_a_standby_is_promoted(client: Client, remote: Client, proxy: Proxy) -> None:
    await remote.consumer(TOPIC, "s", type="failover").open()
    async with client.consumer(TOPIC, "s", type="failover") as standby:
        await publish(client, TOPIC, numbered(3))
        proxy.cut_and_refuse()
        assert bodies(await take(standby, 3)) == numbered(3)
        assert standby.active


async def test_7_an_exclusive_subscription_is_not_bound_to_the_first_name(client: Client) -> None:
    for name in ("first", "second", "third"):
        async with client.consumer(TOPIC, "s", name=name) as consumer:
            await publish(client, TOPIC, [name.encode()])
            (message,) = await take(consumer, 1)
            assert message.payload == name.encode()
            await ack_all(consumer, [message])


async def test_8_topics_whose_names_begin_alike_do_not_collide(
    cluster: Cluster, client: Client
) -> None:
    await publish(client, "/default/foo", numbered(3))
    await publish(client, "/default/foobar", numbered(5))
    await subscribe(client, "/default/foobar", "s", start=Start.earliest())
    await client.admin("topic.delete", {"topic": "/default/foo"})
    await cluster.restart()
    async with cluster.client() as later:
        assert await read_all(later, "/default/foobar") == numbered(5)
        assert (await look(later, "/default/foobar", "s"))["backlog"] == 5
        await publish(later, "/default/foo", [b"new"])
        assert (await log_of(later, "/default/foo"))["end_offset"] == 1


async def test_11_an_acknowledgement_after_the_ack_timeout_is_not_ignored(client: Client) -> None:
    policy = FailurePolicy(ack_timeout_ms=40)
    async with client.consumer(
        TOPIC, "s", type="shared", failure_policy=policy, queue_records=1
    ) as consumer:
        await publish(client, TOPIC, [b"slow work"])
        (message,) = await take(consumer, 1)

        async def timed_out() -> bool:
            return bool((await look(client, TOPIC, "s"))["counters"]["timed_out"])

        await eventually(timed_out)
        await ack_all(consumer, [message])
        assert (await look(client, TOPIC, "s"))["backlog"] == 0
    async with client.consumer(TOPIC, "s", type="shared") as consumer:
        await publish(client, TOPIC, [b"next"])
        assert bodies(await take(consumer, 1)) == [b"next"], "it does not come again"


async def test_12_producers_are_detached_and_limits_do_not_leak(
    client: Client, remote: Client, proxy: Proxy
) -> None:
    await client.admin("topic.create", {"topic": TOPIC})
    await client.admin("topic.policy", {"topic": TOPIC, "max_producers_per_topic": 1})
    for _ in range(10):
        await publish(client, TOPIC, [b"closed"])
    await remote.producer(TOPIC).open()
    proxy.cut_and_refuse()
    await publish(client, TOPIC, [b"after a lost one"])
    assert (await log_of(client, TOPIC))["producers"] == []


async def test_14_what_was_not_there_at_all_is_there(client: Client) -> None:
    second = 1_000_000
    async with client.producer(TOPIC, name="meter", compression="zstd") as producer:
        for number in range(0, 100, 10):
            time = (1000 + number) * second
            await producer.send_many(numbered(10, first=number), publish_time_us=time)
    log = await log_of(client, TOPIC)
    assert log["counters"]["frames_in"] < log["counters"]["records_in"], "batches"
    async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
        assert bodies(await take(consumer, 100)) == numbered(100)
        await consumer.seek(Start.offset(42))
        assert bodies(await take(consumer, 58)) == numbered(58, first=42)
        await consumer.seek(Start.time(1070 * second))
        assert bodies(await take(consumer, 30)) == numbered(30, first=70)
    async with client.producer(TOPIC, name="meter") as producer:
        await (await producer.send(b"continues its sequence"))
    assert (await read_messages(client, TOPIC))[-1].sequence == 100
