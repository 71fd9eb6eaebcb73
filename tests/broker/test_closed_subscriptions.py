"""A consumer that joins while its subscription closes gets a retriable error."""

from __future__ import annotations

from typing import Any

import pytest

from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topics.topic import Topic
from sulina import Client
from sulina.errors import Retriable
from sulina.model import Start, SubscriptionType
from sulina.names import TopicName
from sulina.runtime.seam import Buffer
from tests.broker.actions import bodies, numbered, publish, take
from tests.broker.cluster import Cluster

TOPIC = "/default/closing"


class Nobody:
    """A consumer's end that takes nothing."""

    def deliver(self, frame: Buffer, selection: int | None, attempt: int) -> bool:
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
