"""The index of the journal: ledgers, tombstones, files, and damaged ranges.

It is in memory only. It changes when records become durable, in the order of the journal;
``recover`` rebuilds the same index from the files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from storage_grpc.entries import LedgerStat, PerhapsDamaged, absent, deleted
from storage_grpc.journal.format import JournalState, KnownFile, file_name
from storage_grpc.journal.runs import EntryRun, EntryRuns
from sulina.errors import SulinaError


class DamagedRange(NamedTuple):
    """Bytes of a journal file that were durable, with unknown content."""

    file: int
    start: int
    end: int


class JournalFile:
    """One file of the journal."""

    __slots__ = ("damaged", "end", "gone", "ledgers", "salt", "sealed", "sequence")

    def __init__(self, sequence: int, salt: int, end: int) -> None:
        self.sequence = sequence
        self.salt = salt
        self.end = end
        """Where its records end."""
        self.ledgers: set[int] = set()
        """Ledgers with entries in this file that are not deleted."""
        self.gone: set[int] = set()
        """Deleted ledgers with entries in this file: a scan must not bring them back."""
        self.sealed = False
        """Whether it is complete and has its index file."""
        self.damaged = False
        """Whether part or all of it is lost. Such a file is kept as evidence of the damage."""


class IndexedLedger:
    """The entries of one ledger, and whether it accepts appends."""

    __slots__ = ("bytes", "deleting", "fenced", "fencing", "highest", "lac", "runs")

    def __init__(self) -> None:
        self.runs = EntryRuns()
        self.lac = -1
        self.fenced = False
        self.fencing = 0
        """Fences not durable yet: appends are refused as soon as a fence is requested."""
        self.deleting = 0
        """Deletes not durable yet."""
        self.highest = -1
        """Highest entry ever appended, durable or not: higher ones are certainly new."""
        self.bytes = 0

    @property
    def known(self) -> bool:
        """Whether it has a durable fence or entry."""
        return self.fenced or bool(self.runs.items)

    def stat(self) -> LedgerStat:
        runs = self.runs.items
        return LedgerStat(
            first_entry=runs[0].first if runs else -1,
            last_entry=runs[-1].stop - 1 if runs else -1,
            last_before_gap=self.runs.last_before_gap(),
            lac=self.lac,
            fenced=self.fenced,
            bytes=self.bytes,
        )


class Index:
    """The whole index."""

    def __init__(self, tombstones: int) -> None:
        self.ledgers: dict[int, IndexedLedger] = {}
        self.tombstones: dict[int, None] = {}
        """Deleted ledgers, oldest first."""
        self.files: dict[int, JournalFile] = {}
        self.damage: list[DamagedRange] = []
        self._spare_tombstones = tombstones

    def ledger(self, ledger: int) -> IndexedLedger:
        """The ledger, created if it is new."""
        known = self.ledgers.get(ledger)
        if known is None:
            known = self.ledgers[ledger] = IndexedLedger()
        return known

    def add_entry(
        self, ledger: int, entry: int, lac: int, file: JournalFile, position: int, length: int
    ) -> None:
        """Add a durable entry."""
        known = self.ledger(ledger)
        known.bytes += length - known.runs.add(entry, file.sequence, position, length)
        if lac > known.lac:
            known.lac = lac
        if entry > known.highest:
            known.highest = entry
        file.ledgers.add(ledger)

    def add_runs(self, ledger: int, lac: int, runs: Iterable[EntryRun]) -> None:
        """Add entries found in a file, newer than all added before."""
        known = self.ledger(ledger)
        for run in runs:
            known.bytes += sum(run.lengths) - known.runs.insert(run)
            known.highest = max(known.highest, run.stop - 1)
            self.files[run.file].ledgers.add(ledger)
        known.lac = max(known.lac, lac)

    def fence(self, ledger: int, lac: int = -1) -> None:
        """Apply a durable fence."""
        known = self.ledger(ledger)
        known.fenced = True
        known.lac = max(known.lac, lac)

    def forget(self, ledger: int) -> None:
        """Apply a durable delete."""
        known = self.ledgers.pop(ledger, None)
        if known is not None:
            for sequence in {run.file for run in known.runs.items}:
                self.files[sequence].ledgers.discard(ledger)
                self.files[sequence].gone.add(ledger)
        self.tombstones[ledger] = None

    def prune(self, ledger: int) -> None:
        """Remove a ledger without durable content, after its only append failed."""
        known = self.ledgers.get(ledger)
        if known is not None and not (known.known or known.fencing or known.deleting):
            del self.ledgers[ledger]

    def missing(self, ledger: int, entry: int) -> SulinaError:
        """The error for an entry that is not in the index: absent, unless it may be damaged."""
        if ledger in self.tombstones:
            return deleted(ledger)
        if not self.damage:
            return absent(ledger, entry)
        where = self.damage[0]
        return PerhapsDamaged(
            f"entry {entry} of ledger {ledger} is not found, but may have been in the damaged "
            f"bytes {where.start} to {where.end} of {file_name(where.file)}: "
            "read it from another node, and replace this one"
        )

    def dead_files(self) -> list[JournalFile]:
        """Sealed files that are no longer needed."""
        return [
            file
            for file in self.files.values()
            if file.sealed and not file.ledgers and not file.damaged
        ]

    def state(self, for_file: int) -> JournalState:
        """The state to write to the file ``for_file``."""
        self._trim_tombstones()
        return JournalState(
            files=[
                KnownFile(file.sequence, file.salt, file.end)
                for file in self.files.values()
                if file.sequence != for_file
            ],
            fenced={ledger: known.lac for ledger, known in self.ledgers.items() if known.fenced},
            deleted=list(self.tombstones),
        )

    def _trim_tombstones(self) -> None:
        """Remove the oldest beyond the limit, except those with entries still in a file."""
        spare = len(self.tombstones) - self._spare_tombstones
        if spare <= 0:
            return
        needed = set().union(*(file.gone for file in self.files.values()))
        for ledger in [ledger for ledger in self.tombstones if ledger not in needed][:spare]:
            del self.tombstones[ledger]
