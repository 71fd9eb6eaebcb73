"""Who serves which topic.

* ``/cluster/owners/{namespace}/{topic}``: the owner of a topic, and the epoch of that. One key a
  topic, changed only by swaps: this is what decides.
* ``/cluster/brokers/{broker}/{namespace}/{topic}``: the same from a broker's side, written in the
  same transaction, so that each broker sees its topics under its own path.
* ``/cluster/unassigned/{namespace}/{topic}``: a topic that wants an owner.

Owning is a hint that saves work, never a proof: whoever opens a topic's log fences the one before.
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
    """Who serves a topic. ``to`` names the broker that shall have it next, during a move."""

    broker: str
    epoch: int
    to: str = ""
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class UnassignedTopic:
    """Why a topic wants an owner."""

    since_us: int = 0
    not_at: str = ""
    """A broker that shall not have it: it was unloaded there."""


@dataclass(frozen=True, slots=True)
class _Entry:
    epoch: int


@dataclass(frozen=True, slots=True)
class Change:
    """A topic's next owner, in place of the one read at ``revision`` (0: nobody had it)."""

    topic: TopicName
    before: Owner | None
    revision: int
    after: Owner


def path_of(topic: TopicName) -> str:
    """A topic as the end of a key."""
    return f"{part(topic.namespace)}/{part(topic.local)}"


def topic_of(rest: str) -> TopicName:
    """The topic that ``path_of`` made ``rest`` from."""
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
"""Operations that ``change_all`` needs for each topic, at most."""


async def change_all(
    store: MetadataStore, guards: Sequence[Compare], changes: Sequence[Change]
) -> int | None:
    """Give topics their next owners, all or none; returns the revision.

    None if a guard does not hold, a topic is gone, or somebody changed one of the owners since it
    was read. Raises ``UnknownOutcome`` as the store does: look again before anything is decided.
    """
    compares = list(guards)
    ops: list[Op] = []
    for change in changes:
        compares.append(topics.exists(change.topic))
        compares.append(ModRevisionIs(owner_key(change.topic), change.revision))
        ops.append(Put(owner_key(change.topic), record.encode(change.after)))
        if change.before is None:  # who has an owner can't wish for one
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
    """Note in the owner's record where the topic shall go; the owner completes the move."""
    result = await store.txn(
        [*guards, ModRevisionIs(owner_key(topic), revision)],
        [Put(owner_key(topic), record.encode(marked))],
    )
    return result.revision if result.succeeded else None


async def request_owner(store: MetadataStore, topic: TopicName, wanted: UnassignedTopic) -> bool:
    """Say that a topic wants an owner, unless it has one; False if there is no such topic."""
    result = await store.txn(
        [topics.exists(topic), Absent(owner_key(topic))],
        [Put(unassigned_key(topic), record.encode(wanted))],
        [Get(topics.key(topic))],
    )
    return result.succeeded or result.responses[0].item is not None


async def forget(store: MetadataStore, topic: TopicName) -> None:
    """The topic is deleted: nobody owns it any more. Raises ``Overloaded`` if others interfere."""
    for _ in range(cas.DEFAULT_TRIES):
        item = await store.get(owner_key(topic))
        ops: list[Op] = [Delete(owner_key(topic)), Delete(unassigned_key(topic))]
        if item is not None:
            ops.append(Delete(broker_key(decode_owner(item).broker, topic)))
        seen = ModRevisionIs(owner_key(topic), 0 if item is None else item.mod_revision)
        if (await store.txn([seen], ops)).succeeded:
            return
    raise Overloaded(f"others keep changing the owner of {topic}: try again later")
