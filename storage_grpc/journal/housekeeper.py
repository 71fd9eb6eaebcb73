"""Background work of the journal: seals complete files and removes unneeded ones.

Sealing frees unused space and writes the index file, so that the next start need not scan the file.
A file is removed when every ledger in it is deleted. The removal is recorded in the journal first,
so that the next start can tell a removed file from a lost one.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from storage_grpc.journal.commit import JournalCommitter
from storage_grpc.journal.contents import Contents, pack_contents
from storage_grpc.journal.files import OpenFiles
from storage_grpc.journal.format import FileHeader, RecordKind, file_name, index_name
from storage_grpc.journal.index import Index, JournalFile
from storage_grpc.journal.runs import EntryRuns
from storage_grpc.journal.writer import JournalWriter
from sulina.errors import StorageFailed, StorageFull
from sulina.runtime.seam import Disk


class Housekeeper:
    """One task that runs whenever ``wake`` is called."""

    def __init__(
        self,
        disk: Disk,
        index: Index,
        files: OpenFiles,
        writer: JournalWriter,
        incarnation: bytes,
    ) -> None:
        self._disk = disk
        self._index = index
        self._files = files
        self._writer = writer
        self._incarnation = incarnation
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self, committer: JournalCommitter) -> None:
        self._task = asyncio.create_task(self._run(committer), name="journal-housekeeper")

    def wake(self) -> None:
        self._wake.set()

    async def stop(self) -> None:
        """Do a last round of work, then end."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task

    async def seal(self, file: JournalFile, *, stopped: bool) -> None:
        """Cut a complete file to its content, and write its index file."""
        async with self._files.use(file.sequence) as handle:
            if await handle.size() > file.end:
                await handle.truncate(file.end)
        contents = Contents(
            header=FileHeader(file.sequence, file.salt, self._incarnation),
            end=file.end,
            stopped=stopped,
            state=self._index.state(for_file=file.sequence),
            gone=file.gone,
            damage=[
                (damaged.start, damaged.end)
                for damaged in self._index.damage
                if damaged.file == file.sequence
            ],
        )
        for ledger in file.ledgers:
            known = self._index.ledgers[ledger]
            runs = contents.runs[ledger] = EntryRuns()
            runs.items = [run for run in known.runs.items if run.file == file.sequence]
            contents.lacs[ledger] = known.lac
        await self._disk.replace(index_name(file.sequence), pack_contents(contents))
        file.sealed = True

    async def seal_all(self) -> None:
        """Seal all files after the stop was recorded, which may have begun a new one."""
        for file in [file for file in self._index.files.values() if not file.sealed]:
            await self.seal(file, stopped=file is self._writer.file)

    async def _run(self, committer: JournalCommitter) -> None:
        while True:
            last_round = self._stopping
            # Appends and reads do not depend on this work; the next round retries it.
            with suppress(StorageFull, StorageFailed):
                await self._tidy(committer)
            if last_round:
                return
            await self._wake.wait()
            self._wake.clear()

    async def _tidy(self, committer: JournalCommitter) -> None:
        for file in [file for file in self._index.files.values() if not file.sealed]:
            if file is not self._writer.file:
                await self.seal(file, stopped=False)
        for file in self._index.dead_files():
            await committer.control(RecordKind.DROP, file.sequence)
            await self._disk.remove(file_name(file.sequence))
            await self._disk.remove(index_name(file.sequence))
            await self._files.forget(file.sequence)
            del self._index.files[file.sequence]
