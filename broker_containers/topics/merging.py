"""Merges neighbouring small objects of topics into large ones, in the background, and rewrites on
request those whose typed columns are not of the schema that the topic has now.

Merges are rare and large enough that each record is rewritten few times: at least eight objects at
once, none of them larger than an eighth of the result. So objects grow by a factor of eight or more
until they reach the size of the setting. A broker works on one topic at a time, and rests as long
as it has worked: publishing and offloading come first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.replacing import MOST, Replacing, SchemasOf, mark_of, runs
from broker_containers.topics.resting import work_and_rest
from broker_containers.topics.tiering import TieringSettings
from broker_containers.topics.topic import Topic
from storage_grpc.tier.tier import Rewrite
from sulina.errors import Refused, SulinaError
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.metadata.keys.ledger_list import LedgerRef
from sulina.metadata.keys.policy import Policy
from sulina.names import TopicName
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_FEWEST = 8
_FRESH_TARGET = 128 << 20
"""The size for topics that make many small objects because they are to be fresh."""
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 300.0


@dataclass(frozen=True, slots=True)
class _Failed:
    until: float
    pause: float
    most: int
    """How many objects to merge at once next time: the last merge may have been too much."""


@dataclass(slots=True)
class MergeCounters:
    """Totals since the start."""

    merges: int = 0
    objects: int = 0
    """Objects that were replaced."""
    bytes: int = 0
    """Bytes of the objects that replace them."""
    failures: int = 0
    rewritten: int = 0
    """Objects that were replaced to get other typed columns."""


def outdated(refs: Sequence[LedgerRef], schema: str) -> list[LedgerRef]:
    """Ledgers whose objects were not written with this schema."""
    return [ref for ref in refs if ref.tiered is not None and ref.tiered.schema != schema]


def _rewritable(refs: Sequence[LedgerRef], schema: str) -> list[LedgerRef]:
    """The first run of such ledgers that can be replaced now."""
    wanted = {ref.id for ref in outdated(refs, schema)}
    for run in runs(refs, Rewrite.TYPED):
        for is_it, group in groupby(run, key=lambda ref: ref.id in wanted):
            if is_it:
                return list(group)
    return []


def _some(run: Sequence[LedgerRef], target_bytes: int) -> list[LedgerRef]:
    """The first ledgers of a run, at least one, that make an object of about a size."""
    sizes = accumulate(ref.tiered.size if ref.tiered is not None else 0 for ref in run)
    count = sum(1 for size in sizes if size <= target_bytes)
    return list(run[: min(max(count, 1), MOST)])


def target_bytes(policy: Policy, settings: TieringSettings) -> int:
    """Up to which size the objects of a topic are merged; 0: not at all."""
    fresh = _FRESH_TARGET if policy.freshness_ms else 0
    return policy.merge_bytes or settings.merge_bytes or fresh


def mergeable(refs: Sequence[LedgerRef], target_bytes: int, most: int = MOST) -> list[LedgerRef]:
    """Consecutive ledgers, at most ``most``, whose objects should become one of at most
    ``target_bytes``; or none."""
    for run in runs(refs):
        sizes = [ref.tiered.size if ref.tiered is not None else 0 for ref in run]
        for start in range(len(run) - _FEWEST + 1):
            end = _end_of_merge(sizes, start, start + most, target_bytes)
            if end is not None:
                return run[start:end]
    return []


def _end_of_merge(sizes: Sequence[int], start: int, stop: int, target_bytes: int) -> int | None:
    """Where the longest merge from ``start`` on ends, if there is one."""
    total = largest = 0
    found: int | None = None
    for at in range(start, min(stop, len(sizes))):
        total, largest = total + sizes[at], max(largest, sizes[at])
        if total > target_bytes:
            break
        if largest * _FEWEST <= total:
            found = at + 1
    return found


class Merging:
    """Works while :meth:`run` does. Where nothing is to be merged it finishes what was begun."""

    def __init__(
        self,
        replacing: Replacing,
        clock: Clock,
        settings: Callable[[], TieringSettings],
        topics: Callable[[], Iterable[Topic]],
        schemas_of: Callable[[], SchemasOf],
    ) -> None:
        self.counters = MergeCounters()
        self._replacing = replacing
        self._clock = clock
        self._settings = settings
        self._topics = topics
        self._schemas_of = schemas_of
        self._failed: dict[TopicName, _Failed] = {}

    async def run(self) -> None:
        """Run until cancelled. Failures are retried with increasing pauses."""
        await work_and_rest(self._clock, self.round, lambda: self._settings().check_seconds)

    async def round(self) -> None:
        """Merge once in each topic that needs it, one after the other."""
        if not self._replacing.ready:
            return
        topics = list(self._topics())
        for topic in topics:
            if isinstance(topic.log, ManagedLedger) and topic.log.usable:
                await self._try(topic.log, target_bytes(topic.policy, self._settings()))
        open_now = {topic.name for topic in topics}
        self._failed = {name: each for name, each in self._failed.items() if name in open_now}

    async def rewrite(self, log: ManagedLedger) -> list[LedgerRef]:
        """Have objects rewritten that have no typed columns, or those of other versions of the
        schema; returns which. May be repeated: what is left is returned. The request is durable:
        the topic's next owner continues.

        Raises ``Refused`` if the topic has no schema, or brokers make no typed columns.
        """
        schemas = await self._schemas(log)
        if not schemas:
            raise Refused(
                f"the objects of {log.topic} get no typed columns: the topic has no schema, or "
                "tier.typed_columns is false"
            )
        left = outdated(log.refs, mark_of(schemas))
        if left and not log.list.rewrite:
            await log.commit(lambda before: replace(before, rewrite=True))
        return left

    async def _try(self, log: ManagedLedger, target: int) -> None:
        failed = self._failed.get(log.topic, _Failed(0.0, _FIRST_PAUSE / 2, MOST))
        if self._clock.now() < failed.until or self._replacing.is_busy(log.topic):
            return
        try:
            if await self.merge(log, target, failed.most):
                self._failed.pop(log.topic, None)
        except SulinaError as error:
            pause = min(2 * failed.pause, _LAST_PAUSE)
            most = max(failed.most // 2, _FEWEST)
            self._failed[log.topic] = _Failed(self._clock.now() + pause, pause, most)
            self.counters.failures += 1
            _log.warning("merging objects of %s failed; will retry: %s", log.topic, error)

    async def merge(self, log: ManagedLedger, target: int = 0, most: int = MOST) -> bool:
        """Finish the replacement under way, or merge once, at most ``most`` objects to one of at
        most ``target`` bytes; returns whether there was something."""
        settings = self._settings()
        await log.settle()
        limits = {"seconds": settings.offload_seconds, "keep_seconds": settings.replaced_seconds}
        if log.replacement is not None:
            await self._replacing.resume(log, await self._schemas(log), **limits)
            return True
        replace_objects = self._replacing.replace_objects
        if log.list.rewrite:
            schemas = await self._schemas(log)
            found = _rewritable(log.refs, mark_of(schemas)) if schemas else []
            if found:
                old = _some(found[:most], target or _FRESH_TARGET)
                await replace_objects(log, old, Rewrite.TYPED, schemas, **limits)
                self.counters.rewritten += len(old)
                return True
            if not schemas or not outdated(log.refs, mark_of(schemas)):
                await log.commit(lambda before: replace(before, rewrite=False))
        small = mergeable(log.refs, target, most)
        if not small:
            return False
        schemas = await self._schemas(log)
        new = await replace_objects(log, small, Rewrite.MERGE, schemas, **limits)
        assert new.tiered is not None
        self.counters.merges += 1
        self.counters.objects += len(small)
        self.counters.bytes += new.tiered.size
        return True

    async def _schemas(self, log: ManagedLedger) -> Sequence[SchemaVersion]:
        return await self._schemas_of()(log.topic) if self._settings().typed_columns else ()
