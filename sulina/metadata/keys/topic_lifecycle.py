"""Creates and deletes topics.

With many partitions that takes several transactions. The topic's record is written first and
deleted last; its state tells what is in progress, and repeating the same call finishes what was
interrupted. Each step is guarded by the revision of that record, so concurrent callers do not
interfere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sulina.errors import AlreadyExists, Overloaded, Refused
from sulina.metadata import cas
from sulina.metadata.check import MAX_TXN_OPS
from sulina.metadata.keys import namespaces, record, requests
from sulina.metadata.keys.path import state_root, topic_root
from sulina.metadata.keys.policy import PolicyOverrides
from sulina.metadata.keys.topics import TopicRecord, TopicState, key, missing
from sulina.metadata.store import (
    Absent,
    Compare,
    Delete,
    DeletePrefix,
    Get,
    KeyValue,
    MetadataStore,
    ModRevisionIs,
    Op,
    Put,
    ValueIs,
)
from sulina.names import TopicName

_TRIES = 16
_GROUP = (MAX_TXN_OPS - 1) // 3  # one operation is for the topic's own record; see _everything


async def create(store: MetadataStore, topic: TopicName, wanted: TopicRecord) -> None:
    """Create a topic with all its partitions; ``wanted.state`` is ignored.

    Raises ``AlreadyExists`` if its name or that of a partition is taken, ``NotFound`` if the
    namespace does not exist. After any other error, repeat the call to finish.
    """
    if wanted.partition_of:
        raise Refused(f"{topic} is a partition: create {wanted.partition_of} instead")
    for _ in range(_TRIES):
        claim = await _claim(store, topic, wanted)
        if claim is None:
            return
        if await _complete(store, topic, claim):
            return
    raise _contended(topic)


async def _claim(store: MetadataStore, topic: TopicName, wanted: TopicRecord) -> KeyValue | None:
    """Write the topic's record, or find an unfinished one; None if nothing is left to do."""
    state = TopicState.CREATING if wanted.partitions else TopicState.READY
    value = record.encode(replace(wanted, state=state))
    guards = namespaces.takes_topics(topic.namespace)
    result = await store.txn(
        [Absent(key(topic)), *guards],
        [Put(key(topic), value), Get(key(topic))],
        [Get(key(topic)), *(Get(guard.key) for guard in guards)],
    )
    if result.succeeded:
        return result.responses[1].item if wanted.partitions else None
    taken, policy, _ = (response.item for response in result.responses)
    if taken is not None:
        found = record.decode(TopicRecord, taken)
        if found.state is TopicState.DELETING:
            raise AlreadyExists(f"{topic} is being deleted: delete it again to finish that")
        same = replace(wanted, created_us=found.created_us, created_by=found.created_by)
        if found != replace(same, state=TopicState.CREATING):
            raise AlreadyExists(f"{topic} already exists")
        return taken
    if policy is None:
        raise namespaces.missing(topic.namespace)
    raise Refused(f"the namespace {topic.namespace!r} is being deleted and accepts no topics")


async def _complete(store: MetadataStore, topic: TopicName, claim: KeyValue) -> bool:
    """Add the partitions and open the topic; False if its record was changed meanwhile."""
    wanted = record.decode(TopicRecord, claim)
    for group in _partitions(topic, wanted):
        if not await _add(store, topic, claim, wanted, group):
            return False
    ready = record.encode(replace(wanted, state=TopicState.READY))
    return await cas.swap(store, claim.key, claim.mod_revision, ready) is not None


async def _add(
    store: MetadataStore,
    topic: TopicName,
    claim: KeyValue,
    wanted: TopicRecord,
    group: list[TopicName],
) -> bool:
    value = _as_partition(topic, wanted)
    claimed = ModRevisionIs(claim.key, claim.mod_revision)
    for _ in range(_TRIES):
        result = await store.txn(
            [claimed, *(Absent(key(partition)) for partition in group)],
            [Put(key(partition), value) for partition in group],
            [Get(claim.key), *(Get(key(partition)) for partition in group)],
        )
        if result.succeeded:
            return True
        current, *found = (response.item for response in result.responses)
        if current is None or current.mod_revision != claim.mod_revision:
            return False
        for partition, item in zip(group, found, strict=True):
            if item is not None and not _belongs(item, topic):
                await delete(store, topic)
                raise AlreadyExists(
                    f"{partition} already exists, but not as a partition of {topic}"
                )
        group = [name for name, item in zip(group, found, strict=True) if item is None]
    raise _contended(topic)


async def grow(
    store: MetadataStore, topic: TopicName, partitions: int, created_by: str | None = None
) -> None:
    """Let a partitioned topic have at least so many partitions.

    The new ones count for ``created_by``.
    Each step adds some and counts them at once, so a topic is whole at any time. Raises
    ``AlreadyExists`` if the topic has no partitions, or if a name is taken; ``NotFound``.
    """
    for _ in range(_TRIES):
        item = await store.get(key(topic))
        if item is None:
            raise missing(topic)
        found = record.decode(TopicRecord, item)
        if not found.partitions:
            raise AlreadyExists(f"{topic} already exists without partitions")
        if found.state is TopicState.CREATING:
            await _complete(store, topic, item)
            continue
        if found.state is TopicState.DELETING:
            raise AlreadyExists(f"{topic} is being deleted: delete it again to finish that")
        if found.partitions >= partitions:
            return
        count = min(partitions, found.partitions + _GROUP)
        added = [topic.partition(number) for number in range(found.partitions, count)]
        value = _as_partition(topic, replace(found, created_by=created_by))
        result = await store.txn(
            [ModRevisionIs(item.key, item.mod_revision), *(Absent(key(one)) for one in added)],
            [
                Put(item.key, record.encode(replace(found, partitions=count))),
                *(Put(key(one), value) for one in added),
            ],
            [Get(item.key), *(Get(key(one)) for one in added)],
        )
        current, *taken = (response.item for response in result.responses)
        if not result.succeeded and current is not None:
            unchanged = current.mod_revision == item.mod_revision
            clash = next((one for one, at in zip(added, taken, strict=True) if at), None)
            if unchanged and clash is not None:
                raise AlreadyExists(f"{clash} already exists, but not as a partition of {topic}")
    raise _contended(topic)


def _as_partition(topic: TopicName, wanted: TopicRecord) -> bytes:
    return record.encode(
        replace(
            wanted,
            partitions=0,
            partition_of=str(topic),
            expected_records=wanted.expected_records // max(wanted.partitions, 1),
            expected_bytes=wanted.expected_bytes // max(wanted.partitions, 1),
            policy=PolicyOverrides(),
            state=TopicState.READY,
        )
    )


async def delete(store: MetadataStore, topic: TopicName) -> None:
    """Delete a topic and everything stored below it, including its partitions.

    Its ledgers are not deleted: read their list first. Raises ``NotFound``, and ``Refused`` for a
    partition. After any other error, repeat the call to finish.
    """
    marked = await mark_deleting(store, topic)
    for group in _partitions(topic, marked):
        await _drop(store, topic, group)
    # If the record has changed, another call finished this deletion.
    mine = ValueIs(key(topic), record.encode(marked))
    await store.txn([mine], _everything(topic))


async def mark_deleting(store: MetadataStore, topic: TopicName) -> TopicRecord:
    """Mark the topic's record as being deleted, so that no broker opens it; returns the record.

    Raises ``NotFound``; ``Refused`` for a partition.
    """

    def mark(current: TopicRecord | None) -> TopicRecord:
        if current is None:
            raise missing(topic)
        if current.partition_of:
            raise Refused(
                f"Cannot delete individual partition {topic}: delete {current.partition_of} instead"
            )
        return replace(current, state=TopicState.DELETING)

    return await record.update(store, TopicRecord, key(topic), mark)


async def _drop(store: MetadataStore, topic: TopicName, group: list[TopicName]) -> None:
    for _ in range(_TRIES):
        result = await store.txn((), [Get(key(partition)) for partition in group])
        guards: list[Compare] = []
        deletions: list[Op] = []
        for partition, response in zip(group, result.responses, strict=True):
            # A topic that merely has a partition's name does not belong to this one.
            if response.item is not None and _belongs(response.item, topic):
                guards.append(ModRevisionIs(response.item.key, response.item.mod_revision))
                deletions += _everything(partition)
        if (await store.txn(guards, deletions)).succeeded:
            return
    raise _contended(topic)


def _partitions(topic: TopicName, wanted: TopicRecord) -> Iterator[list[TopicName]]:
    """The names of a topic's partitions, in groups that fit into a transaction."""
    for start in range(0, wanted.partitions, _GROUP):
        numbers = range(start, min(start + _GROUP, wanted.partitions))
        yield [topic.partition(number) for number in numbers]


def _everything(topic: TopicName) -> list[Op]:
    return [
        DeletePrefix(topic_root(topic)),
        DeletePrefix(state_root(topic)),
        Delete(requests.key(topic)),
    ]


def _belongs(item: KeyValue, topic: TopicName) -> bool:
    return record.decode(TopicRecord, item).partition_of == str(topic)


def _contended(topic: TopicName) -> Overloaded:
    return Overloaded(f"{topic} is being changed concurrently: try again later")
