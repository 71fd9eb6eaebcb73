"""The metadata cache gives what the store has, a moment later, and asks it for what is new."""

from __future__ import annotations

import pytest

from broker_containers.cluster.metadata_cache import MetadataCache
from sulina.errors import NotFound, Unavailable
from sulina.metadata.keys import namespaces, subscriptions, topic_lifecycle, topics
from sulina.metadata.keys.cursors import CursorRecord
from sulina.metadata.keys.policy import Policy
from sulina.metadata.keys.subscriptions import SubscriptionRecord
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.model import SubscriptionType
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock
from tests.cluster_services.conftest import until
from tests.metadata.unreliable import UnreliableStore

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
