"""Applies the quotas of stored bytes and backlog: refuses producers, or drops the oldest ledgers.

Sizes are counted periodically, so a namespace may exceed its quota by what is published in between.
Stored bytes include all topics of the namespace, tiered ledgers too, except for the ledgers that
other brokers are writing. The backlog is that of the topics that this broker serves: the bytes that
the slowest subscription of each topic has not acknowledged, estimated within a ledger.

What exceeds a quota of stored bytes is deleted at once: if it were kept, it would still be stored.
What exceeds one of the backlog is kept and can be restored, like what retention removes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker_containers.quotas.quotas import Quotas
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.topic import Topic
from sulina.metadata.keys import ledgers, topics
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.metadata.keys.quotas import QuotaScope, WhenFull
from sulina.metadata.store import MetadataStore
from sulina.model import Delivery
from sulina.names import TopicName

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 64

Remove = Callable[[ManagedLedger, Sequence[LedgerRef], int], Awaitable[int]]
"""Removes so many of the oldest ledgers, whose data is kept for a time; returns how many it did."""


@dataclass(frozen=True, slots=True)
class WeighedLedger:
    """A ledger, and how much of it counts."""

    topic: TopicName
    place: int
    """Its position in the topic's list, from 0 for the oldest."""
    bytes: int
    last_time_us: int
    elsewhere: bool
    """Whether its topic is not open on this broker."""
    droppable: bool
    """Whether this broker can delete it: its topic is open here, and it is not the newest."""


def to_drop(found: Iterable[WeighedLedger], excess: int) -> dict[TopicName, int]:
    """How many of the oldest ledgers of each topic to delete, oldest first over all topics.

    So that ``excess`` bytes go; of ledgers that this broker cannot delete, their share stays.
    """
    found = list(found)
    mine = sum(each.bytes for each in found if each.droppable)
    others = sum(each.bytes for each in found if each.elsewhere)
    excess = -(-excess * mine // max(mine + others, 1))
    counts: dict[TopicName, int] = {}
    order = sorted(found, key=lambda each: (each.last_time_us, str(each.topic), each.place))
    for each in order:
        if excess <= 0:
            break
        if each.droppable and each.bytes:
            counts[each.topic] = max(counts.get(each.topic, 0), each.place + 1)
            excess -= each.bytes
    return counts


def unconsumed(ref: LedgerRef, position: int, end: int) -> int:
    """The bytes of a ledger from an offset on, in proportion to its records.

    ``end`` is the next offset of the topic, where an open ledger ends.
    """
    following = end if ref.last_offset is None else ref.last_offset + 1
    records = following - ref.first_offset
    left = min(max(following - position, 0), records)
    return ref.bytes * left // max(records, 1)


class StorageQuotas:
    """Counts and applies, for the namespaces of open topics that have such a quota."""

    def __init__(self, store: MetadataStore, quotas: Quotas) -> None:
        self._store = store
        self._quotas = quotas

    def drops_again(self, topic: Topic, restored: int) -> str:
        """Why a quota would drop what is restored, so many bytes; empty if none would."""
        namespace = topic.name.namespace
        subject = QuotaScope.NAMESPACE, namespace
        if self._quotas.limits(subject).when_full is not WhenFull.DROP_OLDEST:
            return ""
        for name in ("stored_bytes", "backlog_bytes"):
            limit, needed = self._quotas.limit(subject, name), restored
            if name == "backlog_bytes" and not topic.subscriptions:
                continue
            needed += self._quotas.use(subject, name) or 0
            if limit and needed > limit:
                return (
                    f"the quota {name} of namespace {namespace} would drop it again: first raise "
                    f"it above {needed:,}, with `sulina quota set namespace {namespace} {name}=...`"
                )
        return ""

    async def apply(self, opened: Iterable[Topic], remove: Remove) -> None:
        """Count once, and refuse or drop what exceeds a quota."""
        by_namespace: dict[str, list[Topic]] = defaultdict(list)
        for topic in opened:
            by_namespace[topic.name.namespace].append(topic)
        for namespace, here in by_namespace.items():
            subject = QuotaScope.NAMESPACE, namespace
            reason = ""
            refs = {topic.name: _refs(topic) for topic in here}
            if limit := self._quotas.limit(subject, "stored_bytes"):
                weighed = await self._stored(namespace, here)
                reason = await self._enforce(
                    namespace, here, "stored_bytes", limit, weighed, refs, _delete
                )
            if limit := self._quotas.limit(subject, "backlog_bytes"):
                refs = {topic.name: _refs(topic) for topic in here}
                backlog = [each for topic in here for each in backlog_of(topic)]
                late = await self._enforce(
                    namespace, here, "backlog_bytes", limit, backlog, refs, remove
                )
                reason = reason or late
            if reason and namespace not in self._quotas.full:
                _log.warning("producers are refused: %s", reason)
            self._quotas.set_full(namespace, reason)

    async def _stored(self, namespace: str, here: Sequence[Topic]) -> list[WeighedLedger]:
        opened = {topic.name: topic for topic in here}
        weighed = [each for topic in here for each in _weighed(topic.name, _refs(topic))]
        elsewhere = [
            name
            for name, found in (await topics.list_all(self._store, namespace)).items()
            if name not in opened and not found.partitions and found.delivery is Delivery.RELIABLE
        ]
        for start in range(0, len(elsewhere), _AT_ONCE):
            batch = elsewhere[start : start + _AT_ONCE]
            lists = await asyncio.gather(*(ledgers.get(self._store, name) for name in batch))
            for name, found_list in zip(batch, lists, strict=True):
                weighed += _weighed(name, found_list.list.ledgers, elsewhere=True)
        return weighed

    async def _enforce(
        self,
        namespace: str,
        here: Sequence[Topic],
        name: str,
        limit: int,
        weighed: Sequence[WeighedLedger],
        refs: Mapping[TopicName, Sequence[LedgerRef]],
        remove: Remove,
    ) -> str:
        """Why producers are refused; empty if they are not. ``refs`` are what was weighed."""
        use = sum(each.bytes for each in weighed)
        self._quotas.count_bytes(namespace, name, use)
        if use <= limit:
            return ""
        subject = QuotaScope.NAMESPACE, namespace
        if self._quotas.limits(subject).when_full is not WhenFull.DROP_OLDEST:
            return str(self._quotas.exceeded(subject, name, use, limit, "that is more than"))
        doomed = to_drop(weighed, use - limit)
        for topic in here:
            log = topic.log
            if not isinstance(log, ManagedLedger) or not log.usable:
                continue
            if topic.name in doomed:
                dropped = await remove(log, refs[topic.name], doomed[topic.name])
                _log.info("%s: dropped its %d oldest ledgers: quota %s", topic.name, dropped, name)
            elif not doomed:
                await log.roll()  # only a closed ledger can be dropped, once another has begun
        return ""


async def _delete(log: ManagedLedger, refs: Sequence[LedgerRef], count: int) -> int:
    return await log.removal.trim(refs[:count])


def _refs(topic: Topic) -> Sequence[LedgerRef]:
    log = topic.log
    return log.refs if isinstance(log, ManagedLedger) and log.usable else ()


def _weighed(
    topic: TopicName,
    refs: Sequence[LedgerRef],
    position: int = 0,
    end: int = 0,
    *,
    elsewhere: bool = False,
) -> list[WeighedLedger]:
    return [
        WeighedLedger(
            topic,
            place,
            unconsumed(ref, position, end) if position else ref.bytes,
            ref.last_time_us,
            elsewhere,
            droppable=not elsewhere and place < len(refs) - 1,
        )
        for place, ref in enumerate(refs)
    ]


def backlog_of(topic: Topic) -> list[WeighedLedger]:
    """The ledgers of a topic, with what its slowest subscription has not acknowledged."""
    positions = [each.position for each in topic.subscriptions.values()]
    if not positions:
        return []
    return _weighed(topic.name, _refs(topic), min(positions), topic.log.end)
