"""What the journal holds: ledgers, tombstones, files, and what is damaged.

The index is memory only. It changes when something has become durable, in the order of the
journal, and ``recover`` builds the same index again from the files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from storage_grpc.entries import LedgerStat, PerhapsDamaged, absent, deleted
from storage_grpc.journal.format import JournalState, KnownFile, file_name
from storage_grpc.journal.runs import EntryRun, EntryRuns
from sulina.errors import SulinaError


class DamagedRange(NamedTuple):
    """Bytes of a journal file that were durable and of which nobody can tell what they held."""

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
        """Records end here."""
        self.ledgers: set[int] = set()
        """Ledgers with entries here that are not deleted."""
        self.gone: set[int] = set()
        """Deleted ledgers with entries here: they must not come back if the file is scanned."""
        self.sealed = False
        """Complete, and its index file is written."""
        self.damaged = False
        """Something in it, or all of it, is lost: it is kept, so that this is not forgotten."""


class IndexedLedger:
    """One ledger: its entries, and what it still accepts."""

    __slots__ = ("bytes", "deleting", "fenced", "fencing", "highest", "lac", "runs")

    def __init__(self) -> None:
        self.runs = EntryRuns()
        self.lac = -1
        self.fenced = False
        self.fencing = 0
        """Fences on their way to the disk: appends are refused from the call on."""
        self.deleting = 0
        """Deletes on their way to the disk."""
        self.highest = -1
        """Highest entry ever appended, durable or not: what is above it is certainly new."""
        self.bytes = 0

    @property
    def known(self) -> bool:
        """Whether something durable is behind it."""
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
    """All of it."""

    def __init__(self, tombstones: int) -> None:
        self.ledgers: dict[int, IndexedLedger] = {}
        self.tombstones: dict[int, None] = {}
        """Deleted ledgers, oldest first."""
        self.files: dict[int, JournalFile] = {}
        self.damage: list[DamagedRange] = []
        self._spare_tombstones = tombstones

    def ledger(self, ledger: int) -> IndexedLedger:
        """The ledger, made now if it is new."""
        known = self.ledgers.get(ledger)
        if known is None:
            known = self.ledgers[ledger] = IndexedLedger()
        return known

    def add_entry(
        self, ledger: int, entry: int, lac: int, file: JournalFile, position: int, length: int
    ) -> None:
        """A durable entry."""
        known = self.ledger(ledger)
        known.bytes += length - known.runs.add(entry, file.sequence, position, length)
        if lac > known.lac:
            known.lac = lac
        if entry > known.highest:
            known.highest = entry
        file.ledgers.add(ledger)

    def add_runs(self, ledger: int, lac: int, runs: Iterable[EntryRun]) -> None:
        """Entries found in a file; newer than all that were added before."""
        known = self.ledger(ledger)
        for run in runs:
            known.bytes += sum(run.lengths) - known.runs.insert(run)
            known.highest = max(known.highest, run.stop - 1)
            self.files[run.file].ledgers.add(ledger)
        known.lac = max(known.lac, lac)

    def fence(self, ledger: int, lac: int = -1) -> None:
        """A durable fence."""
        known = self.ledger(ledger)
        known.fenced = True
        known.lac = max(known.lac, lac)

    def forget(self, ledger: int) -> None:
        """A durable delete."""
        known = self.ledgers.pop(ledger, None)
        if known is not None:
            for sequence in {run.file for run in known.runs.items}:
                self.files[sequence].ledgers.discard(ledger)
                self.files[sequence].gone.add(ledger)
        self.tombstones[ledger] = None

    def prune(self, ledger: int) -> None:
        """Drop what is left of a ledger when its only append failed."""
        known = self.ledgers.get(ledger)
        if known is not None and not (known.known or known.fencing or known.deleting):
            del self.ledgers[ledger]

    def missing(self, ledger: int, entry: int) -> SulinaError:
        """The answer for an entry that is not in the index: absent, unless it may be damaged."""
        if ledger in self.tombstones:
            return deleted(ledger)
        if not self.damage:
            return absent(ledger, entry)
        where = self.damage[0]
        return PerhapsDamaged(
            f"entry {entry} of ledger {ledger} is not found, but may have been among the damaged "
            f"bytes {where.start} to {where.end} of {file_name(where.file)}: "
            "read it from another node, and replace this one"
        )

    def dead_files(self) -> list[JournalFile]:
        """Sealed files of which nothing is needed any more."""
        return [
            file
            for file in self.files.values()
            if file.sealed and not file.ledgers and not file.damaged
        ]

    def state(self, besides: int) -> JournalState:
        """What the file ``besides`` has to tell so that older ones need not be read for it."""
        self._trim_tombstones()
        return JournalState(
            files=[
                KnownFile(file.sequence, file.salt, file.end)
                for file in self.files.values()
                if file.sequence != besides
            ],
            fenced={ledger: known.lac for ledger, known in self.ledgers.items() if known.fenced},
            deleted=list(self.tombstones),
        )

    def _trim_tombstones(self) -> None:
        """Forget the oldest beyond the bound, but none whose entries are still in a file."""
        spare = len(self.tombstones) - self._spare_tombstones
        if spare <= 0:
            return
        needed = set().union(*(file.gone for file in self.files.values()))
        for ledger in [ledger for ledger in self.tombstones if ledger not in needed][:spare]:
            del self.tombstones[ledger]
