"""Handlers of the operations on subscriptions; the topic's owner runs them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Unpack

from broker_containers.broker.broker import Broker
from broker_containers.operations.running import handles
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topics.topic import Topic
from sulina.errors import Refused
from sulina.model import FailurePolicy, Start, SubscriptionType
from sulina.names import TopicName
from sulina.operations.subscriptions import (
    ConsumerRow,
    DispatchLimit,
    FailureChanges,
    SubscriptionDetails,
    SubscriptionOperations,
    SubscriptionRow,
)

_LATEST = Start.latest()
_MOST_RANGES = 100


class SubscriptionHandlers:
    """The subscriptions of topics that this broker owns."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def _topic(self, topic: str) -> Topic:
        return await self._broker.topic(TopicName.parse(topic), create=False)

    @handles(SubscriptionOperations.create)
    async def create(
        self,
        topic: str,
        subscription: str,
        *,
        type: SubscriptionType = SubscriptionType.EXCLUSIVE,
        start: Start = _LATEST,
    ) -> SubscriptionRow:
        found = await self._topic(topic)
        if subscription in found.subscriptions:
            raise Refused(f"the subscription {subscription!r} of {found.name} already exists")
        return subscription_row(
            await self._broker.subscriptions.subscribe(found, subscription, type, start, None)
        )

    @handles(SubscriptionOperations.list)
    async def list(self, topic: str) -> tuple[SubscriptionRow, ...]:
        return tuple(map(subscription_row, (await self._topic(topic)).subscriptions.values()))

    @handles(SubscriptionOperations.describe)
    async def describe(self, topic: str, subscription: str) -> SubscriptionDetails:
        found = (await self._topic(topic)).subscription(subscription)
        return SubscriptionDetails(
            topic=str(found.source.name),
            subscription=found.name,
            type=found.type,
            position=found.position,
            backlog=found.backlog,
            delayed_frames=found.delayed_frames,
            stalled=found.stalled,
            failure_policy=found.failure_policy,
            max_unacked=found.max_unacked,
            acked_above=tuple(map(tuple, found.cursor(0).acked[:_MOST_RANGES])),
            counters=asdict(found.counters),
            consumers=tuple(
                ConsumerRow(
                    name=each.name,
                    active=found.is_active(each),
                    credit_records=each.records,
                    credit_bytes=each.bytes,
                    sent=each.sent,
                    in_flight=found.in_flight(each),
                    address=getattr(each.sink, "address", ""),  # not every door knows it
                )
                for each in found.consumers
            ),
        )

    @handles(SubscriptionOperations.delete)
    async def delete(self, topic: str, subscription: str) -> None:
        await self._broker.subscriptions.unsubscribe(await self._topic(topic), subscription)

    @handles(SubscriptionOperations.seek)
    async def seek(self, topic: str, subscription: str, start: Start) -> SubscriptionRow:
        source = await self._topic(topic)
        found = source.subscription(subscription)
        if found.consumers:
            raise Refused(f"{found.name!r} has consumers: close them before moving it")
        await self._broker.subscriptions.seek(source, found, start)
        found.resume()
        return subscription_row(found)

    @handles(SubscriptionOperations.policy)
    async def policy(
        self,
        topic: str,
        subscription: str,
        *,
        in_advance: bool = False,
        **changes: Unpack[FailureChanges],
    ) -> FailurePolicy:
        source, manager = await self._topic(topic), self._broker.subscriptions
        if not changes:
            return await manager.failure_policy(source, subscription)
        return await manager.update_failure_policy(
            source, subscription, changes, in_advance=in_advance
        )

    @handles(SubscriptionOperations.dispatch)
    async def dispatch(
        self,
        topic: str,
        subscription: str,
        *,
        max_unacked: int | None = None,
        in_advance: bool = False,
    ) -> DispatchLimit:
        source, manager = await self._topic(topic), self._broker.subscriptions
        if max_unacked is not None:
            await manager.set_max_unacked(source, subscription, max_unacked, in_advance=in_advance)
        return DispatchLimit(await manager.max_unacked(source, subscription))


def subscription_row(found: Subscription) -> SubscriptionRow:
    """A subscription as lists show it."""
    return SubscriptionRow(
        topic=str(found.source.name),
        subscription=found.name,
        type=found.type,
        position=found.position,
        backlog=found.backlog,
        delayed_frames=found.delayed_frames,
        consumers=len(found.consumers),
        stalled=found.stalled,
    )
