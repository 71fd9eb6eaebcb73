"""Group commit: all waiting records go to the disk in one write with one sync.

While a group is written the next one collects, so groups grow with the load, and an append to an
idle journal is written immediately. One task does all of it, in order. The index changes and
outcomes are reported only after the sync.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from storage_grpc.journal.format import RecordKind, record_size
from storage_grpc.journal.index import Index
from storage_grpc.journal.pending_record import PendingRecord, control_record, look_for_stored
from storage_grpc.journal.reader import JournalReader
from storage_grpc.journal.settings import JournalSettings
from storage_grpc.journal.writer import JournalWriter, RecordGroup
from storage_grpc.outcomes import future_of, tell
from sulina.errors import Overloaded, StorageFailed, StorageFull, SulinaError
from sulina.metrics.histogram import SECONDS, Histogram
from sulina.runtime import stages
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock
from sulina.runtime.stages import Stage

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 2.0
"""How often a full journal looks for space while nothing is appended."""
_LOG_SECONDS = 60.0
"""How often a full journal is logged at most."""


@dataclass(slots=True)
class JournalCounters:
    """What became durable since the start."""

    entries: int = 0
    bytes: int = 0
    sync_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    """Of each write, which includes its sync."""

    def written(self, records: list[PendingRecord], seconds: float) -> None:
        """A group of records was written."""
        lengths = [item.length for item in records if item.kind == RecordKind.ENTRY]
        self.entries += len(lengths)
        self.bytes += sum(lengths)
        self.sync_seconds.add(seconds)


class JournalCommitter:
    """Makes records durable and applies them to the index. Create it on the event loop."""

    def __init__(
        self,
        index: Index,
        writer: JournalWriter,
        reader: JournalReader,
        settings: JournalSettings,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self._index = index
        self._writer = writer
        self._reader = reader
        self._group_bytes = settings.group_bytes
        self._high_water = settings.max_pending_bytes
        self._changed = changed
        """Called when a file was completed or a ledger deleted."""
        self._waiting: deque[PendingRecord] = deque()
        self._wake = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._stopping = False
        self.pending_bytes = 0
        self._failure: Exception | None = None
        """Why it takes no more records."""
        self.full: StorageFull | None = None
        """Why the last entries were refused; None once there is space for them again."""
        self.refused_full = 0
        """Entries refused because there was no space."""
        self.counters = JournalCounters()
        self._refused_bytes = 0
        self._clock = clock
        self._log_from = clock.now()
        self._logged = False
        """Whether the log says that it is full."""
        self._space_since = 0.0
        self._task = asyncio.create_task(self._run(), name="journal-commit")

    def submit(self, item: PendingRecord) -> None:
        """Queue a record; outcomes are reported in the order of the calls."""
        self._waiting.append(item)
        self.pending_bytes += item.length
        if self.pending_bytes >= self._high_water:
            self._writable.clear()
        self._wake.set()

    def check_room(self) -> None:
        """Raise ``Overloaded`` or ``StorageFailed`` if it takes no entries now."""
        if self._failure is not None:
            raise self._failed(self._failure)
        if self.pending_bytes >= self._high_water:
            raise Overloaded(
                f"{self.pending_bytes} bytes wait to become durable and the limit is "
                f"{self._high_water}: wait until the journal is writable again"
            )

    def control(self, kind: RecordKind, ledger: int, lac: int = -1) -> asyncio.Future[None]:
        """Queue a record that is not an entry. Cancelling the future does not stop it."""
        if self._failure is not None:
            raise self._failed(self._failure)
        return future_of(lambda done: self.submit(control_record(done, kind, ledger, lac)))

    async def wait_writable(self) -> None:
        """Wait until half of the allowed bytes are free."""
        await self._writable.wait()

    async def stop(self) -> None:
        """Write all waiting records, then end."""
        self._stopping = True
        self._wake.set()
        await self._task

    async def _run(self) -> None:
        while not (self._stopping and not self._waiting):
            try:
                await self._woken()
            except TimeoutError:
                if self.full is not None:
                    await self._look_for_space()
                self._log_space()
                continue
            self._wake.clear()
            while self._waiting:
                await self._commit_next()
            self._log_space()

    async def _woken(self) -> None:
        if self.full is None and not self._logged:
            await self._wake.wait()
        else:
            await within(self._clock, _LOOK_SECONDS, self._wake.wait())

    async def _look_for_space(self) -> None:
        """Find out whether what was refused would fit now, so that no append has to be tried."""
        before = self._writer.file
        try:
            file = await self._writer.prepare(self._refused_bytes, spare=True)
        except StorageFull as full:
            self.full = full
        except Exception as error:
            self._failure = error
        else:
            if file is not before:
                self._changed()
            self._has_space()

    def starts_full(self, full: StorageFull) -> None:
        """There was no space for a first file: look for some."""
        self.full, self._logged = full, True
        _log.warning("the journal refuses appends until there is space: %s", full)
        self._wake.set()

    def _is_full(self, full: StorageFull, entries: list[PendingRecord]) -> None:
        self.refused_full += len(entries)
        self._refused_bytes = max(record_size(item.length) for item in entries)
        self.full, now = full, self._clock.now()
        if not self._logged or now >= self._log_from:
            self._log_from, self._logged = now + _LOG_SECONDS, True
            _log.warning("the journal refuses appends until there is space: %s", full)

    def _has_space(self) -> None:
        self.full, self._space_since = None, self._clock.now()

    def _log_space(self) -> None:
        """Log that there is space again, once that lasts: on a nearly full disk small appends still
        fit between large ones."""
        lasts = self._clock.now() >= self._space_since + _LOOK_SECONDS
        if self._logged and self.full is None and lasts:
            self._logged = False
            _log.warning("the journal has space again and takes appends")

    async def _commit_next(self) -> None:
        group = self._take()
        try:
            await self._commit(group)
        except Exception as error:
            # Any error, so that no caller waits forever. A failed sync is never retried: the next
            # one may succeed without having written what the first one did not.
            self._failure = error
            _log.error("%s", self._failed(error))
            group += self._waiting
            self._waiting.clear()
            self._refuse(group, self._failed(error))

    def _take(self) -> list[PendingRecord]:
        waiting = self._waiting
        group = [waiting.popleft()]
        size = group[0].length
        while waiting and (size := size + waiting[0].length) <= self._group_bytes:
            group.append(waiting.popleft())
        return group

    async def _commit(self, group: list[PendingRecord]) -> None:
        await look_for_stored(group, self._reader)
        try:
            await self._write(group)
        except StorageFull as full:
            # All waiting entries fail too, so that none is stored after one that was not.
            everything = [*group, *self._waiting]
            self._waiting.clear()
            group[:] = [item for item in everything if item.kind != RecordKind.ENTRY]
            entries = [item for item in everything if item.kind == RecordKind.ENTRY]
            if entries:
                self._is_full(full, entries)
            self._refuse(entries, full)
            try:
                await self._write(group)
            except StorageFull as still_full:
                self._refuse(group, still_full)

    async def _write(self, group: list[PendingRecord]) -> None:
        """Make a group durable, then apply it. If this raises ``StorageFull`` nothing happened."""
        records = [item for item in group if not item.stored]
        if records:
            before = self._writer.file
            file = await self._writer.prepare(
                sum([record_size(item.length) for item in records]),
                spare=any(item.kind == RecordKind.ENTRY for item in records),
            )
            if file is not before:
                self._changed()
            layout = RecordGroup(file)
            for item in records:
                item.position = layout.add(
                    item.kind,
                    item.ledger,
                    item.entry,
                    item.lac,
                    item.buffers,
                    item.length,
                    item.crc,
                )
            began = self._clock.now()
            if stages.traces:
                stages.last_write = (0, 0)
                stages.mark_all([item.buffers[0] for item in records], Stage.GROUPED)
            await self._writer.write(layout)
            if stages.traces:
                _mark_written(records)
            self.counters.written(records, self._clock.now() - began)
            if self.full is not None and any(item.kind == RecordKind.ENTRY for item in records):
                self._has_space()
        for item in group:
            self._apply(item)
        self._release(group)
        for item in group:
            tell(item.done, item.refusal)

    def _apply(self, item: PendingRecord) -> None:
        """Apply a durable record to the index."""
        index = self._index
        if item.kind == RecordKind.ENTRY:
            if not item.stored:
                file = self._writer.file
                assert file is not None
                index.add_entry(item.ledger, item.entry, item.lac, file, item.position, item.length)
        elif item.kind == RecordKind.FENCE:
            index.fence(item.ledger)
            index.ledger(item.ledger).fencing -= 1
        elif item.kind == RecordKind.DELETE:
            index.forget(item.ledger)
            self._changed()

    def _refuse(self, items: list[PendingRecord], error: SulinaError) -> None:
        """Fail records that will not become durable."""
        for item in items:
            known = self._index.ledgers.get(item.ledger)
            if known is not None:
                known.fencing -= item.kind == RecordKind.FENCE
                known.deleting -= item.kind == RecordKind.DELETE
                self._index.prune(item.ledger)
        self._release(items)
        for item in items:
            tell(item.done, error)

    def _failed(self, error: Exception) -> StorageFailed:
        failed = StorageFailed(
            f"the journal takes no more appends after a disk error ({error}): check the disk and "
            "restart the node; reads continue"
        )
        failed.__cause__ = error
        return failed

    def _release(self, items: list[PendingRecord]) -> None:
        self.pending_bytes -= sum(item.length for item in items)
        if self.pending_bytes <= self._high_water // 2:
            self._writable.set()


def _mark_written(records: list[PendingRecord]) -> None:
    frames = [item.buffers[0] for item in records]
    began, ended = stages.last_write
    if began:
        stages.mark_all(frames, Stage.WRITING, began)
        stages.mark_all(frames, Stage.SYNCED, ended)
    stages.mark_all(frames, Stage.RESUMED)
