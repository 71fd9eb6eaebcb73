"""Any broker of a cluster answers Danube's tools for all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

import grpc
import pytest

from broker_containers.doors.danube_admin.cluster_map import number_of
from broker_containers.doors.danube_admin.server import AdminServer
from broker_containers.doors.danube_admin.settings import AdminListen
from broker_containers.load.settings import BalanceSettings, RankingName
from sulina import Client
from sulina.errors import AlreadyExists
from tests.danube_admin.client import AdminClient, admin_client
from tests.owners.brokers import QUICK, Brokers

NAMES = ("one", "two", "three")
TOPICS = [f"/default/t{number}" for number in range(6)]
STEADY = replace(QUICK, lease_seconds=30, rebalance_seconds=3600)
"""Topics move only when a test moves them, however busy the machine is."""


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    async with asyncio.timeout(90), Brokers(STEADY) as cluster:
        await cluster.start(*NAMES)
        for node in cluster.running.values():
            while len(node.tables.living()) < len(NAMES) or node.tables.leader()[0] is None:
                await node.tables.prefix_cache.change()
        yield cluster


@pytest.fixture
async def doors(brokers: Brokers) -> AsyncIterator[dict[str, AdminClient]]:
    """A client of each broker's admin door."""
    async with AsyncExitStack() as stack:
        found = {}
        for name, node in brokers.running.items():
            door = AdminServer(node.services, AdminListen(port=0))
            port = (await stack.enter_async_context(door)).port
            found[name] = await stack.enter_async_context(admin_client(port))
        yield found


@pytest.fixture
async def client(brokers: Brokers) -> AsyncIterator[Client]:
    async with brokers.client() as connected:
        yield connected


async def owners(door: AdminClient, namespace: str = "default") -> dict[str, str]:
    found = await door("TopicAdmin/ListNamespaceTopics", name=namespace)
    return {row.name: row.broker_id for row in found.topics}


async def settled(door: AdminClient, topic: str, broker: str) -> None:
    """Wait until a broker owns a topic, as this door sees it."""
    while (await owners(door, topic.split("/")[1])).get(topic) != broker:
        await asyncio.sleep(0.02)


async def place(client: Client, door: AdminClient, topic: str, broker: str) -> None:
    """Create a topic, unless it exists, and have it served by a broker."""
    with suppress(AlreadyExists):
        await client.admin("topic.create", {"topic": topic})
    found = await client.admin("topic.lookup", {"topic": topic})
    if found["broker"] != broker:
        await client.admin("topic.move", {"topic": topic, "broker": broker})
    await settled(door, topic, broker)


async def test_every_broker_describes_the_cluster_alike(
    brokers: Brokers, doors: dict[str, AdminClient]
) -> None:
    leader = brokers.leader()
    for name, door in doors.items():
        found = {row.broker_id: row for row in (await door("BrokerAdmin/ListBrokers")).brokers}
        assert set(found) == set(NAMES)
        for other, row in found.items():
            assert row.broker_addr == brokers.url(other)
            role = "Cluster_Leader" if other == leader else "Cluster_Follower"
            assert (row.broker_role, row.broker_status) == (role, "active")
        assert (await door("BrokerAdmin/GetLeaderBroker")).leader == leader
        status = await door("ClusterAdmin/ClusterStatus")
        assert status.leader_id == number_of(leader) and status.self_node_id == number_of(name)
        assert set(status.voters) == set(map(number_of, NAMES))
        assert status.current_term > 0 and status.last_applied >= status.current_term


async def test_a_topic_and_its_subscriptions_are_managed_through_any_broker(
    doors: dict[str, AdminClient], client: Client
) -> None:
    await place(client, doors["one"], TOPICS[0], "two")
    await client.admin("subscription.create", {"topic": TOPICS[0], "subscription": "work"})
    for door in doors.values():
        found = await door("TopicAdmin/DescribeTopic", name=TOPICS[0])
        assert (found.broker_id, list(found.subscriptions)) == ("two", ["work"])
    fields = {"topic": TOPICS[0], "subscription": "work"}
    config = {"max_unacked_messages": 5}
    await doors["one"]("TopicAdmin/SetSubscriptionDispatchConfig", **fields, dispatch_config=config)
    await place(client, doors["one"], TOPICS[0], "three")
    found = await doors["two"]("TopicAdmin/GetSubscriptionDispatchConfig", **fields)
    assert found.dispatch_config.max_unacked_messages == 5
    await doors["one"]("TopicAdmin/Unsubscribe", **fields)
    await doors["three"].refused(grpc.StatusCode.NOT_FOUND, "TopicAdmin/Unsubscribe", **fields)
    await doors["three"]("TopicAdmin/DeleteTopic", name=TOPICS[0])
    assert TOPICS[0] not in await owners(doors["one"])


async def test_the_topics_of_each_broker_are_listed(
    doors: dict[str, AdminClient], client: Client
) -> None:
    for topic, broker in zip(TOPICS, NAMES * 2, strict=True):
        await place(client, doors["one"], topic, broker)
    for index, broker in enumerate(NAMES):
        found = await doors["one"]("TopicAdmin/ListBrokerTopics", broker_id=str(number_of(broker)))
        ours = {row.name for row in found.topics if row.name in TOPICS}
        assert ours == {TOPICS[index], TOPICS[index + 3]}
        assert {row.broker_id for row in found.topics} == {broker}


async def test_an_unloaded_topic_goes_to_another_broker(
    doors: dict[str, AdminClient], client: Client
) -> None:
    door = doors["three"]
    await door("TopicAdmin/CreatePartitionedTopic", base_name="/default/p", partitions=2)
    before = {}
    for number in (0, 1):
        part = f"/default/p-part-{number}"
        before[part] = str((await client.admin("topic.lookup", {"topic": part}))["broker"])
        await settled(door, part, before[part])
    assert (await door("TopicAdmin/UnloadTopic", name="/default/p")).success
    while not before.items().isdisjoint((await owners(door)).items()):
        await asyncio.sleep(0.02)


async def test_unloading_a_topic_without_an_owner_has_no_effect(
    doors: dict[str, AdminClient],
) -> None:
    await doors["one"]("TopicAdmin/CreateTopic", name="/default/idle")
    assert (await doors["one"]("TopicAdmin/UnloadTopic", name="/default/idle")).success


async def test_a_broker_is_unloaded_drained_and_activated_again(
    doors: dict[str, AdminClient], client: Client
) -> None:
    door = doors["one"]
    for topic in TOPICS:
        await place(client, door, topic, "two")
    dry = await door("BrokerAdmin/UnloadBroker", broker_id="two", dry_run=True)
    assert (dry.started, dry.pending, dry.succeeded) == (False, dry.total, 0)
    assert dry.total >= len(TOPICS)
    done = await door("BrokerAdmin/UnloadBroker", broker_id="two", timeout_seconds=60)
    assert done.started and done.succeeded == done.total >= len(TOPICS)
    assert (done.failed, done.pending, list(done.failed_topics)) == (0, 0, [])
    assert "two" not in (await owners(door)).values()
    rows = (await door("BrokerAdmin/ListBrokers")).brokers
    statuses = {row.broker_id: row.broker_status for row in rows}
    assert statuses == {"one": "active", "two": "drained", "three": "active"}
    assert (await door("BrokerAdmin/ActivateBroker", broker_id="two", reason="mended")).success
    rows = (await door("BrokerAdmin/ListBrokers")).brokers
    assert {row.broker_status for row in rows} == {"active"}


async def test_a_topic_has_a_broker_as_soon_as_it_is_created(
    doors: dict[str, AdminClient],
) -> None:
    door, base = doors["two"], "/default/new"
    await door("TopicAdmin/CreatePartitionedTopic", base_name=base, partitions=3)
    found = await owners(door)
    assert all(found[f"{base}-part-{number}"] in NAMES for number in range(3))


async def test_only_the_topics_of_chosen_namespaces_are_unloaded(
    doors: dict[str, AdminClient], client: Client
) -> None:
    door = doors["one"]
    await door("NamespaceAdmin/CreateNamespace", name="other")
    await client.admin("topic.create", {"topic": "/other/stays"})
    if (await client.admin("topic.lookup", {"topic": "/other/stays"}))["broker"] != "two":
        await client.admin("topic.move", {"topic": "/other/stays", "broker": "two"})
    for topic in TOPICS[:3]:
        await place(client, door, topic, "two")
    fields = {"broker_id": "two", "timeout_seconds": 60}
    none = await door("BrokerAdmin/UnloadBroker", namespaces_include=["nothing"], **fields)
    assert (none.started, none.total) == (True, 0)
    done = await door(
        "BrokerAdmin/UnloadBroker", namespaces_exclude=["other", "system"], max_parallel=2, **fields
    )
    assert (done.total, done.succeeded, done.failed, done.pending) == (3, 3, 0, 0)
    assert "two" not in (await owners(door)).values()
    found = await door("TopicAdmin/DescribeTopic", name="/other/stays")
    assert found.broker_id == "two"
    statuses = {row.broker_status for row in (await door("BrokerAdmin/ListBrokers")).brokers}
    assert statuses == {"active"}


async def test_the_last_active_broker_is_not_unloaded(doors: dict[str, AdminClient]) -> None:
    door, method = doors["one"], "BrokerAdmin/UnloadBroker"
    for name in ("one", "two"):
        assert (await door(method, broker_id=name)).started
    said = await door.refused(grpc.StatusCode.FAILED_PRECONDITION, method, broker_id="three")
    assert "only active broker" in said


async def test_any_broker_reports_the_balance(
    doors: dict[str, AdminClient], client: Client
) -> None:
    for topic in TOPICS:
        await place(client, doors["one"], topic, "two")
    for door in doors.values():
        found = await door("BrokerAdmin/GetClusterBalance")
        assert found.broker_count == 3
        counts = {row.broker_id: row.topic_count for row in found.brokers}
        assert counts.keys() == set(map(number_of, NAMES)) and counts[number_of("two")] >= 6
        assert found.min_load <= found.mean_load <= found.max_load
        assert found.assignment_strategy == "WeightedLoad"


@pytest.mark.parametrize("limit", [{}, {"max_moves": 1}, {"max_moves": 0}])
async def test_a_rebalance_of_an_idle_cluster_says_why_it_moves_nothing(
    doors: dict[str, AdminClient], limit: dict[str, int]
) -> None:
    for door in doors.values():
        for dry_run in (True, False):
            found = await door("BrokerAdmin/TriggerRebalance", dry_run=dry_run, **limit)
            assert found.success and not found.moves_executed and not found.proposed_moves
            assert "nothing is moved" in found.error_message


@pytest.fixture
async def uneven() -> AsyncIterator[AdminClient]:
    """A door of a cluster where one broker has all topics and a rebalance moves some."""
    eager = BalanceSettings(
        ranking=RankingName.SIMPLE,
        confirm_seconds=0,
        quiet=0.0,
        load_per_interval=1.0,
        topic_cooldown_seconds=0,
        return_seconds=0,
        broker_cooldown_seconds=0,
    )
    settings = replace(STEADY, balance=eager)
    async with asyncio.timeout(90), Brokers(settings) as cluster:
        await cluster.start("one", "two")
        node = cluster.running["one"]
        serving = AdminServer(node.services, AdminListen(port=0))
        async with (
            cluster.client() as client,
            serving as server,
            admin_client(server.port) as door,
        ):
            while len(node.tables.living()) < 2:
                await node.tables.prefix_cache.change()
            for topic in TOPICS:
                await place(client, door, topic, "two")
            yield door


async def test_a_rebalance_makes_the_moves_that_a_dry_run_proposes(uneven: AdminClient) -> None:
    end = asyncio.get_running_loop().time() + 30
    dry = await uneven("BrokerAdmin/TriggerRebalance", dry_run=True)
    while not dry.proposed_moves:  # until both brokers have reported their load
        assert asyncio.get_running_loop().time() < end, dry.error_message
        await asyncio.sleep(0.05)
        dry = await uneven("BrokerAdmin/TriggerRebalance", dry_run=True)
    assert dry.success and dry.moves_executed == 0
    for move in dry.proposed_moves:
        assert (move.from_broker, move.to_broker) == (number_of("two"), number_of("one"))
        assert move.estimated_load > 0 and move.reason
    done = await uneven("BrokerAdmin/TriggerRebalance", max_moves=1)
    assert (done.success, done.moves_executed, len(done.proposed_moves)) == (True, 1, 1)
    await settled(uneven, done.proposed_moves[0].topic_name, "one")
    rest = await uneven("BrokerAdmin/TriggerRebalance")
    assert rest.success and rest.moves_executed == len(rest.proposed_moves)
    for move in rest.proposed_moves:
        await settled(uneven, move.topic_name, "one")
