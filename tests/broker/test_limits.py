"""Limits that a namespace sets for its topics and a topic for itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sulina import Client, NotFound, Overloaded, Refused
from sulina.metadata.keys import topics
from sulina.metadata.keys.policy import Policy
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from tests.broker.actions import (
    ack_all,
    bodies,
    eventually,
    look,
    numbered,
    publish,
    subscribe,
    take,
)
from tests.broker.cluster import Cluster
from tests.broker.proxy import Proxy

TOPIC = "/default/limited"


@pytest.fixture
async def hasty(cluster: Cluster) -> AsyncIterator[Client]:
    """A client with a short timeout for retriable errors."""
    async with cluster.client(operation_timeout=0.4) as connected:
        yield connected


async def limit(client: Client, **limits: int | None) -> dict[str, int]:
    """Set limits of the topic, which is made if need be."""
    try:
        await client.topic(TOPIC)
    except NotFound:
        await client.admin("topic.create", {"topic": TOPIC})
    found = await client.admin("topic.policy", {"topic": TOPIC, **limits})
    assert isinstance(found, dict)
    return found


async def test_a_topic_takes_no_more_producers_than_its_limit(
    client: Client, hasty: Client
) -> None:
    await limit(client, max_producers_per_topic=2)
    async with client.producer(TOPIC, name="a"), client.producer(TOPIC, name="b") as second:
        with pytest.raises(Overloaded, match="has 2 producers, its policy allows 2"):
            await hasty.producer(TOPIC).open()
        # One that reconnects with its name does not count twice.
        async with client.producer(TOPIC, name="a"):
            await (await second.send(b"still here"))
    await publish(client, TOPIC, [b"there is room again"])


async def test_a_topic_takes_no_more_subscriptions_than_its_limit(
    client: Client, hasty: Client
) -> None:
    await limit(client, max_subscriptions_per_topic=2)
    await subscribe(client, TOPIC, "a")
    await subscribe(client, TOPIC, "b")
    with pytest.raises(Overloaded, match="has 2 subscriptions, its policy's limit"):
        await hasty.consumer(TOPIC, "c").open()
    await subscribe(client, TOPIC, "a")
    await client.admin("subscription.delete", {"topic": TOPIC, "subscription": "a"})
    await subscribe(client, TOPIC, "c")


async def test_a_subscription_takes_no_more_consumers_than_its_limit(
    client: Client, hasty: Client
) -> None:
    await limit(client, max_consumers_per_subscription=2)
    async with (
        client.consumer(TOPIC, "s", type="shared", name="a"),
        client.consumer(TOPIC, "s", type="shared", name="b"),
    ):
        with pytest.raises(Overloaded, match="'s' has 2 consumers, its policy's limit"):
            await hasty.consumer(TOPIC, "s", type="shared").open()
        async with client.consumer(TOPIC, "another", type="shared"):
            pass
        async with client.consumer(TOPIC, "s", type="shared", name="a"):
            pass


async def test_a_topic_takes_no_more_consumers_than_its_limit(
    client: Client, hasty: Client
) -> None:
    await limit(client, max_consumers_per_topic=2)
    async with client.consumer(TOPIC, "s"), client.consumer(TOPIC, "t", name="b"):
        with pytest.raises(Overloaded, match="/default/limited has 2 consumers"):
            await hasty.consumer(TOPIC, "u").open()
        async with client.consumer(TOPIC, "t", name="b") as again:
            await publish(client, TOPIC, numbered(1))
            assert bodies(await take(again, 1)) == numbered(1)
    async with client.consumer(TOPIC, "u"):
        pass


async def test_consumers_and_producers_that_lost_their_connection_do_not_count(
    client: Client, remote: Client, proxy: Proxy
) -> None:
    await limit(client, max_producers_per_topic=1, max_consumers_per_topic=1)
    await remote.producer(TOPIC).open()
    await remote.consumer(TOPIC, "s").open()
    proxy.cut_and_refuse()

    async def nobody_is_there() -> bool:
        stats = await client.admin("broker.stats")
        return (stats["producers"], stats["consumers"]) == (0, 0)

    await eventually(nobody_is_there)
    async with client.producer(TOPIC), client.consumer(TOPIC, "s"):
        pass


async def test_limits_of_the_namespace_hold_for_topics_that_set_none(
    client: Client, hasty: Client
) -> None:
    await client.admin("namespace.create", {"namespace": "shop"})
    shop = {"namespace": "shop", "max_producers_per_topic": 1}
    assert (await client.admin("namespace.policy", shop))["max_producers_per_topic"] == 1
    for topic in ("/shop/a", "/shop/b"):
        await client.admin("topic.create", {"topic": topic})
    own = {"topic": "/shop/b", "max_producers_per_topic": 2}
    assert (await client.admin("topic.policy", own))["max_producers_per_topic"] == 2
    async with client.producer("/shop/a"), client.producer("/shop/b"):
        with pytest.raises(Overloaded):
            await hasty.producer("/shop/a").open()
        async with client.producer("/shop/b"):
            pass
    back = await client.admin("topic.policy", {**own, "max_producers_per_topic": None})
    assert back["max_producers_per_topic"] == 1


async def test_partitions_go_by_the_limits_of_their_topic(client: Client, hasty: Client) -> None:
    await client.admin("topic.create", {"topic": TOPIC, "partitions": 2})
    await limit(client, max_producers_per_topic=1)
    async with client.producer(TOPIC):
        with pytest.raises(Overloaded):
            await hasty.producer(f"{TOPIC}-part-0").open()
    arguments = {"topic": f"{TOPIC}-part-0", "max_producers_per_topic": 5}
    with pytest.raises(Refused, match="uses the policy of /default/limited: set it there"):
        await client.admin("topic.policy", arguments)


CHANGES = {
    "max_producers_per_topic": 11,
    "max_subscriptions_per_topic": 12,
    "max_message_size": 13,
    "retention_ms": 14,
    "retention_bytes": 15,
    "delete_consumed": True,
}


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("namespace.policy", {"namespace": "default"}), ("topic.policy", {"topic": TOPIC})],
)
async def test_concurrent_changes_of_different_limits_all_survive(
    client: Client, method: str, arguments: dict[str, str]
) -> None:
    await client.admin("topic.create", {"topic": TOPIC})
    await asyncio.gather(
        *(client.admin(method, {**arguments, name: value}) for name, value in CHANGES.items())
    )
    found = await client.admin(method, arguments)
    assert {name: found[name] for name in CHANGES} == CHANGES


async def test_concurrent_changes_of_a_failure_policy_all_survive(client: Client) -> None:
    await subscribe(client, TOPIC, "s")
    arguments = {"topic": TOPIC, "subscription": "s"}
    changes = {"max_redelivery_count": 3, "ack_timeout_ms": 4_000, "poison": "drop"}
    await asyncio.gather(
        *(
            client.admin("subscription.policy", {**arguments, name: value})
            for name, value in changes.items()
        )
    )
    found = await client.admin("subscription.policy", arguments)
    assert {name: found[name] for name in changes} == changes


async def test_of_two_changes_the_newer_is_in_force_though_the_older_took_longer_to_apply(
    client: Client, hasty: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, may_apply = asyncio.Event(), asyncio.Event()
    effective_policy = topics.effective_policy

    async def slow_at_first(
        store: MetadataStore, name: TopicName, defaults: Policy | None = None
    ) -> Policy:
        policy = await effective_policy(store, name, defaults)
        if not reading.is_set():
            reading.set()
            await may_apply.wait()
        return policy

    async with client.producer(TOPIC):
        monkeypatch.setattr(topics, "effective_policy", slow_at_first)
        older = asyncio.create_task(limit(client, max_producers_per_topic=1))
        await reading.wait()
        newer = asyncio.create_task(limit(client, max_producers_per_topic=0))
        await asyncio.wait({newer}, timeout=0.5)
        may_apply.set()
        await asyncio.gather(older, newer)
        async with hasty.producer(TOPIC):
            pass


async def test_a_change_holds_at_once_for_who_comes_and_sends_nobody_away(
    client: Client,
    hasty: Client,
) -> None:
    async with client.producer(TOPIC) as first, client.producer(TOPIC) as second:
        await limit(client, max_producers_per_topic=1)
        await (await first.send(b"1"))
        await (await second.send(b"2"))
        with pytest.raises(Overloaded):
            await hasty.producer(TOPIC).open()
        await limit(client, max_producers_per_topic=0)
        await publish(client, TOPIC, [b"no limit"])


async def test_a_subscription_holds_back_beyond_its_limit_also_after_a_restart(
    cluster: Cluster, client: Client
) -> None:
    arguments = {"topic": TOPIC, "subscription": "s"}

    async def unacked_is(asking: Client, count: int) -> None:
        """Wait until this many were sent; each further one takes an acknowledgement."""

        async def found() -> bool:
            counters = (await look(asking, TOPIC, "s"))["counters"]
            sent = counters["delivered"] - counters["acknowledged"]
            assert sent <= count
            return bool(sent == count)

        await eventually(found)

    await subscribe(client, TOPIC, "s", type="shared")
    assert await client.admin("subscription.dispatch", arguments) == {"max_unacked": 0}
    await client.admin("subscription.dispatch", {**arguments, "max_unacked": 3})
    await publish(client, TOPIC, numbered(10))
    async with client.consumer(TOPIC, "s", type="shared") as consumer:
        await unacked_is(client, 3)
        await ack_all(consumer, await take(consumer, 2))
        await unacked_is(client, 3)
    await cluster.restart()
    async with cluster.client() as later, later.consumer(TOPIC, "s", type="shared") as consumer:
        assert (await look(later, TOPIC, "s"))["max_unacked"] == 3
        await unacked_is(later, 3)
        await later.admin("subscription.dispatch", {**arguments, "max_unacked": 0})
        rest = await take(consumer, 8)
        assert sorted(bodies(rest)) == numbered(10)[2:]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"max_producers_per_topic": -1}, "must be a whole number from 0 to .* not -1"),
        ({"max_producers_per_topic": "two"}, "must be a whole number from 0 to .* not 'two'"),
        ({"max_beer": 3}, "no argument 'max_beer': choose from .*max_producers_per_topic"),
    ],
)
async def test_limits_that_make_no_sense_are_refused(
    client: Client, limits: dict[str, object], why: str
) -> None:
    await client.admin("topic.create", {"topic": TOPIC})
    with pytest.raises(Refused, match=why):
        await client.admin("topic.policy", {"topic": TOPIC, **limits})
    with pytest.raises(Refused, match=why):
        await client.admin("namespace.policy", {"namespace": "default", **limits})
