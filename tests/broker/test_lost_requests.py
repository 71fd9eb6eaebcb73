"""Connections that are lost, and subscriptions that close, in the middle of a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.protobuf.message import Message

from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topic_log.tail_cache import CachedFrame
from broker_containers.topics.topic import Topic
from sulina import Client, NotFound, Start
from sulina.errors import Retriable
from sulina.model import SubscriptionType
from sulina.names import TopicName
from sulina.runtime.memory_disk import MemoryDisk
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command
from tests.broker.actions import (
    bodies,
    eventually,
    log_of,
    look,
    numbered,
    publish,
    take,
    until_it_raises,
)
from tests.broker.cluster import Cluster
from tests.broker.memory_cluster import GatedDisk, MemoryCluster
from tests.broker.peer import Peer

TOPIC = "/default/lost"


@asynccontextmanager
async def cluster_with_slow_metadata() -> AsyncIterator[tuple[MemoryCluster, Client]]:
    async with (
        MemoryCluster(MemoryDisk(), metadata=GatedDisk()) as cluster,
        cluster.client() as client,
    ):
        await publish(client, TOPIC, numbered(5))
        yield cluster, client


async def ask_and_go(cluster: MemoryCluster, command: Command, body: Message) -> None:
    """Make a request and lose the connection while it waits for the metadata."""
    async with Peer(cluster.port) as peer:
        await ask_and_wait(cluster, peer, command, body)
    before = cluster.server.binary.connections

    async def gone() -> bool:
        return cluster.server.binary.connections < before

    await eventually(gone)
    gate(cluster).open_gate()


async def ask_and_wait(cluster: MemoryCluster, peer: Peer, command: Command, body: Message) -> None:
    gate(cluster).close_gate()
    peer.send(command, body, request=7)
    await gate(cluster).blocked()


def gate(cluster: MemoryCluster) -> GatedDisk:
    assert isinstance(cluster.metadata, GatedDisk)
    return cluster.metadata


def admin(method: str, arguments: str) -> pb.Admin:
    return pb.Admin(method=method, arguments=arguments.encode())


async def test_a_subscription_can_be_used_whoever_asked_for_it_first() -> None:
    async with cluster_with_slow_metadata() as (cluster, client):
        body = pb.Subscribe(
            topic=TOPIC, subscription="s", consumer="gone", start=pb.Start(earliest=True)
        )
        await ask_and_go(cluster, Command.SUBSCRIBE, body)
        async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
            assert bodies(await take(consumer, 5)) == numbered(5)


async def test_a_subscription_whose_type_was_changing_still_delivers() -> None:
    async with cluster_with_slow_metadata() as (cluster, client):
        async with client.consumer(TOPIC, "s", start=Start.earliest()):
            pass
        body = pb.Subscribe(topic=TOPIC, subscription="s", consumer="gone", type=pb.SHARED)
        await ask_and_go(cluster, Command.SUBSCRIBE, body)
        async with client.consumer(TOPIC, "s", type="shared") as consumer:
            assert bodies(await take(consumer, 5)) == numbered(5)


async def test_a_subscription_that_was_being_deleted_is_gone_and_can_be_made_again() -> None:
    async with cluster_with_slow_metadata() as (cluster, client):
        async with client.consumer(TOPIC, "s", start=Start.earliest()):
            pass
        request = admin("subscription.delete", f'{{"topic": "{TOPIC}", "subscription": "s"}}')
        await ask_and_go(cluster, Command.ADMIN, request)

        await until_it_raises(NotFound, lambda: look(client, TOPIC, "s"))
        async with client.consumer(TOPIC, "s") as consumer:
            await publish(client, TOPIC, [b"next"])
            assert bodies(await take(consumer, 1)) == [b"next"]


async def test_a_topic_that_was_being_deleted_is_gone_and_can_be_made_again() -> None:
    async with cluster_with_slow_metadata() as (cluster, client):
        await ask_and_go(cluster, Command.ADMIN, admin("topic.delete", f'{{"topic": "{TOPIC}"}}'))

        async def gone() -> bool:
            return bool(await client.admin("topic.list") == [])

        await eventually(gone)
        await publish(client, TOPIC, [b"new"])
        assert (await log_of(client, TOPIC))["end_offset"] == 1


async def test_a_topic_that_was_being_made_is_there() -> None:
    async with cluster_with_slow_metadata() as (cluster, client):
        request = admin("topic.create", '{"topic": "/default/made", "partitions": 3}')
        await ask_and_go(cluster, Command.ADMIN, request)

        async def made() -> bool:
            try:
                return len((await client.topic("/default/made")).partitions) == 3
            except NotFound:
                return False

        await eventually(made)


async def test_nobody_opens_a_topic_again_while_it_is_being_deleted() -> None:
    async with cluster_with_slow_metadata() as (cluster, client), Peer(cluster.port) as peer:
        await ask_and_wait(
            cluster, peer, Command.ADMIN, admin("topic.delete", f'{{"topic": "{TOPIC}"}}')
        )
        refusal = await peer.ask(
            Command.CREATE_PRODUCER, pb.CreateProducer(topic=TOPIC, name="p"), pb.Error
        )
        assert refusal.kind == pb.RETRIABLE
        gate(cluster).open_gate()
        assert (await peer.receive()).request == 7
        assert list(cluster.broker.loaded()) == []
        with pytest.raises(NotFound):
            await client.topic(TOPIC)


class Nobody:
    """A consumer's end that takes nothing."""

    def deliver(self, frame: CachedFrame, selection: int | None, attempt: int) -> bool:
        raise AssertionError("it gave no credit")

    def active_changed(self, active: bool) -> None:
        raise AssertionError("it is alone")

    def closed(self, reason: Exception) -> None:
        raise AssertionError("it never joined")


async def test_nobody_joins_a_subscription_that_was_closed(
    cluster: Cluster, client: Client
) -> None:
    broker = cluster.broker
    topic = await broker.topic(TopicName.parse(TOPIC))
    found = await broker.subscriptions.subscribe(
        topic, "s", SubscriptionType.SHARED, Start.earliest(), None
    )
    await broker.subscriptions.unsubscribe(topic, "s")
    with pytest.raises(Retriable, match="try again"):
        found.join("late", Nobody(), (), 0)
    found.resume()  # of a seek that was under way
    assert found._paused, "and it delivers nothing any more"


async def test_a_consumer_whose_subscription_went_before_it_could_join_comes_again(
    cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = cluster.broker
    await publish(client, TOPIC, numbered(20))
    subscribe, found = broker.subscriptions.subscribe, []

    async def gone_the_first_time(topic: Topic, name: str, *rest: Any) -> Subscription:
        found.append(await subscribe(topic, name, *rest))
        if len(found) == 1:
            await broker.subscriptions.unsubscribe(topic, name)
        return found[-1]

    monkeypatch.setattr(broker.subscriptions, "subscribe", gone_the_first_time)
    async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
        assert bodies(await take(consumer, 20)) == numbered(20)
    assert len(found) == 2
