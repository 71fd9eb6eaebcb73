"""How producers pack and send: batches, linger, compression, sizes, and bounds under pressure."""

from __future__ import annotations

import pytest

from broker_containers.broker.settings import BrokerSettings
from sulina import Client, Start, TooLarge
from tests.broker.actions import (
    bodies,
    eventually,
    log_of,
    numbered,
    publish,
    read_all,
    take,
)
from tests.broker.conftest import MakeCluster
from tests.broker.memory_cluster import GatedDisk, MemoryCluster

TOPIC = "/default/frames"


# ---- batches ----


async def test_keys_attributes_and_times_arrive_as_they_were_sent(client: Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer, client.producer(TOPIC) as producer:
        await producer.send(b"1", key="k", attributes={"a": "ä"}, publish_time_us=1_000_000)
        await producer.send(b"2")
        await producer.send(b"", key=b"\xff\x00", attributes={})
        first, second, third = await take(consumer, 3)
    assert (first.key, first.attributes, first.publish_time_us) == (b"k", {"a": "ä"}, 1_000_000)
    assert (second.key, second.attributes) == (None, {})
    assert (third.payload, third.key) == (b"", b"\xff\x00")
    assert second.publish_time_us <= third.publish_time_us
    assert [each.producer for each in (first, second, third)] == [producer.name] * 3


# ---- compression ----


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
async def test_compressed_records_arrive_unchanged(client: Client, compression: str) -> None:
    payloads = [b"the same words again and again " * 20 + b"%d" % n for n in range(200)]
    async with client.consumer(TOPIC, "s", type="key_shared") as consumer:
        async with client.producer(TOPIC, compression=compression) as producer:
            await producer.send_many(payloads, keys=[f"{n % 7}" for n in range(200)])
        messages = await take(consumer, 200)
    assert bodies(messages) == payloads
    assert [message.key for message in messages] == [b"%d" % (n % 7) for n in range(200)]
    stored = (await log_of(client, TOPIC))["counters"]["bytes_in"]
    assert (stored < sum(map(len, payloads)) / 5) is (compression != "none")


# ---- sizes ----


async def test_a_record_larger_than_the_broker_takes_is_refused_before_it_is_sent(
    make_cluster: MakeCluster,
) -> None:
    cluster = await make_cluster(BrokerSettings(max_frame_bytes=100_000))
    async with cluster.client() as client, client.producer(TOPIC) as producer:
        with pytest.raises(TooLarge, match="too large for /default/frames: the maximum is 98976"):
            await producer.send(b"x" * 100_000)
        assert (await (await producer.send(b"the next one"))).offset == 0


async def test_a_record_over_the_topics_limit_is_refused_and_the_producer_goes_on(
    client: Client,
) -> None:
    limit = {"topic": TOPIC, "max_message_size": 1000}
    await client.admin("topic.create", {"topic": TOPIC})
    await client.admin("topic.policy", limit)
    async with client.producer(TOPIC, batch_records=1) as producer:
        before = await producer.send(b"before")
        large = await producer.send(b"x" * 1001)
        after = await producer.send(b"after")
        just = await producer.send(b"x" * 1000)
        with pytest.raises(TooLarge, match="1001 bytes is over the topic's limit of 1000"):
            await large
        assert [(await each).offset for each in (before, after, just)] == [0, 1, 2]
    assert await read_all(client, TOPIC) == [b"before", b"after", b"x" * 1000]


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_a_record_over_the_topics_limit_cant_hide_in_a_batch(
    client: Client, compression: str
) -> None:
    await client.admin("topic.create", {"topic": TOPIC})
    await client.admin("topic.policy", {"topic": TOPIC, "max_message_size": 1000})
    async with client.producer(TOPIC, compression=compression) as producer:
        with pytest.raises(TooLarge, match="over the topic's limit of 1000"):
            await (await producer.send_many([b"small", b"x" * 1001, b"small"]))
        # Small records may add up to more than the limit.
        await (await producer.send_many([b"y" * 900] * 5))
    assert await read_all(client, TOPIC) == [b"y" * 900] * 5


# ---- pressure ----


async def test_the_broker_stops_reading_from_producers_while_its_disk_is_behind() -> None:
    disk = GatedDisk()
    async with MemoryCluster(disk, high_water=100_000) as cluster, cluster.client() as client:
        await publish(client, TOPIC, [b"opens the ledger"])
        payloads = [bytes([number]) * 50_000 for number in range(200)]
        async with cluster.client() as loader:
            producer = await loader.producer(TOPIC, batch_records=1, linger_ms=0).open()
            disk.close_gate()
            tickets = [await producer.send(payload) for payload in payloads]

            async def it_waits() -> bool:
                before = cluster.store.pending_bytes
                await client.ping()
                return before == cluster.store.pending_bytes > 100_000

            await eventually(it_waits)
            assert cluster.store.pending_bytes < 1_000_000, "of ten million"
            disk.open_gate()
            assert [(await ticket).offset for ticket in tickets] == list(range(1, 201))
            await producer.close()


async def test_one_slow_topic_does_not_keep_another_client_from_reading() -> None:
    disk = GatedDisk()
    async with MemoryCluster(disk) as cluster, cluster.client() as client:
        await publish(client, TOPIC, numbered(10))
        async with client.producer(TOPIC) as producer:
            disk.close_gate()
            await producer.send(b"waits for the disk")
            async with cluster.client() as reader:
                start = Start.offset(5)
                assert len(await reader.read(TOPIC, start)) == 5
            disk.open_gate()
