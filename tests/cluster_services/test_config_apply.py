"""A running broker goes by settings and limits that were changed, without a restart."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from broker_containers.cluster.metadata_cache import MetadataCache, follow_policies
from broker_containers.settings.apply import (
    PACKAGES,
    apply_log_level,
    single_broker_config,
)
from broker_containers.settings.runtime_config import RuntimeConfig
from broker_containers.topic_log.managed_ledger import ManagedLedger
from sulina.errors import NotFound
from sulina.metadata.keys import namespaces, topics
from sulina.names import TopicName
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock
from tests.broker.memory_cluster import MemoryCluster
from tests.cluster_services.patience import until

NEWS = TopicName("default", "news")


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(MemoryDisk()) as running:
        yield running


@pytest.fixture
async def config(cluster: MemoryCluster) -> AsyncIterator[RuntimeConfig]:
    """The settings of the cluster's broker, which goes by them."""
    async with single_broker_config(cluster.broker) as config:
        yield config


async def test_open_topics_and_those_to_come_go_by_a_change(
    cluster: MemoryCluster, config: RuntimeConfig
) -> None:
    async with (
        cluster.client() as client,
        client.producer("/default/news") as producer,
        client.consumer("/default/news", "s") as consumer,
    ):
        await config.set("ledger.roll_bytes", "64KiB")
        await config.set("subscription.frames", 2)
        topic = await cluster.broker.topic(NEWS)
        other = await cluster.broker.topic(TopicName("default", "other"))
        for log in (topic.log, other.log):
            assert isinstance(log, ManagedLedger)
            assert log.settings.roll_bytes == 64 << 10
        async with client.consumer("/default/news", "opened later"):
            assert {each.limits.frames for each in topic.subscriptions.values()} == {2}
        for _ in range(4):
            await (await producer.send(bytes(40 << 10)))
        for _ in range(4):
            await consumer.ack(await consumer.receive(timeout=30))
        assert isinstance(topic.log, ManagedLedger)
        assert len(topic.log.refs) > 1


async def test_a_smaller_cache_lets_go_at_once(
    cluster: MemoryCluster, config: RuntimeConfig
) -> None:
    async with cluster.client() as client, client.producer("/default/news") as producer:
        for _ in range(8):
            await (await producer.send(bytes(400 << 10)))
        assert cluster.broker.cache.bytes > 2 << 20
        await config.set("broker.cache_bytes", "1MiB")
        assert cluster.broker.cache.bytes <= 1 << 20


async def test_intervals_and_permissions_change(
    cluster: MemoryCluster, config: RuntimeConfig
) -> None:
    await config.set("broker.cursor_flush_seconds", "50ms")
    await config.set("broker.retention_seconds", "1s")
    await config.set("broker.auto_create_topics", "no")
    assert cluster.broker.cursors.interval == 0.05
    assert cluster.broker.retention.interval == 1
    with pytest.raises(NotFound):
        await cluster.broker.topic(NEWS)
    await config.unset("broker.auto_create_topics")
    await cluster.broker.topic(NEWS)


async def test_the_log_level_changes_and_comes_back() -> None:
    before = [logging.getLogger(package).level for package in PACKAGES]
    apply_log_level("debug", started_with="warning")
    assert logging.getLogger("broker_containers.broker.broker").isEnabledFor(logging.DEBUG)
    apply_log_level("warning", started_with="warning")
    assert [logging.getLogger(package).level for package in PACKAGES] == before


async def test_limits_changed_elsewhere_hold_for_topics_that_are_open_here(
    cluster: MemoryCluster,
) -> None:
    broker = cluster.broker
    async with MetadataCache(broker.store, RealClock()) as cache:
        follow_policies(broker, cache)
        topic = await broker.topic(NEWS)
        other = await broker.topic(TopicName("default", "other"))
        await namespaces.update_policy(broker.store, "default", {"retention_ms": 5})
        await topics.update_policy(broker.store, NEWS, {"max_message_size": 7})
        await until(lambda: topic.policy.max_message_size == 7)
        assert topic.policy.retention_ms == other.policy.retention_ms == 5
        assert other.policy.max_message_size != 7
