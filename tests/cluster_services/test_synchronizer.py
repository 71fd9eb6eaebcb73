"""Brokers hear of changes over a topic, and cache metadata; nothing depends on that topic."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

import sulina
from broker_containers.broker.settings import BrokerSettings
from broker_containers.cluster.metadata_cache import MetadataCache
from broker_containers.cluster.synchronizer import TOPIC, Synchronizer, SynchronizerTiming
from broker_containers.settings.live_settings import LiveSettings
from broker_containers.settings.runtime_config import RuntimeConfig
from sulina import Client
from sulina.errors import NotFound, SulinaError, Unavailable
from sulina.metadata.keys import namespaces, subscriptions, topic_lifecycle, topics
from sulina.metadata.keys.cursors import CursorRecord
from sulina.metadata.keys.policy import Policy
from sulina.metadata.keys.subscriptions import SubscriptionRecord
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.model import SubscriptionType
from sulina.names import TopicName
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock
from tests.broker.memory_cluster import MemoryCluster
from tests.cluster_services.conftest import until
from tests.metadata.unreliable import UnreliableStore

FAST = SynchronizerTiming(patience_seconds=0.2, pause_seconds=0.05, longest_pause_seconds=0.2)
BOTH = ["b1", "b2"]
NEWS = TopicName("default", "news")


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    # As an administrator may have it: topics do not come by themselves.
    settings = BrokerSettings(auto_create_topics=False)
    async with MemoryCluster(MemoryDisk(), settings=settings) as running:
        yield running


@dataclass
class Member:
    """What a broker knows, and its part in the synchronization."""

    cache: MetadataCache
    config: RuntimeConfig
    synchronizer: Synchronizer


@asynccontextmanager
async def member(
    cluster: MemoryCluster,
    name: str,
    *,
    store: MetadataStore | None = None,
    living: list[str] = BOTH,
    port: int | None = None,
    settings: SynchronizerTiming = FAST,
) -> AsyncIterator[Member]:
    clock = RealClock()
    own_store = store or cluster.broker.store
    url = f"sulina://127.0.0.1:{cluster.port if port is None else port}"

    def connect() -> Client:
        return sulina.connect(url, connect_timeout=5, operation_timeout=5)

    base = LiveSettings(broker=BrokerSettings(broker_id=name))
    async with (
        MetadataCache(own_store, clock) as cache,
        RuntimeConfig(own_store, clock, base) as config,
        Synchronizer(
            name,
            (*cache.prefix_caches, config.prefix_cache),
            clock,
            connect,
            lambda: living,
            settings,
        ) as synchronizer,
    ):
        yield Member(cache, config, synchronizer)


async def _listens(cluster: MemoryCluster, *names: str) -> None:
    """Until these brokers have their subscriptions."""
    topic = TopicName.parse(TOPIC)

    def true() -> bool:
        found = next((t for t in cluster.broker.loaded() if t.name == topic), None)
        return found is not None and all(
            name in found.subscriptions and found.subscriptions[name].consumers for name in names
        )

    await until(true)


async def test_a_broker_whose_watch_is_deaf_converges(cluster: MemoryCluster) -> None:
    deaf = UnreliableStore(cluster.broker.store)
    deaf.deaf = True
    async with member(cluster, "b1") as one, member(cluster, "b2", store=deaf) as two:
        await _listens(cluster, *BOTH)
        await topic_lifecycle.create(cluster.broker.store, NEWS, TopicRecord())
        await until(lambda: two.cache.known(NEWS) is not None)
        assert two.synchronizer.repairs > 0
        await topic_lifecycle.delete(cluster.broker.store, NEWS)
        await until(lambda: two.cache.known(NEWS) is None)
        await one.config.set("broker.max_requests", 7)
        await until(lambda: two.config.current.broker.max_requests == 7)


async def test_a_repair_makes_a_watch_hear_again(cluster: MemoryCluster) -> None:
    deaf = UnreliableStore(cluster.broker.store)
    deaf.deaf = True
    async with member(cluster, "b2", store=deaf) as two:
        async with member(cluster, "b1"):
            await _listens(cluster, *BOTH)
            deaf.deaf = False
            await topic_lifecycle.create(cluster.broker.store, NEWS, TopicRecord())
            await until(lambda: two.cache.known(NEWS) is not None)
        # Nobody is left who could tell.
        await topic_lifecycle.delete(cluster.broker.store, NEWS)
        await until(lambda: two.cache.known(NEWS) is None)


async def test_who_missed_the_announcement_hears_it_again(cluster: MemoryCluster) -> None:
    deaf = UnreliableStore(cluster.broker.store)
    deaf.deaf = True
    often = SynchronizerTiming(
        repeat_seconds=0.3, patience_seconds=0.1, pause_seconds=0.05, longest_pause_seconds=0.2
    )
    async with member(cluster, "b1", settings=often) as one:
        await _listens(cluster, "b1")
        # Listed before the change, and begins to listen after it was announced.
        clock = RealClock()
        async with MetadataCache(deaf, clock) as cache:
            await topic_lifecycle.create(cluster.broker.store, NEWS, TopicRecord())
            announced = one.synchronizer.announced
            await until(lambda: one.synchronizer.announced > announced)
            url = f"sulina://127.0.0.1:{cluster.port}"
            async with Synchronizer(
                "b2", cache.prefix_caches, clock, lambda: sulina.connect(url), lambda: BOTH, often
            ):
                await until(lambda: cache.known(NEWS) is not None)


async def test_it_rests_while_there_is_one_broker_and_begins_when_there_are_two(
    cluster: MemoryCluster,
) -> None:
    living = ["b1"]
    async with member(cluster, "b1", living=living) as one:
        await topic_lifecycle.create(cluster.broker.store, NEWS, TopicRecord())
        await until(lambda: one.cache.known(NEWS) is not None)
        await asyncio.sleep(4 * FAST.pause_seconds)
        assert await topics.get(cluster.broker.store, TopicName.parse(TOPIC)) is None
        living.append("b2")
        await until(lambda: one.synchronizer.announced > 0)
        living.remove("b2")


async def test_a_topic_that_is_not_to_be_had_holds_up_nothing(
    cluster: MemoryCluster, unused_tcp_port: int
) -> None:
    async with asyncio.timeout(30):
        async with member(cluster, "b1", port=unused_tcp_port) as one:
            await topic_lifecycle.create(cluster.broker.store, NEWS, TopicRecord())
            await until(lambda: one.cache.known(NEWS) is not None)
            assert one.synchronizer.announced == 0


async def test_it_goes_on_when_the_door_was_closed_for_a_while(cluster: MemoryCluster) -> None:
    async with member(cluster, "b1") as one, member(cluster, "b2") as two:
        await _listens(cluster, *BOTH)
        for session in list(cluster.server.binary._sessions):
            session.abort()
        await _listens(cluster, *BOTH)
        heard = one.synchronizer.heard + two.synchronizer.heard
        await topic_lifecycle.create(cluster.broker.store, NEWS, TopicRecord())
        await until(lambda: one.synchronizer.heard + two.synchronizer.heard > heard)


async def test_subscriptions_of_brokers_that_are_gone_are_deleted(cluster: MemoryCluster) -> None:
    often = SynchronizerTiming(repeat_seconds=0.2, pause_seconds=0.05)
    async with member(cluster, "b2"):
        await _listens(cluster, "b2")
    async with member(cluster, "b1", living=["b1", "b3"], settings=often):
        store, topic = cluster.broker.store, TopicName.parse(TOPIC)
        async with asyncio.timeout(60):
            while set(await subscriptions.list_all(store, topic)) != {"b1"}:
                await asyncio.sleep(0.02)


def _announcements() -> Iterator[bytes]:
    yield b"\xff"
    yield b"7"
    yield b"{}"
    yield b'{"broker": "b2", "changes": 7}'
    yield b'{"broker": "b2", "changes": [[1]]}'
    yield b'{"broker": "b2", "changes": [["/topics/x", "much"]]}'
    yield json.dumps({"broker": "b2", "changes": [["/elsewhere/", 10**9]]}).encode()
    yield json.dumps({"broker": "b1", "changes": [["/topics/x", 10**9]]}).encode()


async def test_announcements_that_make_no_sense_are_passed_over(cluster: MemoryCluster) -> None:
    async with member(cluster, "b1", living=["b1"]) as one:
        for payload in _announcements():
            one.synchronizer.hear(payload)
        await asyncio.sleep(2 * FAST.patience_seconds)
        assert one.synchronizer.repairs == 0


async def test_a_revision_that_the_store_never_had_costs_one_listing(
    cluster: MemoryCluster,
) -> None:
    async with member(cluster, "b1", living=["b1"]) as one:
        wrong = {"broker": "b2", "changes": [["/topics/x", 10**9]]}
        one.synchronizer.hear(json.dumps(wrong).encode())
        await until(lambda: one.synchronizer.repairs == 1)
        await asyncio.sleep(3 * FAST.patience_seconds)
        assert one.synchronizer.repairs == 1


async def test_a_listing_that_fails_is_tried_again(cluster: MemoryCluster) -> None:
    deaf = UnreliableStore(cluster.broker.store)
    deaf.deaf = True
    async with member(cluster, "b1", living=["b1"], store=deaf) as one:
        await topic_lifecycle.create(cluster.broker.store, NEWS, TopicRecord())
        revision = (await cluster.broker.store.range("/")).revision
        deaf.listing_errors = [SulinaError("no"), SulinaError("no")]
        told = {"broker": "b2", "changes": [["/topics/x", revision]]}
        one.synchronizer.hear(json.dumps(told).encode())
        await until(lambda: one.cache.known(NEWS) is not None)
        assert one.synchronizer.repairs == 1


ORDERS = TopicName("shop", "orders")
PARTS = TopicName("shop", "parts")


@pytest.fixture
async def filled(store: MetadataStore) -> MetadataStore:
    """A namespace with a topic, a partitioned topic, and a subscription with an odd name."""
    await namespaces.create_first(store)
    await namespaces.create(store, "shop", Policy(max_producers_per_topic=5))
    await topic_lifecycle.create(store, ORDERS, TopicRecord())
    await topic_lifecycle.create(store, PARTS, TopicRecord(partitions=2))
    wanted = SubscriptionRecord(SubscriptionType.SHARED)
    await subscriptions.create(store, ORDERS, "a/b c", wanted, CursorRecord(0))
    return store


def _cache(store: MetadataStore) -> MetadataCache:
    return MetadataCache(store, RealClock())


async def test_it_begins_with_what_the_store_has(filled: MetadataStore) -> None:
    async with _cache(filled) as cache:
        assert cache.namespaces() == ["default", "shop", "system"]
        assert cache.list("shop") == await topics.list_all(filled, "shop")
        assert list(cache.list("shop")) == [ORDERS, PARTS, PARTS.partition(0), PARTS.partition(1)]
        assert cache.list("none") == {}
        assert cache.subscriptions(ORDERS) == await subscriptions.list_all(filled, ORDERS)
        assert list(cache.subscriptions(ORDERS)) == ["a/b c"]
        for name in cache.list("shop"):
            assert cache.known(name) == await topics.get(filled, name)
            assert cache.known_policy(name) == await topics.effective_policy(filled, name)


async def test_it_follows_changes(filled: MetadataStore) -> None:
    async with _cache(filled) as cache:
        await topics.update_policy(filled, PARTS, {"max_message_size": 7})
        await namespaces.update_policy(filled, "shop", {"max_producers_per_topic": 6})
        await subscriptions.delete(filled, ORDERS, "a/b c")
        await topic_lifecycle.delete(filled, ORDERS)
        await until(lambda: cache.known(ORDERS) is None and not cache.subscriptions(ORDERS))
        found = cache.known_policy(PARTS.partition(1))
        assert found is not None
        assert (found.max_message_size, found.max_producers_per_topic) == (7, 6)
        await topic_lifecycle.delete(filled, PARTS)
        await namespaces.delete(filled, "shop")
        await until(lambda: "shop" not in cache.namespaces())
        assert cache.list("shop") == {}


async def test_what_it_does_not_know_is_asked_of_the_store(filled: MetadataStore) -> None:
    deaf = UnreliableStore(filled)
    deaf.deaf = True
    async with _cache(deaf) as cache:
        await namespaces.create(filled, "new", Policy(retention_ms=1))
        name = TopicName("new", "topic")
        await topic_lifecycle.create(filled, name, TopicRecord())
        await subscriptions.create(filled, name, "s", SubscriptionRecord(), CursorRecord(0))
        assert cache.known(name) is None
        assert cache.known_policy(name) is None
        assert await cache.describe(name) == TopicRecord()
        assert (await cache.policy(name)).retention_ms == 1
        assert await cache.subscription(name, "s") == SubscriptionRecord()
        assert (await cache.namespace("new")).retention_ms == 1


async def test_what_nobody_knows_is_told_as_the_store_does(filled: MetadataStore) -> None:
    async with _cache(filled) as cache:
        nothing = TopicName("shop", "nothing")
        assert await cache.describe(nothing) is None
        assert await cache.subscription(ORDERS, "nothing") is None
        with pytest.raises(NotFound):
            await cache.policy(nothing)
        with pytest.raises(NotFound):
            await cache.namespace("nothing")


async def test_what_it_knows_is_there_while_the_store_is_not(filled: MetadataStore) -> None:
    async with _cache(filled) as cache:
        before = await cache.policy(ORDERS)
        await filled.close()
        assert await cache.describe(ORDERS) == TopicRecord()
        assert await cache.policy(ORDERS) == before
        assert len(cache.list("shop")) == 4


async def test_limits_that_change_are_told(filled: MetadataStore) -> None:
    async with _cache(filled) as cache:
        told: list[tuple[str, TopicName | None]] = []
        cache.on_policy(lambda namespace, topic: told.append((namespace, topic)))
        await topic_lifecycle.create(filled, TopicName("shop", "new"), TopicRecord())
        await topics.update_policy(filled, ORDERS, {"max_message_size": 7})
        await namespaces.update_policy(filled, "shop", {"max_producers_per_topic": 0})
        await until(lambda: len(told) >= 2)
        assert set(told) == {("shop", ORDERS), ("shop", None)}


async def test_entering_fails_as_the_store_does_and_leaves_nothing_behind(
    filled: MetadataStore,
) -> None:
    unreliable = UnreliableStore(filled)

    async def fail_the_second() -> None:
        if unreliable.pages == 2:
            raise Unavailable("gone")

    unreliable.before_page = fail_the_second
    with pytest.raises(Unavailable):
        await _cache(unreliable).__aenter__()


async def test_a_key_of_a_newer_version_is_passed_over(filled: MetadataStore) -> None:
    await filled.put("/topics/shop/orders/schema", b"1")
    await filled.put("/topics/shop/orders/deeper/a/b/c", b"1")
    async with _cache(filled) as cache:
        assert len(cache.list("shop")) == 4
        await filled.put("/topics/shop/orders/schema", b"2")
        await topic_lifecycle.delete(filled, ORDERS)
        await until(lambda: cache.known(ORDERS) is None)
