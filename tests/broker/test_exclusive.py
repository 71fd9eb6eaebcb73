"""Exclusive and Failover subscriptions: one consumer receives, in order; then the next one does."""

from __future__ import annotations

import pytest

from sulina import Client, Refused, SubscriptionType
from tests.broker.actions import (
    ack_all,
    bodies,
    consumers,
    eventually,
    look,
    numbered,
    publish,
    subscribe,
    take,
)
from tests.broker.cluster import Cluster
from tests.broker.proxy import Proxy

TOPIC = "/default/exclusive"


async def test_a_second_consumer_is_refused_and_told_who_has_the_subscription(
    client: Client,
) -> None:
    async with client.consumer(TOPIC, "s", name="first"):
        with pytest.raises(Refused, match="exclusive and 'first' uses it: wait until it leaves"):
            await client.consumer(TOPIC, "s", name="second").open()


async def test_a_consumer_of_the_same_name_takes_over_and_the_first_is_told(
    cluster: Cluster, client: Client
) -> None:
    async with cluster.client() as elsewhere:
        before = await elsewhere.consumer(TOPIC, "s", name="worker").open()
        await publish(client, TOPIC, numbered(4))
        await take(before, 2)
        async with client.consumer(TOPIC, "s", name="worker") as after:
            assert bodies(await take(after, 4)) == numbered(4)
            await take(before, 2)  # what it had received already
            with pytest.raises(Refused, match="another consumer named 'worker' took over"):
                await before.receive(10)


async def test_the_type_may_change_while_nobody_uses_the_subscription(client: Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(6))
        await ack_all(consumer, (await take(consumer, 6))[:2])
    async with client.consumer(TOPIC, "s", type="shared") as consumer:
        assert (await look(client, TOPIC, "s"))["type"] == SubscriptionType.SHARED
        assert bodies(await take(consumer, 4)) == numbered(4, first=2)


async def test_the_type_may_not_change_under_a_consumer(client: Client) -> None:
    async with client.consumer(TOPIC, "s"):
        with pytest.raises(Refused, match="is exclusive, not shared: close its consumers first"):
            await client.consumer(TOPIC, "s", type="shared").open()


async def test_a_changed_type_and_what_was_acknowledged_before_survive_a_restart(
    cluster: Cluster, client: Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(6))
        await ack_all(consumer, (await take(consumer, 6))[:3])
    await subscribe(client, TOPIC, "s", type="shared")
    await cluster.restart()
    async with cluster.client() as later:
        assert (await look(later, TOPIC, "s"))["type"] == SubscriptionType.SHARED
        async with later.consumer(TOPIC, "s", type="shared") as consumer:
            assert bodies(await take(consumer, 3)) == numbered(3, first=3)


async def test_only_the_consumer_that_came_first_receives(client: Client) -> None:
    async with consumers(client, TOPIC, "s", 3, type="failover") as (first, second, third):
        assert (first.active, second.active, third.active) == (True, False, False)
        await publish(client, TOPIC, numbered(50))
        assert bodies(await take(first, 50)) == numbered(50)
        found = await look(client, TOPIC, "s")
        assert [each["sent"] for each in found["consumers"]] == [50, 0, 0]
        assert [each["active"] for each in found["consumers"]] == [True, False, False]


async def test_a_standby_takes_over_when_the_active_connection_is_lost(
    client: Client, remote: Client, proxy: Proxy
) -> None:
    first = await remote.consumer(TOPIC, "s", type="failover").open()
    async with client.consumer(TOPIC, "s", type="failover") as second:
        await publish(client, TOPIC, numbered(10))
        await take(first, 10)
        proxy.cut_and_refuse()
        assert bodies(await take(second, 10)) == numbered(10)
        assert second.active
        proxy.allow()

        async def first_is_back() -> bool:
            return len((await look(client, TOPIC, "s"))["consumers"]) == 2

        await eventually(first_is_back)
        assert second.active
        assert not first.active, "who comes back stands by"


async def test_each_partition_has_its_active_consumer(client: Client) -> None:
    await client.admin("topic.create", {"topic": TOPIC, "partitions": 2})
    async with consumers(client, TOPIC, "s", 2, type="failover") as (first, second):
        await publish(client, TOPIC, numbered(20))
        assert sorted(bodies(await take(first, 20))) == sorted(numbered(20))
        await first.close()
        await publish(client, TOPIC, numbered(20, first=20))
        messages = await take(second, 40)
        assert sorted(set(map(int, bodies(messages)))) == list(range(40))
        for part in (0, 1):
            mine = [int(each.payload) for each in messages if each.partition == part]
            assert mine == sorted(mine)
