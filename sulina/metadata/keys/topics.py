"""Topics: ``/topics/{namespace}/{topic}/topic`` is a topic's record; a topic exists while it does.

A partitioned topic has a record, and so has each of its partitions, which names the topic.
``topic_lifecycle`` creates and deletes topics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from sulina.errors import NotFound, Refused
from sulina.metadata.keys import namespaces, record
from sulina.metadata.keys.path import name_of, topic_root, topics_root
from sulina.metadata.keys.policy import Policy, PolicyOverrides
from sulina.metadata.store import MetadataStore, Present
from sulina.model import Delivery
from sulina.names import MAX_PARTITIONS, TopicName


class TopicState(StrEnum):
    """Whether a topic can be used."""

    CREATING = "creating"
    READY = "ready"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """The properties of a topic."""

    delivery: Delivery = Delivery.RELIABLE
    partitions: int = 0
    """The number of partitions; 0 if it is not partitioned."""
    partition_of: str = ""
    """The topic that this is a partition of, or ""."""
    created_us: int = 0
    policy: PolicyOverrides = field(default_factory=PolicyOverrides)
    """The limits that it sets for itself. A partition uses those of its topic."""
    state: TopicState = TopicState.READY
    expected_records: int = 0
    """Expected records per second, in and out; a hint for placement."""
    expected_bytes: int = 0
    """Expected bytes per second, in and out."""
    created_by: str | None = None
    """The principal in whose quota it counts; None for nobody, and in older records."""

    def __post_init__(self) -> None:
        if not 0 <= self.partitions <= MAX_PARTITIONS:
            raise Refused(f"a topic has 0 to {MAX_PARTITIONS} partitions, not {self.partitions}")


def key(topic: TopicName) -> str:
    return topic_root(topic) + "topic"


def exists(topic: TopicName) -> Present:
    """The condition that a topic exists: a guard for everything stored below it."""
    return Present(key(topic))


async def get(store: MetadataStore, topic: TopicName) -> TopicRecord | None:
    """A topic's record, in any state, or None."""
    return await record.get(store, TopicRecord, key(topic))


async def list_all(store: MetadataStore, namespace: str) -> dict[TopicName, TopicRecord]:
    """The topics of a namespace, including partitions, in the order of their keys."""
    root = topics_root(namespace)
    found: dict[TopicName, TopicRecord] = {}
    for item in (await store.range(root)).items:
        name, _, leaf = item.key.removeprefix(root).partition("/")
        if leaf == "topic":
            found[TopicName(namespace, name_of(name))] = record.decode(TopicRecord, item)
    return found


async def update_policy(
    store: MetadataStore, topic: TopicName, changes: Mapping[str, Any]
) -> PolicyOverrides:
    """Set the limits in ``changes`` for one topic and keep its others; None removes an override.

    Returns everything that the topic now sets for itself. Durable when it returns. Concurrent
    updates of different limits all take effect. Raises ``NotFound``; ``Refused`` for invalid
    limits, for a partition, and while the topic is being created or deleted; ``Overloaded`` if
    others keep changing the topic at the same time.
    """

    def change(current: TopicRecord | None) -> TopicRecord:
        if current is None:
            raise missing(topic)
        if current.partition_of:
            raise Refused(
                f"{topic} is a partition and uses the policy of {current.partition_of}: "
                "set it there"
            )
        if current.state is not TopicState.READY:
            raise Refused(
                f"{topic} is not ready: finish its creation or deletion first, by repeating it"
            )
        return replace(current, policy=current.policy.with_changes(changes))

    return (await record.update(store, TopicRecord, key(topic), change)).policy


async def effective_policy(
    store: MetadataStore, topic: TopicName, defaults: Policy | None = None
) -> Policy:
    """The limits in force for a topic: its own over its namespace's over the brokers' settings.

    Raises ``NotFound`` if the topic or its namespace does not exist.
    """
    own, general = await overrides(store, topic)
    return own.over(general.over(defaults or Policy()))


async def overrides(
    store: MetadataStore, topic: TopicName
) -> tuple[PolicyOverrides, PolicyOverrides]:
    """What a topic sets itself, and what its namespace does. Raises ``NotFound``."""
    found = await get(store, topic)
    if found is not None and found.partition_of:
        found = await get(store, TopicName.parse(found.partition_of))
    if found is None:
        raise missing(topic)
    return found.policy, await namespaces.get_overrides(store, topic.namespace)


def missing(topic: TopicName) -> NotFound:
    """The error for a topic that does not exist."""
    return NotFound(f"there is no topic {topic}: create it first")
