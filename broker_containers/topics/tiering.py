"""Makes objects of the closed ledgers of the topics that are open here, and lets go of the entries.

The order is what keeps every record: the object is made and verified; then the topic's list says
so, by a swap that only its owner can make; then the entries are deleted; then the list says that,
too. Whatever is interrupted is found by the next round, here or at the next owner, and goes on
from where the list says it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.topic import Topic
from storage_grpc.tier.tier import OffloadJob, Tier, head_of
from sulina.errors import SulinaError, Unavailable
from sulina.metadata.keys import closing
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef, LedgerState, TieredRef
from sulina.metadata.store import Op
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_AT_A_TIME: Final = 64
"""Ledgers of one round for each that may be worked on at once; then it is looked again."""
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 300.0


@dataclass(frozen=True, slots=True)
class TieringSettings:
    """When ledgers become objects, and how long their entries stay."""

    after_seconds: float = 900.0
    """A ledger that was begun so long ago is closed, so that it can become an object."""
    check_seconds: float = 5.0
    """How often closed ledgers are looked for."""
    at_once: int = 2
    """Ledgers of this broker that become objects at the same time."""
    local_seconds: float = 300.0
    """Entries stay for so long after their ledger's last record, though the object is there."""
    local_bytes: int = 0
    """So many of a topic's newest bytes stay in any case."""
    offload_seconds: float = 900.0
    """An object that takes longer has failed, and is tried again."""


@dataclass(slots=True)
class TierCounters:
    """What was done so far."""

    objects: int = 0
    bytes: int = 0
    """Of frames that are in objects now."""
    object_bytes: int = 0
    failures: int = 0
    local_deleted: int = 0


@dataclass(frozen=True, slots=True)
class TierLag:
    """What is not in objects yet, though it could be."""

    ledgers: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Since the first record of the oldest such ledger was published."""


@dataclass(slots=True)
class _Failed:
    until: float
    pause: float


def untiered(refs: Iterable[LedgerRef]) -> list[LedgerRef]:
    """The ledgers that could become objects, the oldest first."""
    return [ref for ref in refs if ref.state is LedgerState.CLOSED and _wants_object(ref)]


def _wants_object(ref: LedgerRef) -> bool:
    return ref.tiered is None and ref.records > 0


def droppable(refs: Sequence[LedgerRef], settings: TieringSettings, now_us: int) -> list[LedgerRef]:
    """The ledgers whose entries may go, the oldest first: their objects are on the list."""
    found: list[LedgerRef] = []
    newer = 0
    for ref in reversed(refs):
        old = now_us - ref.last_time_us >= settings.local_seconds * 1e6
        if ref.tiered is not None and ref.tiered.local and old and newer >= settings.local_bytes:
            found.append(ref)
        newer += ref.bytes
    return found[::-1]


class Tiering:
    """Works for as long as :meth:`run` does; ``tier`` None: there is nothing to do."""

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
        self._tier = tier
        self._clock = clock
        self._topics = topics
        self._failed: dict[int, _Failed] = {}
        self._wake = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether there is an object store at present."""
        return self._tier is not None and self._tier.ready

    async def run(self) -> None:
        """Until cancelled. What fails is tried again, later and later."""
        if self._tier is None:
            return
        while True:
            self._wake.clear()
            if not await self.round():
                with suppress(TimeoutError):
                    await within(self._clock, self.settings.check_seconds, self._wake.wait())

    async def round(self) -> bool:
        """Do what can be done now; returns whether there is more."""
        if not self.ready:
            return False
        now = self._clock.now()
        work: list[tuple[ManagedLedger, LedgerRef]] = []
        for log in self._logs():
            try:
                await log.settle()
                if log.written_for >= self.settings.after_seconds:
                    await log.roll()
            except SulinaError as error:
                _log.warning("the ledgers of %s stay as they are for now: %s", log.topic, error)
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
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _try(self, log: ManagedLedger, ref: LedgerRef) -> None:
        if not log.usable:
            return
        try:
            await self.tier(log, ref)
            self._failed.pop(ref.id, None)
        except SulinaError as error:
            self._failure(ref.id)
            _log.warning("ledger %d of %s is no object yet: %s", ref.id, log.topic, error)
        except Exception:
            # Whatever it is, other ledgers must not wait for it.
            self._failure(ref.id)
            _log.exception("ledger %d of %s is no object yet", ref.id, log.topic)

    # ---- the steps ----

    async def tier(self, log: ManagedLedger, ref: LedgerRef) -> None:
        """Make an object of a closed ledger and note it in the topic's list."""
        assert self._tier is not None and ref.last_offset is not None
        assert ref.last_entry is not None
        job = OffloadJob(
            head_of(log.topic, ref), ref.last_offset, ref.last_entry, log.closing_frame(ref)
        )
        seconds = self.settings.offload_seconds
        try:
            tiered = await within(self._clock, seconds, self._tier.offload(job))
        except TimeoutError:
            raise Unavailable(f"no object was made of it within {seconds:g} s") from None
        if await self._note(log, ref, tiered, closing.puts(log.topic, ref.id, job.closing)):
            self.counters.objects += 1
            self.counters.bytes += ref.bytes
            self.counters.object_bytes += tiered.size

    async def _drop_all(self) -> None:
        for log in self._logs():
            try:
                await self.drop_local(log)
            except SulinaError as error:
                _log.warning("entries of %s stay for now, though not needed: %s", log.topic, error)

    async def drop_local(self, log: ManagedLedger) -> None:
        """Delete the entries of ledgers whose objects are on the list, and may be alone there."""
        while refs := droppable(log.refs, self.settings, self._clock.wall_us())[:_AT_A_TIME]:
            gone: dict[int, LedgerRef] = {}
            for ref in refs:
                assert ref.tiered is not None and ref.tiered.local
                await log.ledgers.delete(ref.id)
                gone[ref.id] = replace(ref, tiered=replace(ref.tiered, local=False))

            def without(before: LedgerList, gone: dict[int, LedgerRef] = gone) -> LedgerList:
                left = tuple(gone.get(ref.id, ref) for ref in before.ledgers)
                return replace(before, ledgers=left)

            await log.commit(without)
            self.counters.local_deleted += len(gone)

    async def _note(
        self, log: ManagedLedger, ref: LedgerRef, tiered: TieredRef, also: Sequence[Op]
    ) -> bool:
        """Swap the list; returns whether the ledger is still on it."""
        if all(each.id != ref.id for each in log.refs):
            return False
        await log.commit(lambda before: before.changed(replace(ref, tiered=tiered)), also)
        return True

    # ---- on demand ----

    async def flush(self, log: ManagedLedger) -> list[LedgerRef]:
        """Close the ledger being written and begin at once to make objects; those to be made."""
        await log.roll()
        wanted = untiered(log.refs)
        for ref in wanted:
            self._failed.pop(ref.id, None)
        self._wake.set()
        return wanted

    def lag(self) -> TierLag:
        """How far objects lie behind."""
        if self._tier is None:
            return TierLag()
        refs = [ref for log in self._logs() for ref in untiered(log.refs)]
        oldest = min((ref.first_time_us for ref in refs), default=0)
        seconds = max(0.0, (self._clock.wall_us() - oldest) / 1e6) if refs else 0.0
        return TierLag(len(refs), sum(ref.bytes for ref in refs), seconds)

    # ---- failures ----

    def _logs(self) -> list[ManagedLedger]:
        logs = [topic.log for topic in self._topics()]
        return [log for log in logs if isinstance(log, ManagedLedger) and log.usable]

    def _pausing(self, ledger: int, now: float) -> bool:
        failed = self._failed.get(ledger)
        return failed is not None and now < failed.until

    def _failure(self, ledger: int) -> None:
        self.counters.failures += 1
        before = self._failed.get(ledger)
        pause = _FIRST_PAUSE if before is None else min(2 * before.pause, _LAST_PAUSE)
        self._failed[ledger] = _Failed(self._clock.now() + pause, pause)

    def _forget_failures(self, now: float) -> None:
        """Those that nobody tried again for long are not ours any more."""
        for ledger, failed in list(self._failed.items()):
            if now > failed.until + 2 * _LAST_PAUSE:
                del self._failed[ledger]
