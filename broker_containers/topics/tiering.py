"""Tiers the closed ledgers of open topics: writes them to the object store, deletes the entries.

The order guarantees that no record is lost: the object is written and verified; the topic's ledger
list records it, by a swap that only the owner can make; the entries are deleted; the list records
that. An interrupted sequence is continued from what the list says, here or by the next owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from broker_containers import settable
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.replacing import SchemasOf, mark_of
from broker_containers.topics.retention import consumed_below
from broker_containers.topics.topic import Topic
from storage_grpc.tier.tier import OffloadJob, Tier, head_of
from sulina.errors import SulinaError, Unavailable
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.metadata.keys import closing
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef, LedgerState, TieredRef
from sulina.metadata.keys.policy import Policy
from sulina.metadata.store import Op
from sulina.metrics.histogram import Histogram
from sulina.names import TopicName
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock
from sulina.runtime.tasks import stop_tasks

_log = logging.getLogger(__name__)
_AT_A_TIME: Final = 64
"""Ledgers per round for each concurrent worker; then the list is read again."""
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 300.0
_SHORTEST_PAUSE: Final = 0.25
_FRESHNESS_SECONDS: Final = (0.5, 1, 2, 3, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 3600, 14400)


@dataclass(frozen=True, slots=True)
class TieringSettings:
    """When ledgers are tiered, and how long their entries stay on storage nodes."""

    # fmt: off
    after_seconds: float = settable.seconds(900.0, 1, 30 * settable.DAY, settable.ROUND,
        "Age at which an open ledger is closed, to be tiered.")
    check_seconds: float = settable.seconds(5.0, 0.1, settable.DAY, settable.ROUND,
        "How often to look for closed ledgers to tier.")
    at_once: int = settable.count(2, 1, 256, settable.ROUND,
        "Maximum number of ledgers that a broker tiers concurrently.")
    local_seconds: float = settable.seconds(300.0, 0, settable.YEAR, settable.ROUND,
        "How long the entries of a tiered ledger stay on storage nodes, counted from the ledger's "
        "last record.")
    local_bytes: int = settable.bytes(0, 0, 1 << 50, settable.ROUND,
        "How many of a topic's newest bytes always stay there.")
    offload_seconds: float = settable.seconds(900.0, 1, settable.DAY, settable.ROUND,
        "Timeout for tiering one ledger; it is tried again later.")
    grace_seconds: float = settable.seconds(float(settable.DAY), 0, settable.YEAR, settable.ROUND,
        "How long objects are kept after retention removed them from their topic; until then, "
        "`sulina topic retention --undo` restores them.")
    tables_seconds: float = settable.seconds(1800.0, 0, settable.YEAR, settable.ROUND,
        "How long objects are kept at least after they left their topic, so that tables drop them "
        "first; bring tables up to date more often than that.")
    typed_columns: bool = settable.flag(True, settable.ROUND,
        "Whether objects of topics with a schema have typed columns.")
    merge_bytes: int = settable.bytes(0, 0, 64 << 30, settable.ROUND,
        "Size up to which neighbouring small objects of a topic are merged into one; 0: never.")
    replaced_seconds: float = settable.seconds(86_400.0, 1, settable.YEAR, settable.ROUND,
        "How long objects are kept after others replaced them, for readers, jobs and snapshots of "
        "tables that still use them.")
    compact_percent: int = settable.count(50, 1, 1000, settable.ROUND,
        "How much must have been added to a compacted topic before it is compacted again, in "
        "percent of what is compacted.")
    compact_bytes: int = settable.bytes(1 << 30, 1 << 10, 64 << 30, settable.ROUND,
        "Up to how many bytes of ledgers compaction joins into one object.")
    # fmt: on


@dataclass(slots=True)
class TierCounters:
    """Totals since the start."""

    objects: int = 0
    bytes: int = 0
    """Bytes of the frames in tiered ledgers."""
    object_bytes: int = 0
    failures: int = 0
    local_deleted: int = 0
    rejected: int = 0
    """Payloads that do not fit their topic's schema."""
    freshness: Histogram = field(default_factory=lambda: Histogram(_FRESHNESS_SECONDS))
    """Seconds from publishing the oldest record of a ledger until it was in an object."""


@dataclass(frozen=True, slots=True)
class TierLag:
    """What is closed and not tiered yet."""

    ledgers: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Age of the oldest such record."""


@dataclass(slots=True)
class _Failed:
    topic: TopicName
    until: float
    pause: float
    why: str


def untiered(refs: Iterable[LedgerRef]) -> list[LedgerRef]:
    """Closed ledgers that are not tiered yet, oldest first."""
    closed = (ref for ref in refs if ref.state is LedgerState.CLOSED)
    return [ref for ref in closed if ref.tiered is None and ref.records > 0]


def written_seconds(policy: Policy, settings: TieringSettings) -> float:
    """How long a ledger is written before it is closed to be tiered.

    With a freshness it is half of that: the other half is for the next round and the upload.
    """
    return policy.freshness_ms / 2000 if policy.freshness_ms else settings.after_seconds


def droppable(
    refs: Sequence[LedgerRef],
    settings: TieringSettings,
    now_us: int,
    policy: Policy | None = None,
    consumed: int = 0,
) -> list[LedgerRef]:
    """Tiered ledgers whose entries may be deleted, oldest first.

    The topic's ``policy`` goes before the broker's settings. ``consumed``: every subscription has
    acknowledged all records below this offset.
    """
    policy = policy or Policy()
    found: list[LedgerRef] = []
    newer = 0
    kept_us = policy.local_retention_ms * 1000 or settings.local_seconds * 1e6
    kept_bytes = policy.local_retention_bytes or settings.local_bytes
    for ref in reversed(refs):
        old = now_us - ref.last_time_us >= kept_us and newer >= kept_bytes
        done_with = policy.local_delete_consumed and (ref.last_offset or 0) < consumed
        if ref.tiered is not None and ref.tiered.local and (old or done_with):
            found.append(ref)
        newer += ref.bytes
    return found[::-1]


def _without_entries(ledgers: set[int], before: LedgerList) -> LedgerList:
    """The list, in which ledgers have no entries any more. Their objects may have been replaced
    since the entries were deleted."""
    return replace(
        before,
        ledgers=tuple(
            replace(ref, tiered=replace(ref.tiered, local=False))
            if ref.id in ledgers and ref.tiered is not None
            else ref
            for ref in before.ledgers
        ),
    )


async def _no_schemas(topic: TopicName) -> tuple[SchemaVersion, ...]:
    return ()


class Tiering:
    """Works while :meth:`run` does; without a ``tier`` it does nothing."""

    def __init__(
        self,
        tier: Tier | None,
        clock: Clock,
        settings: TieringSettings,
        topics: Callable[[], Iterable[Topic]],
    ) -> None:
        self.settings = settings
        """May be changed at any time."""
        self.counters = TierCounters()
        self.schemas_of: SchemasOf = _no_schemas
        """The versions of a topic's schema; its objects get typed columns."""
        self._tier = tier
        self._clock = clock
        self._topics = topics
        self._failed: dict[int, _Failed] = {}
        self._wake = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether an object store is available."""
        return self._tier is not None and self._tier.ready

    async def run(self) -> None:
        """Run until cancelled. Failures are retried with increasing pauses."""
        if self._tier is None:
            return
        while True:
            self._wake.clear()
            if not await self.round():
                with suppress(TimeoutError):
                    await within(self._clock, self._pause(), self._wake.wait())

    async def round(self) -> bool:
        """Tier what can be tiered now; returns whether there is more."""
        if not self.ready:
            return False
        now = self._clock.now()
        work: list[tuple[ManagedLedger, LedgerRef]] = []
        for topic, log in self._open():
            try:
                await log.settle()
                if log.written_for >= written_seconds(topic.policy, self.settings):
                    await log.roll()
            except SulinaError as error:
                _log.warning("cannot prepare ledgers of %s for tiering: %s", log.topic, error)
            work += [(log, ref) for ref in untiered(log.refs) if not self._pausing(ref.id, now)]
        self._forget_failures(now)
        work.sort(key=lambda each: each[1].last_time_us)
        most = _AT_A_TIME * self.settings.at_once
        await self._all(work[:most])
        await self._drop_all()
        return len(work) > most

    async def _all(self, work: Sequence[tuple[ManagedLedger, LedgerRef]]) -> None:
        waiting = iter(work)

        async def worker() -> None:
            for log, ref in waiting:
                await self._try(log, ref)

        tasks = [asyncio.create_task(worker()) for _ in work[: self.settings.at_once]]
        try:
            await asyncio.gather(*tasks)
        finally:
            await stop_tasks(*tasks)

    async def _try(self, log: ManagedLedger, ref: LedgerRef) -> None:
        if not log.usable:
            return
        try:
            await self.tier(log, ref)
            self._failed.pop(ref.id, None)
        except SulinaError as error:
            self._failure(log.topic, ref.id, str(error))
            _log.warning("tiering ledger %d of %s failed; will retry: %s", ref.id, log.topic, error)
        except Exception:
            # Whatever the error is, other ledgers must not wait for this one.
            self._failure(log.topic, ref.id, "unexpected error: see the broker's log")
            _log.exception("tiering ledger %d of %s failed; will retry", ref.id, log.topic)

    # ---- the steps ----

    async def tier(self, log: ManagedLedger, ref: LedgerRef) -> None:
        """Write a closed ledger as an object and record it in the topic's list."""
        assert self._tier is not None and ref.last_offset is not None
        assert ref.last_entry is not None
        job = OffloadJob(
            head_of(log.topic, ref),
            ref.last_offset,
            ref.last_entry,
            log.closing_frame(ref),
            await self.schemas_of(log.topic) if self.settings.typed_columns else (),
        )
        seconds = self.settings.offload_seconds
        try:
            made = await within(self._clock, seconds, self._tier.offload(job))
        except TimeoutError:
            raise Unavailable(f"the object was not written within {seconds:g} s") from None
        tiered = replace(made.ref, schema=mark_of(job.schemas))
        if await self._note(log, ref, tiered, closing.puts(log.topic, ref.id, job.closing)):
            self.counters.objects += 1
            self.counters.bytes += ref.bytes
            age_us = self._clock.wall_us() - ref.first_time_us
            self.counters.freshness.add(max(0.0, age_us / 1e6))
            self.counters.rejected += made.rejected
            self.counters.object_bytes += tiered.size
            log.tiered.objects += 1
            log.tiered.bytes += tiered.size

    async def _drop_all(self) -> None:
        for topic in list(self._topics()):
            log = topic.log
            if not isinstance(log, ManagedLedger) or not log.usable:
                continue
            try:
                await self.drop_local(log, topic.policy, consumed_below(topic))
            except SulinaError as error:
                _log.warning("deleting entries of %s failed; will retry: %s", log.topic, error)

    async def drop_local(
        self,
        log: ManagedLedger,
        policy: Policy | None = None,
        consumed: int = 0,
        *,
        at_once: bool = False,
    ) -> None:
        """Delete the entries of tiered ledgers that no longer need to stay on storage nodes, or
        ``at_once`` those of all tiered ledgers."""
        settings = self.settings
        if at_once:
            settings = replace(settings, local_seconds=-settable.YEAR, local_bytes=0)

        def wanted() -> list[LedgerRef]:
            now_us = self._clock.wall_us()
            return droppable(log.refs, settings, now_us, policy, consumed)[:_AT_A_TIME]

        while refs := wanted():
            gone: set[int] = set()
            for ref in refs:
                await log.ledgers.delete(ref.id)
                gone.add(ref.id)
            await log.commit(partial(_without_entries, gone))
            self.counters.local_deleted += len(gone)

    async def _note(
        self, log: ManagedLedger, ref: LedgerRef, tiered: TieredRef, also: Sequence[Op]
    ) -> bool:
        """Swap the list; returns whether it still contains the ledger, without an object."""
        if ref not in log.refs:
            return False

        def noted(before: LedgerList) -> LedgerList:
            # By its turn it may be tiered already, and its object even replaced.
            there = ref in before.ledgers
            return before.changed(replace(ref, tiered=tiered)) if there else before

        await log.commit(noted, also)
        return True

    # ---- on demand ----

    async def flush(self, log: ManagedLedger) -> list[LedgerRef]:
        """Close the open ledger and start tiering immediately; returns the ledgers to tier."""
        await log.roll()
        wanted = untiered(log.refs)
        for ref in wanted:
            self._failed.pop(ref.id, None)
        self._wake.set()
        return wanted

    def stored(self) -> tuple[int, int]:
        """The number of objects of the topics that are open here, and their bytes."""
        refs = [ref.tiered for log in self._logs() for ref in log.refs if ref.tiered is not None]
        return len(refs), sum(each.size for each in refs)

    def lag(self) -> TierLag:
        """What is not tiered yet."""
        if self._tier is None:
            return TierLag()
        refs = [ref for log in self._logs() for ref in untiered(log.refs)]
        oldest = min((ref.first_time_us for ref in refs), default=0)
        seconds = max(0.0, (self._clock.wall_us() - oldest) / 1e6) if refs else 0.0
        return TierLag(len(refs), sum(ref.bytes for ref in refs), seconds)

    # ---- failures ----

    def _open(self) -> list[tuple[Topic, ManagedLedger]]:
        logs = [(topic, topic.log) for topic in self._topics()]
        return [
            (topic, log) for topic, log in logs if isinstance(log, ManagedLedger) and log.usable
        ]

    def _logs(self) -> list[ManagedLedger]:
        return [log for _, log in self._open()]

    def _pause(self) -> float:
        """Until the next round: half as long as the freshest topic may write a ledger."""
        fresh = (written_seconds(topic.policy, self.settings) for topic in self._topics())
        return min(self.settings.check_seconds, max(min(fresh, default=1.0) / 2, _SHORTEST_PAUSE))

    def _pausing(self, ledger: int, now: float) -> bool:
        failed = self._failed.get(ledger)
        return failed is not None and now < failed.until

    def failures(self) -> list[tuple[TopicName, str]]:
        """The topic or partition of each ledger that could not be tiered yet, and why."""
        return [(each.topic, each.why) for each in self._failed.values()]

    def _failure(self, topic: TopicName, ledger: int, why: str) -> None:
        self.counters.failures += 1
        before = self._failed.get(ledger)
        pause = _FIRST_PAUSE if before is None else min(2 * before.pause, _LAST_PAUSE)
        self._failed[ledger] = _Failed(topic, self._clock.now() + pause, pause, why)

    def _forget_failures(self, now: float) -> None:
        """Drop failures of ledgers that were not tried for long: another broker owns them now."""
        for ledger, failed in list(self._failed.items()):
            if now > failed.until + 2 * _LAST_PAUSE:
                del self._failed[ledger]
