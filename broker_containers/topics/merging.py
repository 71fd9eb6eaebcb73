"""Merges neighbouring small objects of topics into large ones, in the background.

Merges are rare and large enough that each record is rewritten few times: at least eight objects at
once, none of them larger than an eighth of the result. So objects grow by a factor of eight or more
until they reach the size of the setting. A broker works on one topic at a time, and rests as long
as it has worked: publishing and offloading come first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.replacing import MOST, Replacing, SchemasOf, runs
from broker_containers.topics.tiering import TieringSettings
from broker_containers.topics.topic import Topic
from storage_grpc.tier.tier import Rewrite
from sulina.errors import SulinaError
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.metadata.keys.ledger_list import LedgerRef
from sulina.names import TopicName
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_FEWEST = 8
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
    """Works while :meth:`run` does; with ``merge_bytes`` of 0 it only finishes what was begun."""

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
        while True:
            began = self._clock.now()
            await self.round()
            worked = self._clock.now() - began
            await self._clock.sleep(max(worked, self._settings().check_seconds))

    async def round(self) -> None:
        """Merge once in each topic that needs it, one after the other."""
        if not self._replacing.ready:
            return
        logs = [topic.log for topic in self._topics()]
        for log in logs:
            if isinstance(log, ManagedLedger) and log.usable:
                await self._try(log)
        open_now = {log.topic for log in logs if isinstance(log, ManagedLedger)}
        self._failed = {name: each for name, each in self._failed.items() if name in open_now}

    async def _try(self, log: ManagedLedger) -> None:
        failed = self._failed.get(log.topic, _Failed(0.0, _FIRST_PAUSE / 2, MOST))
        if self._clock.now() < failed.until or self._replacing.is_busy(log.topic):
            return
        try:
            if await self.merge(log, failed.most):
                self._failed.pop(log.topic, None)
        except SulinaError as error:
            pause = min(2 * failed.pause, _LAST_PAUSE)
            most = max(failed.most // 2, _FEWEST)
            self._failed[log.topic] = _Failed(self._clock.now() + pause, pause, most)
            self.counters.failures += 1
            _log.warning("merging objects of %s failed; will retry: %s", log.topic, error)

    async def merge(self, log: ManagedLedger, most: int = MOST) -> bool:
        """Finish the replacement under way, or merge once, at most ``most`` objects; returns
        whether there was something."""
        settings = self._settings()
        await log.settle()
        limits = {"seconds": settings.offload_seconds, "keep_seconds": settings.replaced_seconds}
        if log.replacement is not None:
            await self._replacing.resume(log, await self._schemas(log), **limits)
            return True
        small = mergeable(log.refs, settings.merge_bytes, most)
        if not small:
            return False
        schemas = await self._schemas(log)
        new = await self._replacing.replace_objects(log, small, Rewrite.MERGE, schemas, **limits)
        assert new.tiered is not None
        self.counters.merges += 1
        self.counters.objects += len(small)
        self.counters.bytes += new.tiered.size
        return True

    async def _schemas(self, log: ManagedLedger) -> Sequence[SchemaVersion]:
        return await self._schemas_of()(log.topic) if self._settings().typed_columns else ()
