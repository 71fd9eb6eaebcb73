"""A topic over many ledgers: rolling, reading across them, retention, and what deletion frees."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.topic_log.ledger_settings import LedgerSettings
from broker_containers.topics.retention_plan import expired
from sulina import Client, Start
from sulina.metadata.keys.ledgers import LedgerRef, LedgerState
from sulina.metadata.keys.policy import Policy
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
    subscribe,
    take,
)
from tests.broker.cluster import SMALL_JOURNAL, Cluster
from tests.broker.conftest import MakeCluster
from tests.broker.memory_cluster import MemoryCluster

TOPIC = "/default/ledgers"
OTHER = "/default/other"
SMALL = BrokerSettings(ledger=LedgerSettings(roll_bytes=1000))


@pytest.fixture
async def rolling(make_cluster: MakeCluster) -> Cluster:
    """A broker whose ledgers hold about a kilobyte, in small journal files."""
    return await make_cluster(SMALL, SMALL_JOURNAL)


async def ledgers(client: Client, topic: str = TOPIC) -> list[dict[str, Any]]:
    found = (await log_of(client, topic))["ledgers"]
    assert isinstance(found, list)
    return found


def journal_files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "journal").iterdir() if path.suffix != ".lock"}


async def test_a_topic_rolls_to_a_new_ledger_by_size(rolling: Cluster) -> None:
    async with rolling.client() as client:
        await publish(client, TOPIC, numbered(100))
        found = await ledgers(client)
        assert len(found) > 10
        assert [each["state"] for each in found[:-1]] == ["closed"] * (len(found) - 1)
        assert found[-1]["state"] == "open"
        assert all(each["bytes"] >= 1000 for each in found[:-1])
        for before, after in pairwise(found):
            assert after["first_offset"] == before["last_offset"] + 1


async def test_a_topic_rolls_to_a_new_ledger_by_age(make_cluster: MakeCluster) -> None:
    cluster = await make_cluster(BrokerSettings(ledger=LedgerSettings(roll_seconds=0.05)))
    async with cluster.client() as client, client.producer(TOPIC) as producer:
        for number in range(3):
            await (await producer.send(b"%d" % number))
            await asyncio.sleep(0.06)
        assert len(await ledgers(client)) == 3
        assert await read_all(client, TOPIC) == numbered(3)


async def test_an_idle_topic_has_no_ledger(client: Client) -> None:
    await client.admin("topic.create", {"topic": TOPIC})
    await subscribe(client, TOPIC, "s")
    assert await ledgers(client) == []


async def test_consumers_read_across_ledgers_from_everywhere(rolling: Cluster) -> None:
    async with rolling.client() as client:
        await publish(client, TOPIC, numbered(150))
        for first in (0, 1, 13, 77, 149):
            start = Start.offset(first)
            async with client.consumer(TOPIC, f"from {first}", start=start) as consumer:
                messages = await take(consumer, 150 - first)
                assert bodies(messages) == numbered(150 - first, first)


async def test_a_consumer_at_the_tail_does_not_notice_that_ledgers_roll(rolling: Cluster) -> None:
    async with rolling.client() as client:
        async with client.consumer(TOPIC, "s") as consumer, client.producer(TOPIC) as producer:
            for payload in numbered(100):
                await (await producer.send(payload))
                message = await consumer.receive(10)
                assert message.payload == payload
                await consumer.ack(message)
            await consumer.flush_acks()
        assert len(await ledgers(client)) > 10
        assert (await look(client, TOPIC, "s"))["backlog"] == 0


async def test_many_producers_at_once_keep_their_order_while_ledgers_roll(
    rolling: Cluster,
) -> None:
    async with rolling.client() as client:

        async def produce(name: str) -> None:
            payloads = [f"{name}:{number}".encode() for number in range(60)]
            await publish(client, TOPIC, payloads, name=name)

        await asyncio.gather(*(produce(f"p{number}") for number in range(5)))
        stored = await read_all(client, TOPIC)
        assert len(stored) == 300
        for number in range(5):
            mine = [payload for payload in stored if payload.startswith(b"p%d:" % number)]
            assert mine == [b"p%d:%d" % (number, index) for index in range(60)]


async def test_a_restart_with_many_ledgers_finds_all_of_them(rolling: Cluster) -> None:
    async with rolling.client() as client:
        await publish(client, TOPIC, numbered(120), name="meter")
        async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
            await ack_all(consumer, (await take(consumer, 120))[:50])
    for run in range(3):
        await rolling.restart()
        async with rolling.client() as client:
            first = 120 + 10 * run
            await publish(client, TOPIC, numbered(10, first), name="meter")
            assert await read_all(client, TOPIC) == numbered(first + 10)
            found = await ledgers(client)
            for before, after in pairwise(found):
                assert after["first_offset"] == before["last_offset"] + 1
    async with rolling.client() as client, client.consumer(TOPIC, "s") as consumer:
        assert bodies(await take(consumer, 100)) == numbered(100, first=50)


async def test_cursors_are_stored_although_ledgers_roll_all_the_time(
    make_cluster: MakeCluster,
) -> None:
    settings = BrokerSettings(ledger=LedgerSettings(roll_bytes=300), cursor_flush_seconds=0.005)
    cluster = await make_cluster(settings)
    async with (
        cluster.client() as client,
        client.consumer(TOPIC, "s") as consumer,
        client.producer(TOPIC) as producer,
    ):
        for payload in numbered(150):
            await producer.send(payload)
            await consumer.ack(await consumer.receive(10))
        await consumer.flush_acks()
    await cluster.restart()
    async with cluster.client() as client:
        assert (await look(client, TOPIC, "s"))["position"] == 150


# ---- deletion ----


async def test_deleting_a_topic_frees_its_ledgers_and_the_journals_files(
    rolling: Cluster,
) -> None:
    payloads = [b"%04d" % number * 500 for number in range(200)]  # 400 kB
    async with rolling.client() as client:
        await publish(client, TOPIC, payloads)
        full = journal_files(rolling.folder)
        assert len(full) > 6
        await client.admin("topic.delete", {"topic": TOPIC})

        async def freed() -> bool:
            return len(journal_files(rolling.folder)) <= 4

        await eventually(freed)
        assert not await client.admin("topic.list")


async def test_deleting_a_partitioned_topic_frees_the_ledgers_of_all_partitions() -> None:
    async with (
        MemoryCluster(MemoryDisk(), settings=SMALL) as cluster,
        cluster.client() as client,
    ):
        await client.admin("topic.create", {"topic": TOPIC, "partitions": 3})
        await publish(client, TOPIC, numbered(60), keys=[f"k{n}" for n in range(60)])
        assert len(cluster.store.ledgers()) >= 3
        await client.admin("topic.delete", {"topic": TOPIC})
        assert cluster.store.ledgers() == []


async def test_ledgers_that_no_topic_names_are_deleted_at_the_start() -> None:
    disk, metadata = MemoryDisk(), MemoryDisk()
    async with MemoryCluster(disk, metadata=metadata) as cluster, cluster.client() as client:
        await publish(client, TOPIC, numbered(5))
        kept = cluster.store.ledgers()
        await cluster.store.append(4711, 0, -1, b"left behind by an interrupted deletion")
    async with MemoryCluster(disk, metadata=metadata) as cluster, cluster.client() as client:
        assert cluster.store.ledgers() == kept
        assert await read_all(client, TOPIC) == numbered(5)


HOUR_US = 3_600_000_000
OLD = [
    LedgerRef(n + 1, n * 10, n * 10 + 9, LedgerState.CLOSED, 100, n * HOUR_US, n * HOUR_US)
    for n in range(5)
]


@pytest.mark.parametrize(
    ("policy", "consumed", "gone"),
    [
        (Policy(), 50, 0),
        (Policy(retention_ms=int(2.5 * 3_600_000)), 0, 2),
        (Policy(retention_ms=1), 0, 4),
        (Policy(retention_bytes=250), 0, 3),
        (Policy(retention_bytes=1), 0, 4),
        (Policy(delete_consumed=True), 25, 2),
        (Policy(delete_consumed=True), 0, 0),
        (Policy(delete_consumed=True), 50, 4),
        (Policy(delete_consumed=True, retention_bytes=450), 0, 1),
    ],
)
def test_the_oldest_ledgers_go_by_age_size_or_consumption_but_never_the_newest(
    policy: Policy, consumed: int, gone: int
) -> None:
    assert expired(OLD, policy, now_us=4 * HOUR_US, consumed=consumed) == gone


@pytest.fixture
async def forgetful(make_cluster: MakeCluster) -> Cluster:
    settings = BrokerSettings(ledger=LedgerSettings(roll_bytes=1000), retention_seconds=0.05)
    return await make_cluster(settings, SMALL_JOURNAL)


async def start_of(client: Client) -> int:
    start = (await log_of(client, TOPIC))["start_offset"]
    assert isinstance(start, int)
    return start


async def test_records_that_every_subscription_acknowledged_go_and_the_others_stay(
    forgetful: Cluster,
) -> None:
    async with forgetful.client() as client:
        await publish(client, TOPIC, numbered(100))
        async with client.consumer(TOPIC, "fast", start=Start.earliest()) as fast:
            await ack_all(fast, await take(fast, 100))
            async with client.consumer(TOPIC, "slow", start=Start.earliest()) as slow:
                taken = await take(slow, 100)
                await ack_all(slow, taken[:50])
                await client.admin("topic.policy", {"topic": TOPIC, "delete_consumed": True})

                async def trimmed() -> bool:
                    return await start_of(client) > 0

                await eventually(trimmed)
                assert await start_of(client) <= 50
        async with client.consumer(TOPIC, "slow") as slow:
            assert bodies(await take(slow, 50)) == numbered(50, 50)


async def test_offsets_go_on_after_everything_old_is_gone_and_the_broker_restarted(
    forgetful: Cluster,
) -> None:
    async with forgetful.client() as client:
        await publish(client, TOPIC, numbered(100))
        await client.admin("topic.policy", {"topic": TOPIC, "retention_bytes": 1})

        async def trimmed() -> bool:
            return await start_of(client) > 80

        await eventually(trimmed)
        await forgetful.stop()
        await forgetful.start()
        (added,) = await publish(client, TOPIC, [b"next"])
        assert added.offset == 100


@pytest.mark.parametrize("stopped_between", [False, True])
async def test_an_idle_topic_loses_its_last_records_too_when_they_are_too_old(
    forgetful: Cluster, stopped_between: bool
) -> None:
    async with forgetful.client() as client:
        async with client.producer(TOPIC, name="p") as producer:
            for body in numbered(3):
                await producer.send(body)
        if stopped_between:  # the newest ledger is closed then
            await forgetful.stop()
            await forgetful.start()
        await client.admin("topic.policy", {"topic": TOPIC, "retention_ms": 1})

        async def trimmed() -> bool:
            return await start_of(client) == 3

        await eventually(trimmed)
        assert [row["first_offset"] for row in await ledgers(client)] == [3]
        await client.admin("topic.policy", {"topic": TOPIC, "retention_ms": 0})
        for _ in range(2):  # an empty ledger is enough for the next owner
            await forgetful.stop()
            await forgetful.start()
        async with client.producer(TOPIC, name="p") as producer:
            assert producer.next_sequence == 3
            assert (await (await producer.send(b"next"))).offset == 3
        assert await read_all(client, TOPIC) == [b"next"]


async def test_an_idle_topic_loses_its_last_records_too_when_they_are_consumed(
    make_cluster: MakeCluster,
) -> None:
    rolling = LedgerSettings(roll_bytes=1000, roll_seconds=0.2)
    settings = BrokerSettings(ledger=rolling, retention_seconds=0.05)
    cluster = await make_cluster(settings, SMALL_JOURNAL)
    async with cluster.client() as client:
        await client.admin("topic.create", {"topic": TOPIC})
        await client.admin("topic.policy", {"topic": TOPIC, "delete_consumed": True})
        async with client.consumer(TOPIC, "all", start=Start.earliest()) as consumer:
            await publish(client, TOPIC, numbered(3))
            await ack_all(consumer, await take(consumer, 3))

            async def trimmed() -> bool:
                return await start_of(client) == 3

            await eventually(trimmed)
            await publish(client, TOPIC, [b"next"])
            assert bodies(await take(consumer, 1)) == [b"next"]


async def test_a_topic_smaller_than_a_ledger_keeps_what_was_just_written(
    forgetful: Cluster,
) -> None:
    async with forgetful.client() as client:
        await publish(client, TOPIC, numbered(3))
        await client.admin("topic.policy", {"topic": TOPIC, "retention_bytes": 1})
        topic = next(each for each in forgetful.broker.loaded() if str(each.name) == TOPIC)
        assert await forgetful.broker.retention.apply(topic) == 0
        assert await read_all(client, TOPIC) == numbered(3)


async def test_a_subscription_behind_what_was_deleted_goes_on_with_what_is_kept(
    forgetful: Cluster,
) -> None:
    async with forgetful.client() as client:
        arguments = {"topic": TOPIC, "subscription": "late", "start": "earliest"}
        await client.admin("topic.create", {"topic": TOPIC})
        await client.admin("subscription.create", arguments)
        await publish(client, TOPIC, numbered(100))
        await client.admin("topic.policy", {"topic": TOPIC, "retention_bytes": 2000})

        async def trimmed() -> bool:
            return await start_of(client) > 50

        await eventually(trimmed)
        start = await start_of(client)
        async with client.consumer(TOPIC, "late") as late:
            assert bodies(await take(late, 100 - start)) == numbered(100 - start, start)
