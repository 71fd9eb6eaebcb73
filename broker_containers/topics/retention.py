"""Applies the policies of topics: passes over expired records, removes old data, limits backlogs.

``retention_plan`` decides what goes. What was removed can be restored as long as its data is kept
(``tier.grace_seconds`` for objects, ``broker.grace_seconds`` for ledgers without one).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import Final, Protocol

from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.retention_plan import Fate, expired, too_old
from broker_containers.topics.storage_quotas import StorageQuotas, backlog_of
from broker_containers.topics.topic import Topic
from broker_containers.topics.unused_topics import UnusedTopics
from sulina.audit import TOPIC as AUDIT_TOPIC
from sulina.errors import Refused, SulinaError
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.metadata.keys.policy import Policy
from sulina.metadata.keys.unreferenced_objects import LEDGERS_PER_RECORD
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_PARTS: Final = 4
"""With ``retention_bytes``, a ledger is closed at this fraction of it: less goes at once."""
_SMALLEST: Final = 1 << 20
_IDLE_SECONDS: Final = 300.0
"""How often to look for topics that nobody opened since the broker started."""


def newest_expired(log: ManagedLedger, policy: Policy, now_us: int, consumed: int) -> bool:
    """Whether the policy allows to remove all records.

    If the ledger is open, consumption counts once it is old enough to be closed anyway: otherwise
    a topic with few records would begin a ledger in each round.
    """
    newest = log.refs[-1]
    if not newest.bytes:
        return False
    rested = log.written_for == 0 or log.written_for >= log.settings.roll_seconds
    done_with = policy.delete_consumed and consumed >= log.end and rested
    return bool(done_with or too_old(newest, policy, now_us))


def consumed_below(topic: Topic) -> int:
    """Every subscription has acknowledged all records below this offset."""
    positions = [each.position for each in topic.subscriptions.values()]
    return min(positions, default=topic.log.start)


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
        grace: Callable[[bool], float] = lambda _: 0.0,
        unused: UnusedTopics | None = None,
        open_idle: Callable[[], Awaitable[None]] | None = None,
        refresh: Callable[[], Awaitable[None]] | None = None,
        tables: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``grace``: how many seconds to keep what is removed, with objects or without.
        ``tables``: how many seconds to keep its objects at least, until tables drop them.

        ``open_idle`` opens topics that nobody uses and that have a policy to apply, ``refresh``
        brings the policies of open ones up to date.
        """
        self._clock = clock
        self.interval = interval
        """Seconds between rounds; a change applies after the current round."""
        self._topics = topics
        self._storage_quotas = storage_quotas
        self._grace = grace
        self._unused = unused
        self._open_idle = open_idle
        self._refresh = refresh
        self._tables = tables
        self.outdated = False
        """The brokers' settings of policies changed since they were applied."""
        self.audit: RecordedRetention | None = None
        """Applies to the audit trail."""

    async def run(self) -> None:
        """Run until cancelled. A topic that fails is tried again in the next round."""
        next_idle = 0.0
        while True:
            await self._clock.sleep(self.interval)
            if self._open_idle is not None and self._clock.now() >= next_idle:
                next_idle = self._clock.now() + _IDLE_SECONDS
                try:
                    await self._open_idle()
                except SulinaError as error:
                    _log.warning("cannot look for idle topics; will retry: %s", error)
            if self.outdated and self._refresh is not None:
                self.outdated = False
                try:
                    await self._refresh()
                except SulinaError as error:
                    self.outdated = True
                    _log.warning("cannot apply changed policies; will retry: %s", error)
            for topic in list(self._topics()):
                for subscription in list(topic.subscriptions.values()):
                    subscription.expire()
                try:
                    if self._unused is None or not await self._unused.look(topic):
                        await self.apply(topic)
                except SulinaError as error:
                    _log.warning("retention of %s failed; will retry: %s", topic.name, error)
            await self.apply_quotas()

    async def apply_quotas(self) -> None:
        """Count stored bytes, and apply the quotas of them. A failure is logged."""
        try:
            await self._storage_quotas.apply(list(self._topics()), self._remove)
        except SulinaError as error:
            _log.warning("counting stored bytes for quotas failed; will retry: %s", error)

    async def apply(self, topic: Topic) -> int:
        """Remove a topic's expired ledgers; returns how many."""
        log = topic.log
        if not isinstance(log, ManagedLedger) or not log.usable:
            return 0
        recorded = self.audit if str(topic.name) == AUDIT_TOPIC else None
        policy = self.policy_of(topic)
        log.removal.tables_seconds = self._tables()
        await self._mark(log)
        await log.removal.delete_overdue(self._clock.wall_us())
        if policy is None:
            return 0
        if recorded is None:
            await self._limit_backlog(topic, log, policy)
            await self._close_large(log, policy)
        consumed, now_us = consumed_below(topic), self._clock.wall_us()
        count = expired(log.refs, policy, now_us, consumed)
        all_others = bool(log.refs) and count == len(log.refs) - 1
        if all_others and recorded is None and newest_expired(log, policy, now_us, consumed):
            await log.begin()
            count = expired(log.refs, policy, now_us, consumed)
        refs = log.refs
        if not count or not log.usable:
            return 0
        if recorded is None:
            removed = await self._remove(log, refs, count)
            await self._mark(log)
            return removed
        count = min(count, LEDGERS_PER_RECORD)  # as many as are deleted at once
        before = refs[count].first_offset
        return await recorded.trim(before, partial(log.removal.trim, refs[:count]))

    async def _mark(self, log: ManagedLedger) -> None:
        """Tell tables what is removed. A failure is logged; the next round tries again."""
        try:
            await log.removal.mark_removed()
        except SulinaError as error:
            _log.warning("marking what %s removed failed; will retry: %s", log.topic, error)

    async def _remove(self, log: ManagedLedger, refs: Sequence[LedgerRef], count: int) -> int:
        """Remove the oldest ledgers, as many as are kept for the same time.

        Ledgers that are not kept, and follow some that still are, wait: if they were gone, the
        others could not be restored. They become objects meanwhile.
        """
        oldest = next((ref for ref in refs[:count] if ref.records), refs[0])
        kept_us = self.kept_us([oldest])

        def is_same(ref: LedgerRef) -> bool:
            return not ref.records or self.kept_us([ref]) == kept_us

        if not kept_us and log.removal.removed[1] and oldest.records and oldest.tiered is None:
            return 0
        count = sum(1 for _ in takewhile(is_same, refs[:count]))
        return await log.removal.trim(refs[:count], kept_us)

    def policy_of(self, topic: Topic) -> Policy | None:
        """The policy that retention applies to a topic; None keeps everything."""
        if self.audit is not None and str(topic.name) == AUDIT_TOPIC:
            return self.audit.policy()
        return topic.policy

    def kept_us(self, refs: Sequence[LedgerRef]) -> int:
        """How long the data of ledgers is kept after they are removed."""
        in_objects = all(ref.tiered is not None for ref in refs)
        tables = self._tables() if in_objects else 0.0
        return int(max(self._grace(in_objects), tables) * 1e6)

    def deletions(self, log: ManagedLedger, shown: Iterable[Fate]) -> list[int | None]:
        """When the data of each ledger is deleted: never before that of older ones."""
        latest = max((each.until_us for each in log.removal.removed[1]), default=0)
        found: list[int | None] = []
        for fate in shown:
            if fate.leaves_us is not None:
                latest = max(latest, fate.leaves_us + self.kept_us([fate.ref]))
            found.append(None if fate.leaves_us is None else latest)
        return found

    async def restore(self, topic: Topic) -> int:
        """Restore what was removed and is kept; returns how many ledgers.

        Raises ``Refused`` if there is nothing, or the policy would remove it again.
        """
        log = topic.log
        removed = log.removal.removed[0] if isinstance(log, ManagedLedger) else ()
        if not removed:
            raise Refused(f"nothing that was removed from {topic.name} can be restored")
        assert isinstance(log, ManagedLedger)
        now_us = self._clock.wall_us()
        again = expired((*removed, *log.refs), topic.policy, now_us, consumed_below(topic))
        if again:
            raise Refused(
                f"the policy of {topic.name} would remove it again at once: first change "
                "retention_ms, retention_bytes or delete_consumed, with `sulina topic policy`"
            )
        restored_bytes = sum(ref.bytes for ref in removed)
        if why := self._storage_quotas.drops_again(topic, restored_bytes):
            raise Refused(why)
        limit = topic.policy.backlog_bytes if topic.policy.backlog_drop_oldest else 0
        behind = restored_bytes + sum(each.bytes for each in backlog_of(topic))
        if limit and topic.subscriptions and behind > limit:
            raise Refused(
                f"backlog_drop_oldest of {topic.name} would remove it again at once: first raise "
                f"backlog_bytes above {behind:,}, with `sulina topic policy`"
            )
        restored = await log.removal.restore()
        await self._mark(log)
        return restored

    async def _limit_backlog(self, topic: Topic, log: ManagedLedger, policy: Policy) -> None:
        limit = policy.backlog_bytes
        topic.full = ""
        if not limit:
            return
        weighed = backlog_of(topic)
        use = sum(each.bytes for each in weighed)
        if use <= limit:
            return
        if not policy.backlog_drop_oldest:
            topic.full = (
                f"the slowest subscription of {topic.name} is {use:,} bytes behind, and its "
                f"backlog_bytes allows {limit:,}: acknowledge more, delete the subscription, or "
                "raise the limit"
            )
            return
        count, refs = 0, log.refs
        for each in weighed[:-1]:
            if use <= limit:
                break
            use -= each.bytes
            count += 1
        if count:
            count = await self._remove(log, refs, count)
            _log.info("%s: removed its %d oldest ledgers: backlog_bytes", topic.name, count)
        elif len(weighed) == 1:
            await log.roll()  # only a closed ledger can be removed, once another has begun

    async def _close_large(self, log: ManagedLedger, policy: Policy) -> None:
        """Close the newest ledger before it makes up most of what the policy keeps."""
        if not policy.retention_bytes or not log.refs:
            return
        if log.refs[-1].bytes >= max(policy.retention_bytes // _PARTS, _SMALLEST):
            await log.roll()
