"""Quotas of stored bytes and backlog: producers are refused, or the oldest ledgers are dropped."""

from __future__ import annotations

import pytest

from broker_containers.topics.storage_quotas import WeighedLedger, to_drop, unconsumed
from sulina import Client, Refused
from sulina.metadata.keys.ledgers import LedgerRef, LedgerState
from sulina.metadata.keys.quotas import WhenFull
from sulina.names import TopicName
from tests.auth.broker import Guarded

A, B = TopicName("default", "a"), TopicName("default", "b")


def ledger(topic: TopicName, place: int, time: int, size: int = 10) -> WeighedLedger:
    return WeighedLedger(topic, place, size, time, elsewhere=False, droppable=True)


def test_the_oldest_ledgers_of_all_topics_are_dropped_until_it_fits() -> None:
    found = [ledger(A, 0, 1), ledger(A, 1, 3), ledger(B, 0, 2), ledger(B, 1, 4)]
    assert to_drop(found, 0) == {}
    assert to_drop(found, 11) == {A: 1, B: 1}
    assert to_drop(found, 1_000) == {A: 2, B: 2}


def test_a_broker_drops_its_share_when_others_have_ledgers_too() -> None:
    others = [WeighedLedger(B, n, 10, n, elsewhere=True, droppable=False) for n in range(3)]
    mine = [ledger(A, n, n) for n in range(3)]
    assert to_drop([*mine, *others], 20) == {A: 1}


def test_the_backlog_of_a_ledger_is_in_proportion_to_its_records() -> None:
    for ref in (
        LedgerRef(1, 100, 199, LedgerState.CLOSED, bytes=1_000),
        LedgerRef(1, 100, None, LedgerState.OPEN, bytes=1_000),
    ):
        found = [unconsumed(ref, at, 200) for at in (0, 100, 150, 199, 200, 300)]
        assert found == [1_000, 1_000, 500, 10, 0, 0]


async def publish(client: Client, topic: str, count: int = 10) -> None:
    async with client.producer(topic) as producer:
        for sent in [await producer.send(b"x" * 1_000) for _ in range(count)]:
            await sent


async def count(guarded: Guarded) -> None:
    """What the broker does every ten seconds."""
    broker = guarded.server.broker
    await broker.retention.apply_quotas()


async def test_producers_of_a_full_namespace_are_refused_until_there_is_room(
    guarded: Guarded, namespace: str
) -> None:
    client, topic = guarded.root, f"/{namespace}/t"
    await publish(client, topic)
    await client.admin.quotas.namespace(namespace, stored_bytes=5_000)
    await count(guarded)
    shown = {row.limit: row.use for row in (await client.admin.quotas.namespace(namespace)).limits}
    assert (shown["stored_bytes"] or 0) > 10_000
    with pytest.raises(Refused, match=r"stored bytes, and that is more than its quota of 5,000\."):
        await publish(client, topic, 1)
    await client.admin.quotas.namespace(namespace, stored_bytes=50_000)
    await count(guarded)
    await publish(client, topic, 1)


async def test_a_full_namespace_may_drop_its_oldest_ledgers_instead(
    guarded: Guarded, namespace: str
) -> None:
    client, topic = guarded.root, f"/{namespace}/t"
    await client.admin.quotas.namespace(
        namespace, stored_bytes=5_000, when_full=WhenFull.DROP_OLDEST
    )
    await publish(client, topic)
    await count(guarded)  # closes the ledger, which is the only one
    await publish(client, topic, 1)
    await count(guarded)
    log = await client.admin.topics.log(topic)
    assert (log.start_offset, log.end_offset) == (10, 11)
    with pytest.raises(Refused, match="nothing that was removed"):
        await client.admin.topics.undo_retention(topic)


async def test_what_is_dropped_from_a_backlog_can_be_restored_once_the_quota_has_room(
    guarded: Guarded, namespace: str
) -> None:
    client, topic, quotas = guarded.root, f"/{namespace}/t", guarded.root.admin.quotas
    await quotas.namespace(namespace, backlog_bytes=5_000, when_full=WhenFull.DROP_OLDEST)
    async with client.consumer(topic, "slow"):
        await publish(client, topic)
    await count(guarded)  # closes the ledger, which is the only one
    await publish(client, topic, 1)
    await count(guarded)
    assert (await client.admin.topics.log(topic)).start_offset == 10
    with pytest.raises(Refused, match=r"the quota backlog_bytes of namespace .* first raise it"):
        await client.admin.topics.undo_retention(topic)
    await quotas.namespace(namespace, backlog_bytes=50_000, stored_bytes=5_000)
    with pytest.raises(Refused, match="the quota stored_bytes of namespace"):
        await client.admin.topics.undo_retention(topic)
    await quotas.namespace(namespace, stored_bytes=50_000)
    assert (await client.admin.topics.undo_retention(topic)).start_offset == 0
    await count(guarded)
    assert (await client.admin.topics.log(topic)).start_offset == 0


async def test_a_backlog_counts_what_the_slowest_subscription_has_not_acknowledged(
    guarded: Guarded, namespace: str
) -> None:
    client, topic = guarded.root, f"/{namespace}/t"
    await client.admin.quotas.namespace(namespace, backlog_bytes=5_000)
    async with client.consumer(topic, "quick") as consumer:
        await publish(client, topic)
        await count(guarded)
        with pytest.raises(Refused, match="backlog bytes, and that is more than its quota"):
            await publish(client, topic, 1)
        received = 0
        async for batch in consumer.batches():
            received += len(batch.payloads)
            await consumer.ack(batch)
            if received == 10:
                break
    await count(guarded)
    await publish(client, topic, 1)
