"""A running broker uses changed settings and limits without a restart; ``sulina config``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.cluster.metadata_cache import MetadataCache, follow_policies
from broker_containers.operations.settings import SettingHandlers
from broker_containers.settings.apply import single_broker_config
from broker_containers.settings.runtime_config import RuntimeConfig
from broker_containers.topic_log.managed_ledger import ManagedLedger
from sulina.errors import NotFound
from sulina.metadata.keys import namespaces, topics
from sulina.names import TopicName
from sulina.runtime.logs import PACKAGES, apply_log_level
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock
from tests.broker.memory_cluster import MemoryCluster
from tests.cli.runner import SulinaCommand
from tests.cluster_services.conftest import until
from tests.owners.brokers import Brokers
from tests.support.shell import CommandResult

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


Run = Callable[..., Awaitable[CommandResult]]


@pytest.fixture
async def sulina() -> AsyncIterator[Run]:
    """The command line, as a process, and a broker that has the methods."""
    settings = BrokerSettings(broker_id="b1")
    async with (
        MemoryCluster(MemoryDisk(), settings=settings) as cluster,
        single_broker_config(cluster.broker) as config,
    ):
        cluster.server.services.operations.serve(SettingHandlers(config))
        command = SulinaCommand(f"sulina://127.0.0.1:{cluster.port}")

        async def run(*arguments: str, code: int = 0) -> CommandResult:
            return await asyncio.to_thread(command, "config", *arguments, code=code)

        yield run


async def test_settings_are_changed_shown_and_told_to_people(sulina: Run) -> None:
    done = await sulina("set", "ledger.roll_bytes", "512MiB")
    assert done.stdout == "ledger.roll_bytes is 536870912 for all brokers (was not set)\n"
    await sulina("set", "ledger.roll_bytes", "1GiB", "--broker", "b2")
    listed = await sulina("list", "--changed")
    assert "512 MiB" in listed.stdout
    assert "b2=1073741824" in listed.stdout
    undone = await sulina("unset", "ledger.roll_bytes")
    assert undone.stdout == "ledger.roll_bytes is not set for all brokers (was 536870912)\n"
    told = await sulina("history")
    assert "@" in told.stdout and "ledger.roll_bytes" in told.stdout


async def test_scripts_get_json(sulina: Run) -> None:
    done = await sulina("set", "log.level", "debug", "--broker", "b1", "--json")
    assert done.json() == {
        "name": "log.level", "broker": "b1", "old": None, "new": "debug", "changed": True,
    }  # fmt: skip
    [row] = (await sulina("list", "--changed", "--json")).json()["settings"]
    assert (row["value"], row["source"]) == ("debug", "broker")
    [change] = (await sulina("history", "--json")).json()
    assert (change["name"], change["broker"], change["new"]) == ("log.level", "b1", "debug")


async def test_a_mistake_is_told_as_a_sentence_with_what_is_allowed(sulina: Run) -> None:
    wrong = await sulina("set", "ledger.roll_bytes", "soon", code=1)
    assert "64 KiB to 64 GiB" in wrong.stderr
    unknown = await sulina("get", "roll", code=1)
    assert "ledger.roll_bytes" in unknown.stderr
    fixed = await sulina("set", "broker.broker_id", "b9", code=1)
    assert "restart" in fixed.stderr


async def test_a_setting_changed_at_one_broker_holds_on_all() -> None:
    async with Brokers() as brokers:
        await brokers.start("b1", "b2", "b3")
        nodes = list(brokers.running.values())
        async with brokers.client("b2") as client:
            await client.admin("config.set", {"name": "cluster.report_seconds", "value": "1s"})
            await client.admin("config.set", {"name": "balance.enabled", "value": False})
            own = {"name": "broker.max_requests", "value": 9, "broker": "b3"}
            await client.admin("config.set", own)
        await until(lambda: brokers.running["b3"].broker.settings.max_requests == 9)
        await until(lambda: all(node.election.settings.report_seconds == 1 for node in nodes))
        await until(lambda: all(not node.leader_tasks.manager.settings.enabled for node in nodes))
        assert brokers.running["b1"].broker.settings.max_requests != 9


async def test_brokers_of_a_cluster_announce_changes_to_each_other() -> None:
    async with Brokers() as brokers:
        await brokers.start("b1", "b2")
        nodes = list(brokers.running.values())
        await until(lambda: any(node.synchronizer.announced for node in nodes))
        await until(lambda: any(node.synchronizer.heard for node in nodes))
