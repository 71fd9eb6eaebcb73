"""Topics after compaction, whose offsets have gaps, and after the erasure of a key."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.topics.tiering import TieringSettings
from sulina import Client, NotFound, Refused, Start
from sulina.copies.objects import open_history
from sulina.lake.erasing import ERASED, key_digest
from sulina.names import TopicName
from sulina.objects.folder import FolderStore
from sulina.operations.ledgers import TopicErasure
from sulina.runtime.real_random import real_random
from tests.broker.actions import (
    ack_all,
    eventually,
    log_of,
    look,
    publish,
    read_messages,
    subscribe,
    take,
)
from tests.broker.cluster import Cluster

TOPIC = "/default/profiles"
HELPER = "storage_grpc.tier.helper"
"""What the command of the process that replaces objects has in it."""
KEYS = [f"k{number}" for number in range(10)]


OF_ROUND = [KEYS, KEYS, KEYS, KEYS[:5], KEYS]
"""What each object has. The newest closed ledger is not compacted: of those before it, half of the
third and all of the fourth are left."""
NEWEST = [
    *(b"%s 2" % key.encode() for key in KEYS[5:]),
    *(b"%s 3" % key.encode() for key in KEYS[:5]),
    *(b"%s 4" % key.encode() for key in KEYS),
]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """One that has an object store."""
    tier = TieringSettings(check_seconds=0.1, local_seconds=0.0)
    lake = (tmp_path / "lake").as_uri()
    async with Cluster(tmp_path / "data", replace(BrokerSettings(), tier=tier), tier=lake) as made:
        yield made


async def fill(client: Client) -> None:
    """Publish five objects with the same keys."""
    for number, keys in enumerate(OF_ROUND):
        payloads = [b"%s %d" % (key.encode(), number) for key in keys]
        await publish(client, TOPIC, payloads, keys=keys, batch_records=100)
        await tier_all(client)


async def tier_all(client: Client) -> None:
    """Wait until everything is in objects only."""
    await client.admin.ledgers.offload(TOPIC)

    async def tiered() -> bool:
        rows = await client.admin.ledgers.list(TOPIC)
        return all(row.where == "object" for row in rows if row.records)

    await eventually(tiered)


async def wait_erased(client: Client, topic: str, *keys: str) -> TopicErasure:
    digests = tuple(key_digest(key.encode()) for key in keys)
    asked = await client.admin.ledgers.erase(topic, key_digests=digests)

    async def ended() -> bool:
        return (await client.admin.ledgers.erasures(topic))[-1].state.ended

    await eventually(ended)
    found = (await client.admin.ledgers.erasures(topic))[-1]
    assert found.id == asked.id
    return found


async def compact(client: Client, *, to: int = 35) -> None:
    await client.admin.topics.policy(TOPIC, compact=True)

    async def done() -> bool:
        return bool((await log_of(client, TOPIC))["compacted_to"] == to)

    await eventually(done)


async def test_consumers_pass_over_the_gaps_and_their_cursors_reach_the_end(
    cluster: Cluster, client: Client
) -> None:
    await subscribe(client, TOPIC, "before", start=Start.earliest())
    await fill(client)
    await compact(client)
    found = await read_messages(client, TOPIC)
    assert [each.payload for each in found] == NEWEST
    assert [each.offset for each in found] == list(range(25, 45))
    for name in ("before", "after"):
        async with client.consumer(TOPIC, name, start=Start.earliest()) as consumer:
            messages = await take(consumer, 20)
            assert [each.payload for each in messages] == NEWEST
            await ack_all(consumer, messages[:5])
        assert (await look(client, TOPIC, name))["backlog"] == 15
    await cluster.restart()
    async with client.consumer(TOPIC, "before") as consumer:
        messages = await take(consumer, 15)
        assert [each.offset for each in messages] == list(range(30, 45))
        await consumer.ack_cumulative(messages[-1])
        await consumer.flush_acks()
    assert (await look(client, TOPIC, "before"))["backlog"] == 0
    async with client.table(TOPIC) as table:
        assert dict(table) == {key: b"%s 4" % key.encode() for key in KEYS}


async def test_compaction_goes_on_when_its_process_is_killed(
    cluster: Cluster, client: Client
) -> None:
    await fill(client)
    assert cluster.tier is not None
    lake = Path(cluster.tier.removeprefix("file://"))

    async def killed_at_work() -> bool:
        if not any(lake.rglob("*objects-are-being-replaced*")):
            return False
        children = psutil.Process().children()
        working = [each for each in children if HELPER in " ".join(each.cmdline())]
        for each in working:
            each.kill()
        return bool(working)

    await client.admin.topics.policy(TOPIC, compact=True)
    await eventually(killed_at_work)
    await compact(client)
    assert [each.payload for each in await read_messages(client, TOPIC)] == NEWEST


async def test_what_was_in_flight_when_frames_were_cut_is_delivered_again(client: Client) -> None:
    await subscribe(client, TOPIC, "shared", start=Start.earliest(), type="shared")
    await fill(client)
    async with client.consumer(TOPIC, "shared", type="shared") as consumer:
        messages = await take(consumer, 45)
        await ack_all(consumer, messages[27:30])
        await compact(client)
    async with client.consumer(TOPIC, "shared", type="shared") as consumer:
        again = await take(consumer, 17)
        assert [each.payload for each in again] == NEWEST[:2] + NEWEST[5:]
        await ack_all(consumer, again)
    assert (await look(client, TOPIC, "shared"))["backlog"] == 0


async def test_a_frame_that_was_cut_behind_its_first_record_is_not_taken_for_the_whole(
    client: Client,
) -> None:
    await subscribe(client, TOPIC, "shared", start=Start.earliest(), type="shared")
    for number, keys in enumerate((KEYS, KEYS[1:5], KEYS)):
        payloads = [b"%s %d" % (key.encode(), number) for key in keys]
        await publish(client, TOPIC, payloads, keys=keys, batch_records=100)
        await tier_all(client)
    async with client.consumer(TOPIC, "shared", type="shared") as consumer:
        await take(consumer, 24)
        await compact(client, to=14)
    async with client.consumer(TOPIC, "shared", type="shared") as consumer:
        again = await take(consumer, 20)
        assert [each.offset for each in again] == [0, *range(5, 24)]
        await ack_all(consumer, again)
    assert (await look(client, TOPIC, "shared"))["backlog"] == 0


async def test_an_erased_key_is_gone_everywhere_and_the_rest_is_proven_to_be_the_same(
    cluster: Cluster, client: Client
) -> None:
    await subscribe(client, TOPIC, "slow", start=Start.earliest())
    await fill(client)
    await publish(client, TOPIC, [b"k3 5", b"k4 5"], keys=["k3", "k4"], batch_records=10)
    before = await read_messages(client, TOPIC)
    done = await wait_erased(client, TOPIC, "k3", "missing")
    assert (done.state, done.problem, done.until_offset, done.erased) == ("done", "", 47, 6)
    assert sum(each.erased for each in done.objects) == 6
    assert all(each.others.startswith("v1-") for each in done.objects)
    assert done.gone_us > done.began_us
    async with client.consumer(TOPIC, "slow") as consumer:
        in_memory = await take(consumer, 47)
    await cluster.restart()
    after = await read_messages(client, TOPIC)
    async with client.consumer(TOPIC, "slow") as consumer:
        taken = await take(consumer, 47)
    for found in (in_memory, after, taken):
        assert [each.offset for each in found] == list(range(47))
        for old, new in zip(before, found, strict=True):
            if old.key == b"k3":
                assert (new.key, new.payload, list(new.attributes)) == (None, b"", [ERASED])
                assert new.publish_time_us == old.publish_time_us
            else:
                assert (new.key, new.payload) == (old.key, old.payload)
    listed = await client.admin.ledgers.list(TOPIC)
    assert cluster.tier is not None
    store = FolderStore(Path(cluster.tier.removeprefix("file://")), real_random())
    for row in listed:
        if row.key is not None:
            info = await store.info(row.key)
            assert info is not None
            assert b"k3 " not in await store.get(row.key, 0, info.size)
    # Replaced objects are still there: a restore must not bring the key back.
    [source] = await open_history(store, TopicName.parse(TOPIC), None, allow_gaps=False)
    restored = [message async for batch in source.read(0) for message in batch]
    assert [(each.key, each.payload) for each in restored] == [
        (each.key, each.payload) for each in after
    ]
    again = await wait_erased(client, TOPIC, "k3")
    assert again.state == "done" and not again.objects
    async with client.producer(TOPIC) as producer:
        await producer.send(b"new", key="k3")
    assert (await read_messages(client, TOPIC))[-1].payload == b"new"


async def test_erasing_needs_an_object_store_and_digests(tmp_path: Path) -> None:
    async with Cluster(tmp_path / "plain") as cluster, cluster.client() as client:
        await publish(client, TOPIC, [b"x"])
        assert not await client.admin.ledgers.erasures(TOPIC)
        with pytest.raises(NotFound, match="no erasure 1"):
            await client.admin.ledgers.cancel_erasure(TOPIC, 1)
        with pytest.raises(Refused, match="nothing to erase"):
            await client.admin.ledgers.erase(TOPIC)
        with pytest.raises(Refused, match="--tier"):
            await client.admin.ledgers.erase(TOPIC, key_digests=(key_digest(b"k"),))
        with pytest.raises(Refused, match="SHA-256"):
            await client.admin.ledgers.erase(TOPIC, key_digests=("k",))


async def test_expired_records_of_objects_are_passed_over(client: Client) -> None:
    hour_us = 3_600_000_000
    now_us = time.time_ns() // 1000
    async with client.producer(TOPIC, batch_records=1) as producer:
        for age in (3, 2, 0):
            await producer.send(b"%d" % age, publish_time_us=now_us - age * hour_us)
    await tier_all(client)
    await client.admin("topic.policy", {"topic": TOPIC, "ttl_ms": 3_600_000})
    async with client.consumer(TOPIC, "late", start=Start.earliest()) as consumer:
        assert [message.payload for message in await take(consumer, 1)] == [b"0"]
    assert [each.payload for each in await read_messages(client, TOPIC)] == [b"3", b"2", b"0"]
