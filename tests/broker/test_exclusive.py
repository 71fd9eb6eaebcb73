"""Exclusive subscriptions: one consumer, in order, and room for the next when it leaves."""

from __future__ import annotations

import pytest

from sulina import Client, Refused, SubscriptionType
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

TOPIC = "/default/exclusive"


async def test_a_second_consumer_is_refused_and_told_who_has_the_subscription(
    client: Client,
) -> None:
    async with client.consumer(TOPIC, "s", name="first"):
        with pytest.raises(Refused, match="exclusive and 'first' uses it: wait until it leaves"):
            await client.consumer(TOPIC, "s", name="second").open()


async def test_the_refused_consumer_does_not_disturb_the_one_that_is_there(
    client: Client,
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        await publish(client, TOPIC, numbered(5))
        with pytest.raises(Refused):
            await client.consumer(TOPIC, "s").open()
        await publish(client, TOPIC, numbered(5, first=5))
        assert bodies(await take(consumer, 10)) == numbered(10)


async def test_the_next_consumer_goes_on_where_the_one_before_stopped(client: Client) -> None:
    async with client.consumer(TOPIC, "s", name="first") as consumer:
        await publish(client, TOPIC, numbered(10))
        await ack_all(consumer, (await take(consumer, 10))[:4])
    async with client.consumer(TOPIC, "s", name="second") as consumer:
        assert bodies(await take(consumer, 6)) == numbered(6, first=4)


async def test_the_place_is_free_again_when_a_connection_is_lost(
    client: Client, remote: Client, proxy: Proxy
) -> None:
    await remote.consumer(TOPIC, "s", name="first").open()
    proxy.cut_and_refuse()

    async def nobody_is_there() -> bool:
        return not (await look(client, TOPIC, "s"))["consumers"]

    await eventually(nobody_is_there)
    async with client.consumer(TOPIC, "s", name="second") as consumer:
        await publish(client, TOPIC, numbered(3))
        assert bodies(await take(consumer, 3)) == numbered(3)


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
