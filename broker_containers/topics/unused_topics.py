"""Deletes topics that nobody used for as long as their policy says (``delete_unused_ms``).

A topic is in use while a producer or consumer is connected, or when something was published since
the last look. That is stored, at most sixteen times within the policy's time, so that a restart or
a takeover does not shorten or restart it; the time counts from the last moment at which the topic
may have been in use. Partitions go together, once none of them was used.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from broker_containers.quotas.quotas import SYSTEM
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.topic import Topic
from sulina.metadata.keys import last_use, topics
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_PARTS: Final = 16


class RecordedDeletion(Protocol):
    """Records deletions in the audit trail."""

    async def delete_unused(
        self, topic: str, idle_ms: int, work: Callable[[], Awaitable[None]]
    ) -> None:
        """Record that a topic is deleted because nobody used it, then do it."""
        ...


@dataclass(slots=True)
class _Use:
    stored_us: int
    records: int


class UnusedTopics:
    """Looks at open topics, one at a time."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        delete: Callable[[TopicName], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._delete = delete
        self._uses: WeakKeyDictionary[Topic, _Use] = WeakKeyDictionary()
        """By the open topic: after it was elsewhere, what is stored counts."""
        self.audit: RecordedDeletion | None = None
        self.in_use: Callable[[TopicName], Awaitable[bool]] = _never
        """Asks the owner of another partition whether somebody is connected."""

    async def look(self, topic: Topic) -> bool:
        """Delete a topic if nobody used it for long enough; returns whether it was deleted."""
        name, limit_ms = topic.name, topic.policy.delete_unused_ms
        if not limit_ms or name.namespace == SYSTEM:
            self._uses.pop(topic, None)
            return False
        now_us = self._clock.wall_us()
        step_us = limit_ms * 1000 // _PARTS
        known = self._uses.get(topic)
        if known is None:
            stored = await last_use.get(self._store, name)
            if stored is None:  # from now on it is known
                await last_use.put(self._store, name, stored := now_us)
            known = self._uses[topic] = _Use(stored, topic.counters.records_in)
        published = topic.counters.records_in != known.records
        if topic.producers or topic.consumer_count or published:
            if now_us - known.stored_us >= step_us or published:
                await last_use.put(self._store, name, now_us)
                known.stored_us, known.records = now_us, topic.counters.records_in
            return False
        if now_us - _since(topic, known.stored_us + step_us) < limit_ms * 1000:
            return False
        return await self._delete_all(topic, limit_ms, step_us)

    async def _delete_all(self, topic: Topic, limit_ms: int, step_us: int) -> bool:
        base, number = topic.name.partition_of or (topic.name, 0)
        if number:
            return False  # the owner of the first partition does it
        record = await topics.get(self._store, base)
        partitions = 0 if record is None else record.partitions
        for each in range(1, partitions):
            used = await last_use.get(self._store, base.partition(each))
            if used is None or self._clock.wall_us() - used - step_us < limit_ms * 1000:
                return False
            if await self.in_use(base.partition(each)):
                return False  # its owner did not look in time
        if topic.producers or topic.consumer_count:
            return False  # somebody came meanwhile
        _log.warning("deleting %s: nobody used it for %d ms (delete_unused_ms)", base, limit_ms)

        async def work() -> None:
            await self._delete(base)

        if self.audit is None:
            await work()
        else:
            await self.audit.delete_unused(str(base), limit_ms, work)
        self._uses.pop(topic, None)
        return True


async def _never(topic: TopicName) -> bool:
    return False


def _since(topic: Topic, used_us: int) -> int:
    refs: Sequence[int] = ()
    if isinstance(topic.log, ManagedLedger):
        refs = [ref.last_time_us for ref in topic.log.refs]
    return max(used_us, *refs) if refs else used_us
