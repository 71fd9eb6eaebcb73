"""Rebuilds the index from the journal files after any kind of stop.

Files with an index file are not scanned; in the others every checksum is verified. The
newest file is read first: each starts with a ``JournalState`` that lists the older files and where
they end, which distinguishes damage from a torn tail, and a lost file from a removed one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from storage_grpc.journal.contents import Contents, unpack_contents
from storage_grpc.journal.format import (
    DATA_START,
    FileHeader,
    JournalState,
    KnownFile,
    file_name,
    index_name,
    unpack_header,
)
from storage_grpc.journal.index import DamagedRange, Index, JournalFile
from storage_grpc.journal.scan import scan_file, zeros_from
from storage_grpc.journal.settings import JournalSettings
from sulina.errors import Refused
from sulina.runtime.seam import Disk, DiskFile

_NAME = re.compile(r"journal-([0-9a-f]{16})\.log")


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What the start of a journal found."""

    stopped: bool
    """The journal was closed before, or is new."""
    files: int
    scanned_files: int
    """Files without an index file: scanning them takes most of the time."""
    records: int
    bytes: int
    """Total size of all journal files."""
    cut_bytes: int
    """Size of the torn tail: never acknowledged, unless it was synced and damaged later."""
    corrupt_records: int
    """Damaged records in the scanned files whose identity is known."""
    damaged: tuple[DamagedRange, ...]
    """Ranges with unknown content. As long as there is one, no entry is called absent."""
    seconds: float

    @property
    def clean(self) -> bool:
        """Whether the journal was closed before or is new, and nothing is damaged."""
        return self.stopped and not self.damaged


@dataclass(slots=True)
class RecoveredJournal:
    """The result of a recovery, for the store."""

    index: Index
    incarnation: bytes | None
    """None if there was no journal."""
    next_sequence: int
    leftovers: list[str]
    """Files without content; removed once the new journal file exists."""
    stopped: bool = True
    cut_bytes: int = 0
    scanned: int = 0
    records: int = 0
    corrupt: int = 0

    def report(self, seconds: float) -> RecoveryReport:
        files = self.index.files.values()
        return RecoveryReport(
            stopped=self.stopped,
            files=len(files),
            scanned_files=self.scanned,
            records=self.records,
            bytes=sum(file.end for file in files),
            cut_bytes=self.cut_bytes,
            corrupt_records=self.corrupt,
            damaged=tuple(self.index.damage),
            seconds=seconds,
        )


async def recover(disk: Disk, settings: JournalSettings) -> RecoveredJournal:
    """Read all journal files. Raises ``Refused`` if they belong to several nodes."""
    names = set(await disk.list())
    sequences = sorted(int(m[1], 16) for name in names if (m := _NAME.fullmatch(name)))
    result = RecoveredJournal(
        index=Index(settings.tombstones),
        incarnation=None,
        next_sequence=sequences[-1] + 1 if sequences else 1,
        leftovers=[
            name
            for name in names
            if name.endswith(".idx") and name.removesuffix(".idx") + ".log" not in names
        ],
    )
    reader = _FolderReader(disk, names, settings.read_bytes, result)
    found = [
        contents
        for sequence in reversed(sequences)
        if (contents := await reader.read(sequence)) is not None
    ]
    found.reverse()
    _build(result, found, reader.expected)
    return result


class _FolderReader:
    """Reads journal files, the newest first."""

    def __init__(self, disk: Disk, names: set[str], chunk: int, result: RecoveredJournal) -> None:
        self._disk = disk
        self._names = names
        self._chunk = chunk
        self._result = result
        self._newest = True
        self.expected: dict[int, KnownFile] = {}
        """Files that must exist according to a newer one."""
        self._have_state = False
        self._dropped: set[int] = set()

    async def read(self, sequence: int) -> Contents | None:
        """The contents of one file; None if it has none and is to be removed."""
        file = await self._disk.open(file_name(sequence))
        try:
            contents = await self._read(sequence, file)
            if contents is None:
                return None
            if self._newest:
                await self._end(contents, file)
        finally:
            await file.close()
        self._newest = False
        self._dropped.update(contents.dropped)
        if contents.state is not None and not self._have_state:
            self._have_state = True
            self.expected = {
                known.sequence: known
                for known in contents.state.files
                if known.sequence not in self._dropped
            }
        return contents

    async def _read(self, sequence: int, file: DiskFile) -> Contents | None:
        header = unpack_header(await file.read(0, DATA_START))
        known = self.expected.get(sequence)
        contents = await self._from_index_file(sequence)
        if contents is not None and (header is None or contents.header == header):
            self._same_node(contents.header)
            self._result.records += contents.records
            return contents
        if header is not None:
            self._same_node(header)
        elif known is not None and self._result.incarnation is not None:
            header = FileHeader(sequence, known.salt, self._result.incarnation)
        elif await zeros_from(file, DATA_START, self._chunk) == DATA_START:
            # The header is durable before anything follows it: nothing was written to this file.
            self._result.leftovers.append(file_name(sequence))
            return None
        else:
            return await self._unreadable(sequence, file)
        if header.sequence != sequence:
            raise Refused(f"{file_name(sequence)} was renamed: its number is {header.sequence}")
        contents = await scan_file(file, header, known.end if known else None, self._chunk)
        self._result.scanned += 1
        self._result.records += contents.records
        self._result.corrupt += contents.corrupt
        return contents

    async def _unreadable(self, sequence: int, file: DiskFile) -> Contents:
        """A file with both copies of its header damaged, and no other file with its salt."""
        size = await file.size()
        lost = Contents(FileHeader(sequence, 0, b""), size, proven=size)
        lost.damage.append((0, size))
        return lost

    async def _end(self, contents: Contents, file: DiskFile) -> None:
        """Fix the end of the newest file, and make everything before it durable."""
        result = self._result
        result.stopped = contents.stopped
        result.cut_bytes = max(0, await zeros_from(file, contents.end, self._chunk) - contents.end)
        # Write again what may not be durable: after a failed sync the operating system may hold
        # pages that it takes for written but that are not on the disk.
        at = min(contents.proven, contents.end)
        while at < contents.end:
            data = await file.read(at, min(self._chunk, contents.end - at))
            if not data:
                break
            await file.write(at, [data], sync=False)
            at += len(data)
        await file.sync()
        if await file.size() > contents.end:
            await file.truncate(contents.end)

    async def _from_index_file(self, sequence: int) -> Contents | None:
        name = index_name(sequence)
        if name not in self._names:
            return None
        file = await self._disk.open(name)
        try:
            contents = unpack_contents(await file.read(0, await file.size()))
        finally:
            await file.close()
        return contents if contents is not None and contents.header.sequence == sequence else None

    def _same_node(self, header: FileHeader) -> None:
        if self._result.incarnation is None:
            self._result.incarnation = header.incarnation
        elif self._result.incarnation != header.incarnation:
            raise Refused(
                f"{file_name(header.sequence)} belongs to another node than the newer files in "
                "this folder: give each node its own folder"
            )


def _build(result: RecoveredJournal, found: list[Contents], expected: dict[int, KnownFile]) -> None:
    """Combine the contents of all files, oldest first."""
    index = result.index
    control = JournalState()
    state_file = 0
    for contents in found:
        sequence, salt, _ = contents.header
        file = index.files[sequence] = JournalFile(sequence, salt, contents.end)
        file.gone |= contents.gone
        file.sealed = contents.sealed
        if contents.state is not None:
            control = contents.state
            state_file = sequence
        control.fenced.update(contents.fenced)
        control.deleted.extend(contents.deleted)
    fences_may_be_lost = False
    for known in expected.values():
        if known.sequence not in index.files:
            index.files[known.sequence] = file = JournalFile(*known)
            file.damaged = file.sealed = True
            index.damage.append(DamagedRange(known.sequence, 0, known.end))
            result.next_sequence = max(result.next_sequence, known.sequence + 1)
            fences_may_be_lost |= known.sequence > state_file
    index.tombstones = dict.fromkeys(control.deleted)
    for contents in found:
        file = index.files[contents.header.sequence]
        for ledger, runs in contents.runs.items():
            if ledger in index.tombstones:
                file.gone.add(ledger)
            else:
                index.add_runs(ledger, contents.lacs[ledger], runs.items)
        for start, end in contents.damage:
            file.damaged = True
            index.damage.append(DamagedRange(file.sequence, start, end))
            fences_may_be_lost |= file.sequence >= state_file
    for ledger, lac in control.fenced.items():
        if ledger not in index.tombstones:
            index.fence(ledger, lac)
    if fences_may_be_lost:
        for known_ledger in index.ledgers.values():
            known_ledger.fenced = True
