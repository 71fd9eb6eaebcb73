"""Which broker owns which topic.

* ``/cluster/owners/{namespace}/{topic}``: a topic's owner and its epoch. One key per topic, changed
  only by compare-and-swap: this is authoritative.
* ``/cluster/brokers/{broker}/{namespace}/{topic}``: the same by broker, written in the same
  transaction, so that each broker sees its topics under its own path.
* ``/cluster/unassigned/{namespace}/{topic}``: a topic that needs an owner.

Ownership is only a hint: whoever opens a topic's log fences the previous writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sulina.errors import Overloaded
from sulina.metadata import cas
from sulina.metadata.keys import record, topics
from sulina.metadata.keys.members import BROKERS
from sulina.metadata.keys.path import name_of, part
from sulina.metadata.store import (
    Absent,
    Compare,
    Delete,
    Get,
    KeyValue,
    MetadataStore,
    ModRevisionIs,
    Op,
    Put,
)
from sulina.names import TopicName

OWNERS = "/cluster/owners/"
UNASSIGNED = "/cluster/unassigned/"


@dataclass(frozen=True, slots=True)
class Owner:
    """A topic's owner. During a move, ``to`` names the broker that gets it next."""

    broker: str
    epoch: int
    to: str = ""
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class UnassignedTopic:
    """A topic that needs an owner."""

    since_us: int = 0
    not_at: str = ""
    """A broker that must not get it, because it was unloaded there."""


@dataclass(frozen=True, slots=True)
class _Entry:
    epoch: int


@dataclass(frozen=True, slots=True)
class Change:
    """A change of owner, replacing the one read at ``revision`` (0: it had none)."""

    topic: TopicName
    before: Owner | None
    revision: int
    after: Owner


def path_of(topic: TopicName) -> str:
    """A topic as the last parts of a key."""
    return f"{part(topic.namespace)}/{part(topic.local)}"


def topic_of(rest: str) -> TopicName:
    """The inverse of ``path_of``."""
    namespace, _, local = rest.partition("/")
    return TopicName(name_of(namespace), name_of(local))


def owner_key(topic: TopicName) -> str:
    return OWNERS + path_of(topic)


def broker_key(broker: str, topic: TopicName) -> str:
    return f"{BROKERS}{part(broker)}/{path_of(topic)}"


def unassigned_key(topic: TopicName) -> str:
    return UNASSIGNED + path_of(topic)


def decode_owner(item: KeyValue) -> Owner:
    return record.decode(Owner, item)


def decode_unassigned(item: KeyValue) -> UnassignedTopic:
    return record.decode(UnassignedTopic, item)


OPS_PER_CHANGE = 3
"""The maximum number of operations per topic in ``change_all``."""


async def change_all(
    store: MetadataStore, guards: Sequence[Compare], changes: Sequence[Change]
) -> int | None:
    """Change the owners of topics, all or none; returns the revision.

    None if a guard does not hold, a topic was deleted, or an owner changed since it was read. After
    ``UnknownOutcome``, read again before deciding anything.
    """
    compares = list(guards)
    ops: list[Op] = []
    for change in changes:
        compares.append(topics.exists(change.topic))
        compares.append(ModRevisionIs(owner_key(change.topic), change.revision))
        ops.append(Put(owner_key(change.topic), record.encode(change.after)))
        if change.before is None:  # a topic with an owner is never unassigned
            ops.append(Delete(unassigned_key(change.topic)))
        mine = broker_key(change.after.broker, change.topic)
        ops.append(Put(mine, record.encode(_Entry(change.after.epoch))))
        if change.before is not None and change.before.broker != change.after.broker:
            ops.append(Delete(broker_key(change.before.broker, change.topic)))
    result = await store.txn(compares, ops)
    return result.revision if result.succeeded else None


async def mark_move(
    store: MetadataStore, guards: Sequence[Compare], topic: TopicName, revision: int, marked: Owner
) -> int | None:
    """Record the next owner in the owner's record; the owner completes the move."""
    result = await store.txn(
        [*guards, ModRevisionIs(owner_key(topic), revision)],
        [Put(owner_key(topic), record.encode(marked))],
    )
    return result.revision if result.succeeded else None


async def request_owner(store: MetadataStore, topic: TopicName, wanted: UnassignedTopic) -> bool:
    """Record that a topic needs an owner, unless it has one; False if it does not exist."""
    result = await store.txn(
        [topics.exists(topic), Absent(owner_key(topic))],
        [Put(unassigned_key(topic), record.encode(wanted))],
        [Get(topics.key(topic))],
    )
    return result.succeeded or result.responses[0].item is not None


async def forget(store: MetadataStore, topic: TopicName) -> None:
    """Remove the owner of a deleted topic. Raises ``Overloaded`` after too many lost races."""
    for _ in range(cas.DEFAULT_TRIES):
        item = await store.get(owner_key(topic))
        ops: list[Op] = [Delete(owner_key(topic)), Delete(unassigned_key(topic))]
        if item is not None:
            ops.append(Delete(broker_key(decode_owner(item).broker, topic)))
        seen = ModRevisionIs(owner_key(topic), 0 if item is None else item.mod_revision)
        if (await store.txn([seen], ops)).succeeded:
            return
    raise Overloaded(f"the owner of {topic} is being changed concurrently: try again later")
