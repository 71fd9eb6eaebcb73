"""Subscriptions: ``/topics/{namespace}/{topic}/subscriptions/{subscription}``.

A subscription is created and deleted together with its cursor, so its position is always known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from sulina.errors import AlreadyExists, NotFound, Refused
from sulina.metadata.keys import cursors, record
from sulina.metadata.keys.cursors import CursorRecord
from sulina.metadata.keys.path import part, topic_root
from sulina.metadata.keys.topics import exists, missing
from sulina.metadata.store import Absent, Delete, Get, MetadataStore, Put
from sulina.model import FailurePolicy, SubscriptionType
from sulina.names import TopicName, check_label


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """The properties of a subscription."""

    type: SubscriptionType = SubscriptionType.EXCLUSIVE
    created_us: int = 0
    failure: FailurePolicy = field(default_factory=FailurePolicy)
    max_unacked: int = 0
    """Maximum unacknowledged records of all its consumers together; 0 means no limit."""


MAX_UNACKED: Final = 1 << 20
"""The largest permitted value of ``max_unacked``."""


def root(topic: TopicName) -> str:
    return topic_root(topic) + "subscriptions/"


def key(topic: TopicName, subscription: str) -> str:
    return root(topic) + part(subscription)


async def create(
    store: MetadataStore,
    topic: TopicName,
    subscription: str,
    wanted: SubscriptionRecord,
    start: CursorRecord,
) -> None:
    """Create a subscription at ``start``. Raises ``AlreadyExists`` or ``NotFound``."""
    check_label("subscription", subscription)
    name = key(topic, subscription)
    result = await store.txn(
        [exists(topic), Absent(name)],
        [
            Put(name, record.encode(wanted)),
            Put(cursors.key(topic, subscription), record.encode(start)),
        ],
        [Get(name)],
    )
    if not result.succeeded:
        if result.responses[0].item is None:
            raise missing(topic)
        raise AlreadyExists(f"the subscription {subscription!r} of {topic} already exists")


async def get(
    store: MetadataStore, topic: TopicName, subscription: str
) -> SubscriptionRecord | None:
    """A subscription's record, or None."""
    return await record.get(store, SubscriptionRecord, key(topic, subscription))


async def list_all(store: MetadataStore, topic: TopicName) -> dict[str, SubscriptionRecord]:
    """A topic's subscriptions by name, in the order of their keys."""
    listing = await store.range(root(topic))
    return record.by_name(SubscriptionRecord, root(topic), listing.items)


async def change(
    store: MetadataStore,
    topic: TopicName,
    subscription: str,
    alter: Callable[[SubscriptionRecord], SubscriptionRecord],
) -> SubscriptionRecord:
    """Replace the record by ``alter(record)``, which may run several times; returns it.

    Raises ``NotFound`` if there is no such subscription.
    """

    def change(current: SubscriptionRecord | None) -> SubscriptionRecord:
        if current is None:
            raise NotFound(f"there is no subscription {subscription!r} of {topic}: create it first")
        return alter(current)

    return await record.update(store, SubscriptionRecord, key(topic, subscription), change)


async def update_failure_policy(
    store: MetadataStore,
    topic: TopicName,
    subscription: str,
    alter: Callable[[FailurePolicy], FailurePolicy],
) -> FailurePolicy:
    """Replace a subscription's failure policy by ``alter(policy)``; returns it.

    ``alter`` may run several times, each time on what is stored. Raises ``NotFound``.
    """
    changed = await change(
        store, topic, subscription, lambda current: replace(current, failure=alter(current.failure))
    )
    return changed.failure


def check_max_unacked(wanted: int) -> int:
    """Return ``wanted`` if it is a valid limit; otherwise raise ``Refused``."""
    if not 0 <= wanted <= MAX_UNACKED:
        raise Refused(f"max_unacked must be between 0 and {MAX_UNACKED}, not {wanted}")
    return wanted


async def set_max_unacked(
    store: MetadataStore, topic: TopicName, subscription: str, wanted: int
) -> None:
    """Change the maximum of unacknowledged records. Raises ``NotFound`` and ``Refused``."""
    checked = check_max_unacked(wanted)
    await change(store, topic, subscription, lambda now: replace(now, max_unacked=checked))


async def delete(store: MetadataStore, topic: TopicName, subscription: str) -> bool:
    """Delete a subscription with its cursor; returns whether it existed."""
    result = await store.txn(
        (), [Delete(key(topic, subscription)), Delete(cursors.key(topic, subscription))]
    )
    return result.responses[0].deleted > 0
