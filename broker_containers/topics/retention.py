"""Deletes old data of topics: by age, by size, and once all subscriptions consumed it.

Deletes whole ledgers, oldest first. The newest holds the next offset and the producers' sequences,
so an empty ledger, which takes those over, begins before it is deleted. That happens only by age
and consumption: a topic that is smaller than one ledger would otherwise lose what was just written.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.storage_quotas import StorageQuotas
from broker_containers.topics.topic import Topic
from sulina.audit import TOPIC as AUDIT_TOPIC
from sulina.errors import SulinaError
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.metadata.keys.policy import Policy
from sulina.metadata.keys.unreferenced_objects import LEDGERS_PER_RECORD
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)


def expired(refs: Sequence[LedgerRef], policy: Policy, now_us: int, consumed: int) -> int:
    """How many of the oldest ledgers, except the newest, the policy allows to delete.

    ``consumed``: every subscription has acknowledged all records below this offset.
    """
    kept_bytes = sum(ref.bytes for ref in refs)
    count = 0
    for ref in refs[:-1]:
        too_much = policy.retention_bytes and kept_bytes > policy.retention_bytes
        done_with = policy.delete_consumed and (ref.last_offset or 0) < consumed
        if not (_too_old(ref, policy, now_us) or too_much or done_with):
            break
        kept_bytes -= ref.bytes
        count += 1
    return count


def newest_expired(log: ManagedLedger, policy: Policy, now_us: int, consumed: int) -> bool:
    """Whether the policy allows to delete all records.

    If the ledger is open, consumption counts once it is old enough to be closed anyway: otherwise
    a topic with few records would begin a ledger in each round.
    """
    newest = log.refs[-1]
    if not newest.bytes:
        return False
    rested = log.written_for == 0 or log.written_for >= log.settings.roll_seconds
    done_with = policy.delete_consumed and consumed >= log.end and rested
    return bool(done_with or _too_old(newest, policy, now_us))


def _too_old(ref: LedgerRef, policy: Policy, now_us: int) -> bool:
    return bool(policy.retention_ms and now_us - ref.last_time_us > policy.retention_ms * 1000)


class RecordedRetention(Protocol):
    """The retention of the audit trail, which no policy changes: what it deletes is recorded."""

    def policy(self) -> Policy | None:
        """What applies to the trail; None keeps everything."""
        ...

    async def trim(self, before: int, work: Callable[[], Awaitable[int]]) -> int:
        """Record that the records below offset ``before`` are deleted, then do it."""
        ...


class Retention:
    """Applies the policies of open topics periodically."""

    def __init__(
        self,
        clock: Clock,
        interval: float,
        topics: Callable[[], Iterable[Topic]],
        storage_quotas: StorageQuotas,
    ) -> None:
        self._clock = clock
        self.interval = interval
        """Seconds between rounds; a change applies after the current round."""
        self._topics = topics
        self._storage_quotas = storage_quotas
        self.audit: RecordedRetention | None = None
        """Applies to the audit trail."""

    async def run(self) -> None:
        """Run until cancelled. A topic that fails is tried again in the next round."""
        while True:
            await self._clock.sleep(self.interval)
            for topic in list(self._topics()):
                for subscription in list(topic.subscriptions.values()):
                    subscription.expire()
                try:
                    await self.apply(topic)
                except SulinaError as error:
                    _log.warning("retention of %s failed; will retry: %s", topic.name, error)
            await self.apply_quotas()

    async def apply_quotas(self) -> None:
        """Count stored bytes, and apply the quotas of them. A failure is logged."""
        try:
            await self._storage_quotas.apply(list(self._topics()))
        except SulinaError as error:
            _log.warning("counting stored bytes for quotas failed; will retry: %s", error)

    async def apply(self, topic: Topic) -> int:
        """Delete a topic's expired ledgers; returns how many."""
        log = topic.log
        if not isinstance(log, ManagedLedger) or not log.usable:
            return 0
        recorded = self.audit if str(topic.name) == AUDIT_TOPIC else None
        policy = topic.policy if recorded is None else recorded.policy()
        if policy is None:
            return 0
        positions = [s.position for s in topic.subscriptions.values()]
        consumed = min(positions, default=log.start)
        now_us = self._clock.wall_us()
        count = expired(log.refs, policy, now_us, consumed)
        all_others = bool(log.refs) and count == len(log.refs) - 1
        if all_others and recorded is None and newest_expired(log, policy, now_us, consumed):
            await log.begin()
            count = expired(log.refs, policy, now_us, consumed)
        refs = log.refs
        if not count or not log.usable:
            return 0
        if recorded is None:
            return await log.trim(count)
        count = min(count, LEDGERS_PER_RECORD)  # as many as are deleted at once
        return await recorded.trim(refs[count].first_offset, partial(log.trim, count))
