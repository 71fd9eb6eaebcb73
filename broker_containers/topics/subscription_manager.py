"""Creates, restores, changes, moves and deletes the subscriptions of topics.

A subscription is stored in the metadata before consumers can use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from broker_containers.quotas.quotas import Quotas
from broker_containers.quotas.stored_counts import subscription_keys
from broker_containers.security.access import creator
from broker_containers.subscriptions.cursors import CursorWriter
from broker_containers.subscriptions.limits import SubscriptionLimits
from broker_containers.subscriptions.subscription import SendDeadLetter, Subscription
from broker_containers.topics.shielded_tasks import ShieldedTasks
from broker_containers.topics.topic import Topic
from sulina.errors import AlreadyExists, NotFound, Overloaded, Refused, Retriable
from sulina.metadata.keys import cursors, subscriptions
from sulina.metadata.keys.cursors import CursorRecord
from sulina.metadata.keys.subscriptions import SubscriptionRecord
from sulina.metadata.store import MetadataStore
from sulina.model import Delivery, FailurePolicy, Poison, Start, SubscriptionType
from sulina.names import TopicName
from sulina.runtime.seam import Clock


class SubscriptionManager:
    """One object per broker. Calls that change metadata continue if the caller is cancelled."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        limits: SubscriptionLimits,
        cursors: CursorWriter,
        shielded: ShieldedTasks,
        send_dead_letter: SendDeadLetter,
        quotas: Quotas,
    ) -> None:
        self._store = store
        self._clock = clock
        self._changing = asyncio.Lock()
        self.limits = limits
        """For subscriptions opened from now on; may be changed at any time."""
        self._cursors = cursors
        self._shielded = shielded
        self._send_dead_letter = send_dead_letter
        self._quotas = quotas

    async def restore(self, topic: Topic) -> None:
        """Open the stored subscriptions. Call it only after the topic's log is fenced.

        The previous owner may change them until then.
        """
        stored, places = await asyncio.gather(
            subscriptions.list_all(self._store, topic.name),
            cursors.list_all(self._store, topic.name),
        )
        for name, wanted in stored.items():
            self._add(topic, name, wanted, places.get(name, CursorRecord(topic.log.start)))

    async def subscribe(
        self,
        topic: Topic,
        name: str,
        type_: SubscriptionType,
        start: Start,
        policy: FailurePolicy | None,
    ) -> Subscription:
        """The subscription; a new one is stored durably with its start position.

        What was set for it in advance goes before ``policy``. A subscription without consumers
        changes to ``type_``. Raises ``Refused`` if it has another type and consumers.
        """
        return await self._shielded.run(self._subscribe(topic, name, type_, start, policy))

    async def _subscribe(
        self,
        topic: Topic,
        name: str,
        type_: SubscriptionType,
        start: Start,
        policy: FailurePolicy | None,
    ) -> Subscription:
        found = topic.subscriptions.get(name)
        if found is None:
            found = await self._create(topic, name, type_, start, policy)
        if found.type is not type_:
            if found.consumers:
                raise Refused(
                    f"the subscription {name!r} of {topic.name} is {found.type}, not "
                    f"{type_}: close its consumers first, or use another subscription"
                )
            found = await self._change_type(topic, found, type_)
        return found

    async def _create(
        self,
        topic: Topic,
        name: str,
        type_: SubscriptionType,
        start: Start,
        policy: FailurePolicy | None,
    ) -> Subscription:
        limit = topic.policy.max_subscriptions_per_topic
        if limit and len(topic.subscriptions) >= limit:
            raise Overloaded(f"{topic.name} has {limit} subscriptions, its policy's limit")
        policy = _checked(policy or FailurePolicy())
        who, keys = creator(), subscription_keys(topic.name, name)
        wanted = SubscriptionRecord(type_, self._clock.wall_us(), policy, created_by=who)
        place = CursorRecord(await topic.resolve(start))
        try:
            with self._quotas.creating(topic.name.namespace, keys, who):
                wanted = await subscriptions.create(self._store, topic.name, name, wanted, place)
        except AlreadyExists:
            if name not in topic.subscriptions:
                # Created a moment ago, here for another consumer or by the previous owner.
                found = await subscriptions.get(self._store, topic.name, name)
                at = await cursors.get(self._store, topic.name, name)
                if found is None or at is None:
                    raise Retriable(f"{name!r} is being deleted: try again") from None
                wanted, place = found, at
        if name not in topic.subscriptions:
            self._add(topic, name, wanted, place)
        return topic.subscriptions[name]

    def _add(
        self, topic: Topic, name: str, wanted: SubscriptionRecord, place: CursorRecord
    ) -> Subscription:
        subscription = Subscription(
            topic, name, wanted, place, self.limits, self._clock, self._send_dead_letter
        )
        topic.subscriptions[name] = subscription
        return subscription

    async def _change_type(
        self, topic: Topic, subscription: Subscription, type_: SubscriptionType
    ) -> Subscription:
        changed = await subscriptions.change(
            self._store, topic.name, subscription.name, lambda record: replace(record, type=type_)
        )
        place = subscription.cursor(self._clock.wall_us())
        await subscription.close(Retriable("the subscription changes its type"))
        successor = self._add(topic, subscription.name, changed, place)
        successor.dirty = True  # recent acknowledgements may not be stored yet
        return successor

    async def failure_policy(self, topic: Topic, name: str) -> FailurePolicy:
        """The failure policy in force, or the one set in advance. Raises ``NotFound``."""
        found = topic.subscriptions.get(name)
        if found is not None:
            return found.failure_policy
        return (await subscriptions.get_in_advance(self._store, topic.name, name)).failure

    async def update_failure_policy(
        self, topic: Topic, name: str, changes: Mapping[str, Any], *, in_advance: bool = False
    ) -> FailurePolicy:
        """Change fields of a subscription's failure policy; applies to records that fail later.

        ``in_advance``: if it does not exist, it will be created with this policy.
        """

        def alter(current: FailurePolicy) -> FailurePolicy:
            return _checked(replace(current, **changes))

        if in_advance and await self._set_in_advance(
            topic, name, lambda now: replace(now, failure=alter(now.failure))
        ):
            return await self.failure_policy(topic, name)
        subscription = topic.subscription(name)
        async with self._changing:  # one at a time, so that the newest is applied last
            policy = await subscriptions.update_failure_policy(self._store, topic.name, name, alter)
            subscription.failure_policy = policy
        return policy

    async def max_unacked(self, topic: Topic, name: str) -> int:
        """The maximum number of unacknowledged records, or the one set in advance; 0 is none.

        Raises ``NotFound``.
        """
        found = topic.subscriptions.get(name)
        if found is not None:
            return found.max_unacked
        return (await subscriptions.get_in_advance(self._store, topic.name, name)).max_unacked

    async def set_max_unacked(
        self, topic: Topic, name: str, wanted: int, *, in_advance: bool = False
    ) -> None:
        """Change the maximum number of unacknowledged records; records already in flight stay.

        ``in_advance``: if the subscription does not exist, it will be created with this maximum.
        """
        if topic.delivery is not Delivery.RELIABLE:
            raise Refused(f"{topic.name} is not reliable: its records are not acknowledged")
        checked = subscriptions.check_max_unacked(wanted)
        if in_advance and await self._set_in_advance(
            topic, name, lambda now: replace(now, max_unacked=checked)
        ):
            return
        topic.subscription(name)  # raises if it does not exist
        await subscriptions.set_max_unacked(self._store, topic.name, name, wanted)
        found = topic.subscriptions.get(name)  # may be another object if its type changed
        if found is not None:
            found.max_unacked = wanted

    async def _set_in_advance(
        self,
        topic: Topic,
        name: str,
        alter: Callable[[SubscriptionRecord], SubscriptionRecord],
    ) -> bool:
        """Change what a subscription will be created with; False if it exists."""
        if name in topic.subscriptions:
            return False
        try:
            await subscriptions.change_in_advance(self._store, topic.name, name, alter)
        except AlreadyExists:
            if name not in topic.subscriptions:
                raise Retriable(f"{name!r} is just being created: try again") from None
            return False
        return True

    async def unsubscribe(self, topic: Topic, name: str) -> None:
        """Delete a subscription and its cursor; its consumers are disconnected.

        Of one that does not exist, what was set in advance is deleted. Raises ``NotFound``.
        """
        if name not in topic.subscriptions and await subscriptions.forget_in_advance(
            self._store, topic.name, name
        ):
            return
        await self._shielded.run(self._unsubscribe(topic, topic.subscription(name)))

    async def _unsubscribe(self, topic: Topic, subscription: Subscription) -> None:
        name = subscription.name
        del topic.subscriptions[name]
        await subscription.close(NotFound(f"the subscription {name!r} was deleted"))
        await subscriptions.delete(self._store, topic.name, name)

    async def seek(self, topic: Topic, subscription: Subscription, start: Start) -> None:
        """Move a subscription; durable when this returns. Call its ``resume`` afterwards.

        After an error it resumes by itself, at the new or the old position.
        """
        subscription.seek(await topic.resolve(start))
        try:
            await self._cursors.flush([subscription])
        except BaseException:
            subscription.resume()  # also if the caller is cancelled: it has other consumers
            raise


def _checked(policy: FailurePolicy) -> FailurePolicy:
    """``policy``; raises ``Refused`` if its dead-letter topic is not a topic name."""
    if policy.poison is Poison.DEAD_LETTER:
        TopicName.parse(policy.dead_letter_topic)
    return policy
