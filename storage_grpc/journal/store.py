"""``JournalStore``: entries of all ledgers in one journal on a disk.

Acknowledged entries survive a crash of the process or a power loss at any moment. While the disk is
full appends are refused; after a disk error they fail until a restart. Reads continue in both
cases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from crc32c import crc32c

from storage_grpc.entries import Entry, LedgerStat, check_ids, deleted, fenced, payload_buffers
from storage_grpc.journal.commit import JournalCommitter, JournalCounters
from storage_grpc.journal.files import OpenFiles
from storage_grpc.journal.format import RecordKind
from storage_grpc.journal.housekeeper import Housekeeper
from storage_grpc.journal.index import Index
from storage_grpc.journal.pending_record import PendingRecord
from storage_grpc.journal.reader import JournalReader
from storage_grpc.journal.recover import RecoveredJournal, RecoveryReport, recover
from storage_grpc.journal.settings import JournalSettings
from storage_grpc.journal.writer import JournalWriter
from storage_grpc.outcomes import Done, future_of
from sulina.errors import Closed, StorageFailed, StorageFull
from sulina.runtime.seam import Buffer, Clock, Disk, Randomness

_ENTRY = int(RecordKind.ENTRY)


class JournalStore:
    """``EntryStore`` on a disk. Created by :meth:`open`; the caller closes the disk after it."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        settings: JournalSettings,
        randomness: Randomness,
        recovered: RecoveredJournal,
        recovery: RecoveryReport,
    ) -> None:
        self.recovery = recovery
        """What the start found."""
        self._incarnation = recovered.incarnation or randomness.getrandbits(128).to_bytes(16)
        self._index: Index = recovered.index
        self._max_entry_bytes = settings.max_entry_bytes
        self._files = OpenFiles(disk, settings.open_files)
        self._writer = JournalWriter(
            disk,
            self._index,
            settings,
            randomness,
            self._incarnation,
            recovered.next_sequence,
            clock,
        )
        self._reader = JournalReader(self._index, self._files, settings.read_bytes)
        self._housekeeper = Housekeeper(
            disk, self._index, self._files, self._writer, self._incarnation
        )
        self._committer = JournalCommitter(
            self._index, self._writer, self._reader, settings, clock, self._housekeeper.wake
        )
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, disk: Disk, clock: Clock, settings: JournalSettings, randomness: Randomness
    ) -> Self:
        """Recover the journal and start a new file.

        Succeeds on a full disk too: then appends fail until there is space. Raises ``Refused`` if
        the folder holds files of several nodes, and ``StorageFailed``.
        """
        began = clock.now()
        recovered = await recover(disk, settings)
        recovery = recovered.report(clock.now() - began)
        store = cls(disk, clock, settings, randomness, recovered, recovery)
        try:
            await store._writer.prepare(0, spare=False)
            for name in recovered.leftovers:
                await disk.remove(name)
        except StorageFull as full:
            store._committer.starts_full(full)
        except BaseException:
            await store._committer.stop()
            raise
        store._housekeeper.start(store._committer)
        return store

    @property
    def unclean(self) -> bool:
        """Whether the last stop was not clean, or data was lost: "no such entry" may be wrong."""
        return not self.recovery.clean

    @property
    def incarnation(self) -> str:
        """Identity of this node's data, 32 hex digits; a new one if the folder was empty."""
        return self._incarnation.hex()

    def submit(
        self,
        ledger: int,
        entry: int,
        lac: int,
        payload: Buffer | Sequence[Buffer],
        done: Done,
        *,
        recovery: bool = False,
    ) -> None:
        if self._closing is not None:
            raise self._closed()
        self._committer.check_room()
        check_ids(ledger, entry, lac)
        buffers, length = payload_buffers(payload, self._max_entry_bytes)
        known = self._index.ledgers.get(ledger)
        if known is None:
            if ledger in self._index.tombstones:
                raise deleted(ledger)
            known = self._index.ledger(ledger)
        elif known.deleting:
            raise deleted(ledger)
        elif (known.fenced or known.fencing) and not recovery:
            raise fenced(ledger)
        maybe_stored = entry <= known.highest
        if not maybe_stored:
            known.highest = entry
        crc = 0
        for buffer in buffers:
            crc = crc32c(buffer, crc)
        self._committer.submit(
            PendingRecord(done, _ENTRY, ledger, entry, lac, buffers, length, crc, maybe_stored)
        )

    def append(
        self,
        ledger: int,
        entry: int,
        lac: int,
        payload: Buffer | Sequence[Buffer],
        *,
        recovery: bool = False,
    ) -> asyncio.Future[None]:
        return future_of(
            lambda done: self.submit(ledger, entry, lac, payload, done, recovery=recovery)
        )

    async def read(
        self,
        ledger: int,
        first: int,
        *,
        max_entries: int,
        max_bytes: int,
        head: int | None = None,
    ) -> list[Entry]:
        if self._closing is not None:
            raise self._closed()
        return await self._reader.read(ledger, first, max_entries, max_bytes, head)

    async def fence(self, ledger: int) -> int:
        if self._closing is not None:
            raise self._closed()
        check_ids(ledger, 0, -1)
        if ledger in self._index.tombstones:
            raise deleted(ledger)
        known = self._index.ledger(ledger)
        if known.deleting:
            raise deleted(ledger)
        if not known.fenced:
            done = self._committer.control(RecordKind.FENCE, ledger, known.lac)
            known.fencing += 1
            await done
        return known.lac

    async def delete(self, ledger: int) -> None:
        if self._closing is not None:
            raise self._closed()
        check_ids(ledger, 0, -1)
        if ledger not in self._index.tombstones:
            done = self._committer.control(RecordKind.DELETE, ledger)
            self._index.ledger(ledger).deleting += 1
            await done

    def stat(self, ledger: int) -> LedgerStat | None:
        known = self._index.ledgers.get(ledger)
        return known.stat() if known is not None and known.known else None

    def ledgers(self) -> list[int]:
        return sorted(ledger for ledger, known in self._index.ledgers.items() if known.known)

    @property
    def pending_bytes(self) -> int:
        return self._committer.pending_bytes

    def check_room(self) -> None:
        """Raise ``Overloaded`` or ``StorageFailed`` if it takes no entries now."""
        self._committer.check_room()

    @property
    def full(self) -> StorageFull | None:
        """Why entries are refused for lack of space; None while there is space."""
        return self._committer.full

    @property
    def reserved_bytes(self) -> int:
        """Bytes that entries may take even if nothing else is free: a full disk is noticed after
        that."""
        return self._writer.reserved_bytes

    @property
    def refused_full(self) -> int:
        """Entries refused for lack of space so far."""
        return self._committer.refused_full

    @property
    def counters(self) -> JournalCounters:
        """What became durable since the start."""
        return self._committer.counters

    @property
    def ledger_counts(self) -> tuple[int, int]:
        """Number of ledgers, and how many of them are fenced."""
        known = [each for each in self._index.ledgers.values() if each.known]
        return len(known), sum(each.fenced for each in known)

    @property
    def usage(self) -> tuple[int, int]:
        """Number of journal files, and their total size in bytes."""
        files = self._index.files.values()
        return len(files), sum(file.end for file in files)

    async def wait_writable(self) -> None:
        await self._committer.wait_writable()

    async def close(self, *, clean: bool = True) -> None:
        """Close the journal. A clean stop is recorded, unless the disk failed or is full.

        Without ``clean`` it is not recorded, and the next start treats this as a crash.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(clean), name="journal-close")
        await asyncio.shield(self._closing)

    async def _close(self, clean: bool) -> None:
        await self._housekeeper.stop()
        with suppress(StorageFull, StorageFailed):
            if self._writer.file is not None and clean:
                await self._committer.control(RecordKind.STOP, 0)
                await self._housekeeper.seal_all()
        await self._committer.stop()
        with suppress(StorageFailed):
            await self._writer.close()
            await self._files.close()

    def _closed(self) -> Closed:
        return Closed("the entry store was closed")
