"""Retention: what goes and when, what is kept for a while, and what brings it back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.broker.settings import BrokerSettings
from broker_containers.topic_log.ledger_settings import LedgerSettings
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.retention_plan import expired, fates
from sulina import Client, Refused, Start
from sulina.errors import Retriable
from sulina.metadata.keys import cursors, last_use
from sulina.metadata.keys.ledger_list import LedgerList, LedgerRef, LedgerState, TieredRef
from sulina.metadata.keys.policy import Policy
from sulina.names import TopicName
from sulina.runtime.memory_disk import MemoryDisk
from tests.broker.actions import ack_all, eventually, log_of, numbered, publish, read_all, take
from tests.broker.moved_cluster import HOUR, MovedClock, MovedCluster, running

TOPIC = "/default/aging"
SETTINGS = BrokerSettings(
    ledger=LedgerSettings(roll_bytes=1000), grace_seconds=2 * HOUR, retention_seconds=3600
)


async def set_policy(client: Client, **limits: Any) -> None:
    await client.admin("topic.policy", {"topic": TOPIC, **limits})


async def apply(cluster: MovedCluster) -> int:
    (topic,) = cluster.broker.loaded()
    return await cluster.broker.retention.apply(topic)


def log_in(cluster: MovedCluster) -> ManagedLedger:
    (topic,) = cluster.broker.loaded()
    assert isinstance(topic.log, ManagedLedger)
    return topic.log


async def test_what_was_removed_is_kept_for_a_while_and_can_be_restored(
    cluster: MovedCluster, client: Client
) -> None:
    await publish(client, TOPIC, numbered(60))
    await set_policy(client, retention_ms=HOUR * 1000)
    cluster.move(1.1)
    shown = await client.admin.topics.retention(TOPIC)
    assert {fate.reason for fate in shown.ledgers} == {"retention_ms"}
    assert all(fate.leaves_us == shown.now_us for fate in shown.ledgers)
    assert not shown.removed
    assert await apply(cluster) == len(shown.ledgers), "as it was shown"
    assert await read_all(client, TOPIC) == []
    assert await apply(cluster) == 0, "what was removed is not removed again"
    after = await client.admin.topics.retention(TOPIC)
    assert [fate.leaves_us for fate in after.ledgers] == [None], "it is empty"
    assert [fate.ledger for fate in after.removed] == [fate.ledger for fate in shown.ledgers]
    assert after.removed[0].deleted_us is not None
    with pytest.raises(Refused, match="would remove it again"):
        await client.admin.topics.undo_retention(TOPIC)
    await set_policy(client, retention_ms=0)
    undone = await client.admin.topics.undo_retention(TOPIC)
    assert undone.start_offset == 0
    assert await read_all(client, TOPIC) == numbered(60)
    with pytest.raises(Refused, match="nothing that was removed"):
        await client.admin.topics.undo_retention(TOPIC)


async def test_after_the_time_it_is_deleted_for_good(cluster: MovedCluster, client: Client) -> None:
    await publish(client, TOPIC, numbered(60))
    await set_policy(client, retention_ms=HOUR * 1000)
    cluster.move(1.1)
    await apply(cluster)
    before = set(cluster.store.ledgers())
    cluster.move(1.9)
    await apply(cluster)
    assert set(cluster.store.ledgers()) == before, "its time has not come"
    cluster.move(0.2)
    await apply(cluster)
    assert len(set(cluster.store.ledgers())) <= 1
    await set_policy(client, retention_ms=0)
    with pytest.raises(Refused, match="nothing that was removed"):
        await client.admin.topics.undo_retention(TOPIC)
    (added,) = await publish(client, TOPIC, [b"next"])
    assert added.offset == 60


async def test_a_restart_keeps_what_can_be_restored() -> None:
    disk, clock = MemoryDisk(), MovedClock()
    cluster = MovedCluster(disk, clock=clock, settings=SETTINGS)
    async with cluster, cluster.client() as client:
        await publish(client, TOPIC, numbered(60))
        await set_policy(client, retention_ms=HOUR * 1000)
        cluster.move(1.1)
        await apply(cluster)
    for _ in range(2):
        again = MovedCluster(disk, metadata=cluster.metadata, clock=clock, settings=SETTINGS)
        async with again, again.client() as client:
            assert (await log_of(client, TOPIC))["start_offset"] == 60
            assert await read_all(client, TOPIC) == []
    again = MovedCluster(disk, metadata=cluster.metadata, clock=clock, settings=SETTINGS)
    async with again, again.client() as client:
        await publish(client, TOPIC, [b"more"])
        await set_policy(client, retention_ms=0)
        await client.admin.topics.undo_retention(TOPIC)
        assert await read_all(client, TOPIC) == [*numbered(60), b"more"]


async def test_what_was_removed_is_no_backlog_unless_it_is_restored() -> None:
    disk, clock = MemoryDisk(), MovedClock()
    cluster = MovedCluster(disk, clock=clock, settings=SETTINGS)

    async def backlog(client: Client) -> int:
        return (await client.admin.subscriptions.describe(TOPIC, "s")).backlog

    async with cluster, cluster.client() as client:
        await client.admin.topics.create(TOPIC)
        await client.admin.subscriptions.create(TOPIC, "s", start=Start.earliest())
        await publish(client, TOPIC, numbered(60))
        await set_policy(client, retention_ms=HOUR * 1000)
        cluster.move(1.1)
        await apply(cluster)
        assert await backlog(client) == 0
        await set_policy(client, retention_ms=0)
        await client.admin.topics.undo_retention(TOPIC)
        assert await backlog(client) == 60
        await set_policy(client, retention_ms=HOUR * 1000)
        await apply(cluster)
    cluster = MovedCluster(disk, metadata=cluster.metadata, clock=clock, settings=SETTINGS)
    async with cluster, cluster.client() as client:
        assert await backlog(client) == 0

        async def stored() -> bool:
            found = await cursors.get(cluster.broker.store, TopicName.parse(TOPIC), "s")
            return found is not None and found.position == 60

        await eventually(stored)


async def test_a_preview_shows_what_another_policy_would_do_and_changes_nothing(
    cluster: MovedCluster, client: Client
) -> None:
    await publish(client, TOPIC, numbered(60))
    async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
        await ack_all(consumer, await take(consumer, 60))
    kept = await client.admin.topics.retention(TOPIC)
    assert {fate.leaves_us for fate in kept.ledgers} == {None}
    aged = await client.admin.topics.retention(TOPIC, retention_ms=1000)
    assert [fate.reason for fate in aged.ledgers] == ["retention_ms"] * len(aged.ledgers)
    sized = await client.admin.topics.retention(TOPIC, retention_bytes=1)
    assert [fate.reason for fate in sized.ledgers][-2:] == ["retention_bytes", None]
    done = await client.admin.topics.retention(TOPIC, delete_consumed=True)
    assert {fate.reason for fate in done.ledgers[:-1]} == {"delete_consumed"}
    assert await apply(cluster) == 0
    assert await read_all(client, TOPIC) == numbered(60)


async def test_a_backlog_beyond_its_limit_refuses_producers_or_loses_its_oldest(
    cluster: MovedCluster, client: Client
) -> None:
    async with client.consumer(TOPIC, "s", start=Start.earliest()):
        await publish(client, TOPIC, numbered(60))
    await set_policy(client, backlog_bytes=3000)
    await apply(cluster)
    async with client.producer(TOPIC, send_timeout=0.2) as producer:
        with pytest.raises(Exception, match="bytes behind"):
            await (await producer.send(b"too much"))
    await set_policy(client, backlog_drop_oldest=True)
    await publish(client, TOPIC, [b"there is room"])  # at once, not in the next round
    await apply(cluster)
    log = log_in(cluster)
    assert 0 < log.start < 60 and sum(ref.bytes for ref in log.refs) < 5000
    with pytest.raises(Refused, match="first raise backlog_bytes above"):
        await client.admin.topics.undo_retention(TOPIC)
    await set_policy(client, backlog_bytes=100_000)
    await client.admin.topics.undo_retention(TOPIC)
    assert await read_all(client, TOPIC) == [*numbered(60), b"there is room"]


async def look(cluster: MovedCluster) -> list[bool]:
    unused = cluster.broker.unused_topics
    return [await unused.look(topic) for topic in list(cluster.broker.loaded())]


async def test_a_topic_that_nobody_used_is_deleted_and_one_in_use_is_not() -> None:
    disk, clock = MemoryDisk(), MovedClock()
    cluster = MovedCluster(disk, clock=clock, settings=SETTINGS)
    async with cluster, cluster.client() as client:
        async with client.producer(TOPIC) as producer:
            await producer.send_many(numbered(3), publish_time_us=1)
        await set_policy(client, delete_unused_ms=HOUR * 1000)
        assert await look(cluster) == [False], "the time counts from now on"
        cluster.move(0.9)
        async with client.consumer(TOPIC, "s"):
            assert await look(cluster) == [False]
        cluster.move(0.9)
        assert await look(cluster) == [False]
    cluster = MovedCluster(disk, metadata=cluster.metadata, clock=clock, settings=SETTINGS)
    async with cluster, cluster.client() as client:
        await client.admin.topics.describe(TOPIC)
        assert await look(cluster) == [False], "a restart shortens nothing"
        cluster.move(0.2)
        assert await look(cluster) == [True], "and restarts nothing"
        assert await client.admin.topics.list() == ()


async def test_a_topic_that_was_used_elsewhere_is_not_deleted_when_it_comes_back(
    cluster: MovedCluster, client: Client
) -> None:
    await client.admin.topics.create(TOPIC)
    await set_policy(client, delete_unused_ms=HOUR * 1000)
    await client.admin.topics.describe(TOPIC)
    assert await look(cluster) == [False]
    name, broker = TopicName.parse(TOPIC), cluster.broker
    await broker.unload(name, Retriable("it moves"))
    cluster.move(2)
    await last_use.put(broker.store, name, cluster.clock.wall_us())  # by its owner meanwhile
    await client.admin.topics.describe(TOPIC)
    assert await look(cluster) == [False]


async def test_partitions_are_deleted_together_once_none_was_used(
    cluster: MovedCluster, client: Client
) -> None:
    await client.admin.topics.create(TOPIC, partitions=2)
    await set_policy(client, delete_unused_ms=HOUR * 1000)
    await client.admin.topics.describe(TOPIC)
    assert await look(cluster) == [False, False]
    async with client.producer(f"{TOPIC}-part-1"):
        cluster.move(1.2)
        assert await look(cluster) == [False, False], "the other one is used"
    cluster.move(0.9)
    assert await look(cluster) == [False, False]
    cluster.move(0.3)
    assert True in await look(cluster)
    assert await client.admin.topics.list() == ()


async def test_an_idle_topic_is_opened_to_apply_its_policy() -> None:
    disk, clock = MemoryDisk(), MovedClock()
    cluster = MovedCluster(disk, clock=clock, settings=SETTINGS)
    async with cluster, cluster.client() as client:
        await publish(client, TOPIC, numbered(3))
        await publish(client, "/default/kept", numbered(3))
        await set_policy(client, retention_ms=HOUR * 1000)
    clock.ahead += 2 * HOUR
    quick = BrokerSettings(retention_seconds=0.05)
    cluster = MovedCluster(disk, metadata=cluster.metadata, clock=clock, settings=quick)
    async with cluster:

        async def emptied() -> bool:
            found = [topic for topic in cluster.broker.loaded() if str(topic.name) == TOPIC]
            return bool(found) and found[0].log.start == 3

        await eventually(emptied)
        assert len(list(cluster.broker.loaded())) == 1


async def test_each_limit_comes_from_the_topic_its_namespace_or_the_cluster(
    cluster: MovedCluster, client: Client
) -> None:
    await client.admin.topics.create(TOPIC)
    for setting, value in (("policy.ttl_ms", 5000), ("policy.backlog_bytes", 7)):
        await client.admin("config.set", {"name": setting, "value": value})
    await client.admin.namespaces.policy("default", backlog_bytes=0, retention_ms=9000)
    await client.admin.topics.policy(TOPIC, retention_bytes=11)
    policy = await client.admin.topics.policy(TOPIC)
    sources = await client.admin.topics.policy_sources(TOPIC)
    named = ("ttl_ms", "backlog_bytes", "retention_ms", "retention_bytes", "max_message_size")
    assert [(getattr(policy, name), sources[name]) for name in named] == [
        (5000, "cluster"),
        (0, "namespace"),
        (9000, "namespace"),
        (11, "topic"),
        (10 << 20, "default"),
    ]
    await client.admin.namespaces.policy("default", backlog_bytes=None)
    assert (await client.admin.topics.policy(TOPIC)).backlog_bytes == 7
    (topic,) = [*cluster.broker.loaded()] or [await cluster.broker.topic(TopicName.parse(TOPIC))]
    await cluster.broker.refresh_policies()
    assert topic.policy.ttl_ms == 5000, "a changed setting reaches open topics"


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"retention_ms": 10, "ttl_ms": 20}, "retention is shorter than TTL.*raise retention_ms"),
        ({"retention_ms": 10, "local_retention_ms": 20}, "local_retention_ms .* lower"),
        ({"retention_bytes": 10, "local_retention_bytes": 20}, "local_retention_bytes .* lower"),
        ({"backlog_drop_oldest": True}, "does nothing without backlog_bytes"),
        ({"retention_ms": 20, "delete_unused_ms": 10}, "raise delete_unused_ms"),
    ],
)
async def test_limits_that_contradict_each_other_are_refused(
    client: Client, limits: dict[str, Any], problem: str
) -> None:
    await client.admin.topics.create(TOPIC)
    with pytest.raises(Refused, match=problem):
        await set_policy(client, **limits)
    with pytest.raises(Refused, match=problem):
        await client.admin("namespace.policy", {"namespace": "default", **limits})
    first, *others = limits.items()
    if others:  # also if one is the namespace's and the other the topic's
        await client.admin("namespace.policy", {"namespace": "default", first[0]: first[1]})
        with pytest.raises(Refused, match=problem):
            await set_policy(client, **dict(others))


async def test_the_preview_counts_the_time_that_tables_have_to_drop_an_object(
    cluster: MovedCluster,
) -> None:
    broker = cluster.broker
    broker.tiering.settings = replace(broker.tiering.settings, grace_seconds=2, tables_seconds=7)
    hot = ledger(1, 0, 9, 100, 0)
    cold = replace(hot, tiered=TieredRef(100, "digest"))
    broker.settings = replace(broker.settings, tier=broker.tiering.settings)
    assert broker.retention.kept_us([cold]) == 7_000_000
    assert broker.retention.kept_us([hot]) == 2 * HOUR * 1_000_000


def ledger(number: int, first: int, last: int, size: int, age_us: int) -> LedgerRef:
    return LedgerRef(number, first, last, LedgerState.CLOSED, size, NOW - age_us, NOW - age_us, 0)


NOW = 10**15
histories = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 300), st.integers(0, 10**9)), max_size=12
)
policies = st.builds(
    Policy,
    retention_ms=st.integers(0, 10**6),
    retention_bytes=st.integers(0, 2000),
    delete_consumed=st.booleans(),
)


@given(histories, policies, st.integers(0, 40))
def test_what_is_shown_as_leaving_now_is_what_goes(
    history: list[tuple[int, int, int]], policy: Policy, consumed: int
) -> None:
    refs, offset = [], 0
    for number, (records, size, age) in enumerate(history):
        refs.append(ledger(number, offset, offset + records - 1, size, age))
        offset += records
    shown = fates(refs, policy, NOW, consumed)
    count = expired(refs, policy, NOW, consumed)
    assert [fate.leaves_us == NOW for fate in shown[:-1]] == [
        place < count for place in range(max(len(refs) - 1, 0))
    ]
    leaving = [fate.leaves_us for fate in shown if fate.leaves_us is not None]
    assert leaving == sorted(leaving), "no ledger leaves before an older one"
    for fate in shown:
        if fate.leaves_us is not None and fate.leaves_us > NOW:
            before = expired(refs, policy, fate.leaves_us - 1, consumed)
            assert before <= refs.index(fate.ref), "and none earlier than shown"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("remove"), st.integers(1, 4)),
        st.tuples(st.just("delete"), st.just(0)),
        st.tuples(st.just("restore"), st.just(0)),
        st.tuples(st.just("append"), st.integers(1, 3)),
    ),
    max_size=30,
)


@given(steps, st.integers(0, 1000))
def test_removing_keeping_and_restoring_agree_with_a_model(
    plan: list[tuple[str, int]], keep_us: int
) -> None:
    found = LedgerList()
    kept: list[tuple[int, int]] = []  # offset and when it may be deleted
    visible: list[int] = []
    now = end = 0
    for step, count in plan:
        now += 100
        if step == "append":
            for _ in range(count):
                new = LedgerRef(end + 1, end, end, LedgerState.CLOSED)
                found = LedgerList(ledgers=(*found.ledgers, new), removed=found.removed)
                visible.append(end)
                end += 1
        elif step == "remove" and count < len(visible):
            found = found.removing(count, now, now + keep_us)
            kept += [(offset, now + keep_us) for offset in visible[:count]]
            visible = visible[count:]
        elif step == "delete" and (due := found.overdue(now)):
            gone = kept[:due]
            # Removals that are close to each other are deleted together, never too early.
            assert all(until <= now for _, until in gone)
            found, kept = found.trimmed(due), kept[due:]
        elif step == "restore":
            visible = [*(offset for offset, _ in kept), *visible]
            kept = []
            found = LedgerList(ledgers=found.ledgers)
        assert [ref.first_offset for ref in found.visible] == visible
        assert found.hidden == len(kept)
        assert len(found.removed) <= 18 or keep_us < 1600


@pytest.fixture
async def cluster_and_client() -> AsyncIterator[tuple[MovedCluster, Client]]:
    async with running(SETTINGS) as both:
        yield both


@pytest.fixture
def cluster(cluster_and_client: tuple[MovedCluster, Client]) -> MovedCluster:
    return cluster_and_client[0]


@pytest.fixture
def client(cluster_and_client: tuple[MovedCluster, Client]) -> Client:
    return cluster_and_client[1]
