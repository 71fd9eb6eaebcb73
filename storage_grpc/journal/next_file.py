"""Writes the next journal file with zeros while the current one is in use.

A sync of data in space that was only reserved also records that the space is in use now, which is a
second write that waits for everything else the file system has to record. Where zeros were written
before, a sync writes the data and nothing else.

The next file is another file, without a header, until the writer takes it: nothing here touches a
byte that may hold a record, and a start removes what was not taken.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from storage_grpc.journal.format import file_name
from storage_grpc.journal.settings import JournalSettings
from sulina.errors import StorageFailed, StorageFull
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock, Disk, DiskFile

_PIECE_BYTES = 1 << 20
_PAUSE_SECONDS = 0.01
"""Between two pieces, so that the disk serves appends first."""
_BUSY_BYTES = 256 << 10
"""While this much is appended in a pause, nothing is prepared: about 25 MB/s. Syncs of much data at
once gain little, and the disk has other work."""


@dataclass(frozen=True, slots=True)
class PreparedFile:
    """A file of zeros without a header."""

    handle: DiskFile
    reserved: int
    """Its size."""
    zeros: int
    """Size of the part that was written."""


class NextFile:
    """Prepares one file at a time, in a task of its own. Use it on the event loop."""

    def __init__(self, disk: Disk, settings: JournalSettings, clock: Clock) -> None:
        self._disk = disk
        self._step = settings.reserve_bytes
        self._clock = clock
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._name = ""
        self._handle: DiskFile | None = None
        self._reserved = 0
        self._zeros = 0
        self._appended = 0

    @property
    def begun(self) -> bool:
        """Whether the file is being prepared, is ready, or could not be prepared."""
        return self._task is not None

    @property
    def ready(self) -> bool:
        """Whether the whole file is prepared."""
        return self._task is not None and self._task.done() and self._handle is not None

    @property
    def reserved_bytes(self) -> int:
        """Disk space that the next file has already."""
        return self._reserved

    def appended(self, size: int) -> None:
        """Note that the current file got ``size`` bytes: preparing waits while it gets many."""
        self._appended += size

    def begin(self, sequence: int, length: int) -> None:
        """Start to prepare the file ``sequence``. Without space for it, there will be none."""
        self._name = file_name(sequence)
        self._stopping.clear()
        self._task = asyncio.create_task(self._prepare(length), name="journal-next-file")

    async def take(self) -> PreparedFile | None:
        """The file as far as it is prepared, which the caller owns from now on; None if there is
        none. Waits for the piece that is being written."""
        await self._stop()
        handle, self._handle = self._handle, None
        if handle is None:
            return None
        prepared = PreparedFile(handle, self._reserved, self._zeros)
        self._reserved = self._zeros = 0
        return prepared

    async def remove(self) -> None:
        """Stop preparing, and delete the file."""
        await self._stop()
        await self._discard()

    async def _stop(self) -> None:
        self._stopping.set()
        if self._task is not None:
            await self._task
            self._task = None

    async def _prepare(self, length: int) -> None:
        try:
            self._handle = await self._disk.open(self._name, create=True)
            while self._zeros < length and not await self._stopped():
                if self._appended <= _BUSY_BYTES:
                    await self._add_piece(self._handle, length)
                self._appended = 0
        except (StorageFull, StorageFailed):
            # The next file is started without it, which meets the same fault if it lasts.
            with suppress(StorageFull, StorageFailed):
                await self._discard()

    async def _add_piece(self, handle: DiskFile, length: int) -> None:
        end = min(self._zeros + _PIECE_BYTES, length)
        if end > self._reserved:
            reserved = min(max(self._reserved + self._step, end), length)
            await handle.reserve(reserved)
            self._reserved = reserved
        await handle.prewrite(self._zeros, end - self._zeros)
        self._zeros = end

    async def _stopped(self) -> bool:
        with suppress(TimeoutError):
            await within(self._clock, _PAUSE_SECONDS, self._stopping.wait())
        return self._stopping.is_set()

    async def _discard(self) -> None:
        handle, self._handle = self._handle, None
        self._reserved = self._zeros = 0
        if handle is not None:
            await handle.close()
            await self._disk.remove(self._name)
