"""Compacts topics by key in the background: of tiered records, only the newest of a key is kept.

A round goes through the ledgers that are in objects only, from the oldest on, and replaces them run
by run. It is fixed at its beginning up to which offset records count, and which tombstones are old
enough to go; the topic's list keeps that, so that whoever owns the topic continues the round.

* A record goes only if a later one, below the round's end, has its key. The newest one stays, so a
  reader that gets past the round's end has seen the newest record of each key below it.
* A tombstone goes only if an earlier round has removed what it deletes, and ended
  ``tombstone_retention_ms`` before: a reader that got the record has had that long to get to the
  tombstone. And only if that round missed nothing that retention had removed before and that can
  still be restored. So no deleted key comes back.
* Offsets stay; consumers pass over the missing ones.

A round begins when enough was added since the last one (``tier.compact_percent``), so that each
record is rewritten few times. Ledgers that are still on storage nodes, and the newest closed one,
stay as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.replacing import (
    MOST,
    Replacing,
    SchemasOf,
    records_in,
    replaceable,
)
from broker_containers.topics.resting import work_and_rest
from broker_containers.topics.tiering import TieringSettings
from broker_containers.topics.topic import Topic
from sulina.errors import SulinaError
from sulina.metadata.keys.ledger_list import CompactionState, LedgerList, LedgerRef
from sulina.metadata.keys.policy import Policy
from sulina.names import TopicName
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 300.0
_MOST_OFFSETS = 1 << 26
"""Offsets of a run: a storage node keeps a byte for each while it works."""


@dataclass(slots=True)
class CompactionCounters:
    """Totals since the start."""

    rounds: int = 0
    objects: int = 0
    """Objects that were written."""
    records: int = 0
    """Records that were left out of them."""
    failures: int = 0


def ready_for_compaction(refs: Sequence[LedgerRef]) -> list[LedgerRef]:
    """The oldest ledgers with records, up to the first that cannot be replaced yet."""
    wanted = {ref.id for ref in replaceable(refs)}
    kept = (ref for ref in refs if ref.records or ref.last_offset is None)
    return list(takewhile(lambda ref: ref.id in wanted, kept))


def worth_a_round(refs: Sequence[LedgerRef], cleaned: int, percent: int) -> bool:
    """Whether enough was added after ``cleaned`` to compact these ledgers again."""
    added = sum(ref.bytes for ref in refs if (ref.last_offset or 0) >= cleaned)
    rest = sum(ref.bytes for ref in refs) - added
    return added > 0 and added * 100 >= rest * percent


def next_run(refs: Sequence[LedgerRef], state: CompactionState, most_bytes: int) -> list[LedgerRef]:
    """The ledgers to replace next in the round of ``state``; none at its end."""
    run: list[LedgerRef] = []
    for ref in refs:
        assert ref.last_offset is not None
        if ref.last_offset < state.done:
            continue
        full = run and (
            sum(each.bytes for each in run) + ref.bytes > most_bytes
            or ref.last_offset - run[0].first_offset >= _MOST_OFFSETS
            or len(run) == MOST
            or run[-1].last_offset != ref.first_offset - 1
            or run[0].first_offset < state.settled <= ref.last_offset  # other tombstones go
        )
        if full or ref.last_offset >= state.until:
            break
        run.append(ref)
    return run


class Compacting:
    """Works while :meth:`run` does, on one topic at a time, and rests as long as it has worked."""

    def __init__(
        self,
        replacing: Replacing,
        clock: Clock,
        settings: Callable[[], TieringSettings],
        topics: Callable[[], Iterable[Topic]],
        schemas_of: Callable[[], SchemasOf],
    ) -> None:
        self.counters = CompactionCounters()
        self._replacing = replacing
        self._clock = clock
        self._settings = settings
        self._topics = topics
        self._schemas_of = schemas_of
        self._paused: dict[TopicName, tuple[float, float]] = {}
        """Until when a topic is left alone after a failure, and the length of the pause."""

    async def run(self) -> None:
        """Run until cancelled. Failures are retried with increasing pauses."""
        await work_and_rest(self._clock, self.round, lambda: self._settings().check_seconds)

    async def round(self) -> None:
        """Take the next step in each topic that is compacted, one after the other."""
        if not self._replacing.ready:
            return
        open_now: set[TopicName] = set()
        for topic in self._topics():
            log = topic.log
            if isinstance(log, ManagedLedger) and log.usable and topic.policy.compact:
                open_now.add(log.topic)
                await self._try(topic, log)
        self._paused = {name: each for name, each in self._paused.items() if name in open_now}

    async def _try(self, topic: Topic, log: ManagedLedger) -> None:
        until, pause = self._paused.get(log.topic, (0.0, _FIRST_PAUSE / 2))
        if self._clock.now() < until:
            return
        try:
            if await self.step(log, topic.policy):
                topic.tail.drop_below(log.compaction.cleaned)
            self._paused.pop(log.topic, None)
        except SulinaError as error:
            pause = min(2 * pause, _LAST_PAUSE)
            self._paused[log.topic] = self._clock.now() + pause, pause
            self.counters.failures += 1
            _log.warning("compacting %s failed; will retry: %s", log.topic, error)

    async def step(self, log: ManagedLedger, policy: Policy) -> bool:
        """Begin a round, replace one run of ledgers, or end the round; False if there is nothing
        to do, or another replacement of the topic is under way."""
        await log.settle()
        if log.replacement is not None or self._replacing.is_busy(log.topic):
            return False
        settings = self._settings()
        refs = ready_for_compaction(log.refs)
        state = log.compaction
        if not state.until:
            if not worth_a_round(refs, state.cleaned, settings.compact_percent):
                return False
            state = self._begun(log.list, refs, policy)
            await self._store(log, state)
        run = next_run(refs, state, settings.compact_bytes)
        if not run:
            await self._store(log, self._ended(log.list, state))
            self.counters.rounds += 1
            return True
        before = sum(map(records_in, run))
        schemas = await self._schemas_of()(log.topic) if settings.typed_columns else ()
        new = await self._replacing.compact_objects(
            log,
            run,
            schemas,
            seconds=settings.offload_seconds,
            keep_seconds=settings.replaced_seconds,
        )
        self.counters.objects += 1
        self.counters.records += before - records_in(new)
        return True

    def _begun(
        self, list_: LedgerList, refs: Sequence[LedgerRef], policy: Policy
    ) -> CompactionState:
        state, last = list_.compaction or CompactionState(), refs[-1].last_offset
        assert last is not None
        kept_us = policy.tombstone_retention_ms * 1000
        old_us = self._clock.wall_us() - kept_us
        # Ledgers that were removed count: they can be restored.
        is_settled = list_.ledgers[0].first_offset >= state.settled_start
        drops = kept_us and is_settled and state.settled and state.settled_us <= old_us
        before_us = max(old_us, 0) if drops else 0
        return replace(state, done=0, start=0, until=last + 1, tombstones_before_us=before_us)

    def _ended(self, list_: LedgerList, state: CompactionState) -> CompactionState:
        """Tombstones below this round's end wait from now on; those of an earlier round have
        gone first, unless they have to wait for what was restored."""
        ended = replace(
            state,
            cleaned=max(state.done, state.cleaned),
            done=0,
            start=0,
            until=0,
            tombstones_before_us=0,
        )
        has_more = bool(list_.visible) and list_.visible[0].first_offset < state.settled_start
        if not state.settled or state.tombstones_before_us or has_more:
            return replace(
                ended,
                settled_start=state.start,
                settled=state.done,
                settled_us=self._clock.wall_us(),
            )
        return ended

    async def _store(self, log: ManagedLedger, state: CompactionState) -> None:
        def changed(before: LedgerList) -> LedgerList:
            return replace(before, compaction=state)

        await log.commit(changed)
