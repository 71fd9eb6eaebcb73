"""Subscriptions: ``/topics/{namespace}/{topic}/subscriptions/{subscription}``.

A subscription is created and deleted together with its cursor, so its position is always known.
What is set in advance of a subscription, before it exists, is at
``/state/{namespace}/{topic}/in_advance/{subscription}``; its creation takes it from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from sulina.errors import AlreadyExists, NotFound, Overloaded, Refused
from sulina.metadata import cas
from sulina.metadata.keys import cursors, record, topics
from sulina.metadata.keys.cursors import CursorRecord
from sulina.metadata.keys.path import part, state_root, topic_root
from sulina.metadata.keys.topics import exists, missing
from sulina.metadata.store import Absent, Delete, Get, MetadataStore, ModRevisionIs, Put
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
    created_by: str | None = None
    """The principal in whose quota it counts; None for nobody, and in older records."""


MAX_UNACKED: Final = 1 << 20
"""The largest permitted value of ``max_unacked``."""
MAX_IN_ADVANCE: Final = 100
"""For how many subscriptions of a topic something may be set in advance."""


def root(topic: TopicName) -> str:
    return topic_root(topic) + "subscriptions/"


def key(topic: TopicName, subscription: str) -> str:
    return root(topic) + part(subscription)


def _in_advance_root(topic: TopicName) -> str:
    return state_root(topic) + "in_advance/"


def _in_advance_key(topic: TopicName, subscription: str) -> str:
    return _in_advance_root(topic) + part(subscription)


async def create(
    store: MetadataStore,
    topic: TopicName,
    subscription: str,
    wanted: SubscriptionRecord,
    start: CursorRecord,
) -> SubscriptionRecord:
    """Create a subscription at ``start``; returns it, with what was set in advance.

    Raises ``AlreadyExists`` or ``NotFound``.
    """
    check_label("subscription", subscription)
    name, before = key(topic, subscription), _in_advance_key(topic, subscription)
    for _ in range(cas.DEFAULT_TRIES):
        item, made = await store.get(before), wanted
        if item is not None:
            found = record.decode(SubscriptionRecord, item)
            made = replace(wanted, failure=found.failure, max_unacked=found.max_unacked)
        result = await store.txn(
            [
                exists(topic),
                Absent(name),
                ModRevisionIs(before, 0 if item is None else item.mod_revision),
            ],
            [
                Put(name, record.encode(made)),
                Put(cursors.key(topic, subscription), record.encode(start)),
                Delete(before),
            ],
            [Get(name), Get(topics.key(topic))],
        )
        if result.succeeded:
            return made
        if result.responses[1].item is None:
            raise missing(topic)
        if result.responses[0].item is not None:
            raise AlreadyExists(f"the subscription {subscription!r} of {topic} already exists")
    raise _contended(topic, subscription)


def _contended(topic: TopicName, subscription: str) -> Overloaded:
    return Overloaded(f"{subscription!r} of {topic} is changed all the time: try again later")


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


async def get_in_advance(
    store: MetadataStore, topic: TopicName, subscription: str
) -> SubscriptionRecord:
    """What is set for a subscription that does not exist yet. Raises ``NotFound`` if nothing is."""
    found = await record.get(store, SubscriptionRecord, _in_advance_key(topic, subscription))
    if found is None:
        raise NotFound(f"{topic} has no subscription {subscription!r}, and nothing is set for it")
    return found


async def change_in_advance(
    store: MetadataStore,
    topic: TopicName,
    subscription: str,
    alter: Callable[[SubscriptionRecord], SubscriptionRecord],
) -> SubscriptionRecord:
    """Change what a subscription will be created with; ``alter`` may run several times.

    Durable when it returns. Raises ``AlreadyExists`` if the subscription exists, ``NotFound``
    without its topic, and ``Refused`` if too many others have something set in advance.
    """
    name = _in_advance_key(topic, check_label("subscription", subscription))
    for _ in range(cas.DEFAULT_TRIES):
        item = await store.get(name)
        revision = 0 if item is None else item.mod_revision
        if item is None:
            others = await store.range(
                _in_advance_root(topic), limit=MAX_IN_ADVANCE, keys_only=True
            )
            if len(others.items) == MAX_IN_ADVANCE:
                raise Refused(
                    f"{topic} has settings for {MAX_IN_ADVANCE} subscriptions that do not exist: "
                    "create them, or delete them although they do not exist"
                )
            current = SubscriptionRecord()
        else:
            current = record.decode(SubscriptionRecord, item)
        changed = alter(current)
        guards = exists(topic), Absent(key(topic, subscription))
        if await cas.swap(store, name, revision, record.encode(changed), guards=guards) is not None:
            return changed
        if await topics.get(store, topic) is None:
            raise missing(topic)
        if await get(store, topic, subscription) is not None:
            raise AlreadyExists(f"the subscription {subscription!r} of {topic} exists now")
    raise _contended(topic, subscription)


async def forget_in_advance(store: MetadataStore, topic: TopicName, subscription: str) -> bool:
    """Forget what is set for a subscription that does not exist; returns whether anything was."""
    result = await store.txn((), [Delete(_in_advance_key(topic, subscription))])
    return result.responses[0].deleted > 0


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
