"""Journal files that are open for reads: a bounded number, never closed while in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from storage_grpc.journal.format import file_name
from sulina.runtime.seam import Disk, DiskFile


class _Handle:
    __slots__ = ("file", "users")

    def __init__(self, file: DiskFile) -> None:
        self.file = file
        self.users = 0


class OpenFiles:
    """Opens files on first use; beyond ``limit`` it closes the least recently used."""

    def __init__(self, disk: Disk, limit: int) -> None:
        self._disk = disk
        self._limit = limit
        self._handles: dict[int, _Handle] = {}
        """Least recently used first."""
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def use(self, sequence: int) -> AsyncIterator[DiskFile]:
        """The journal file with this sequence, open until the block ends.

        Raises ``NotFound`` if it was removed.
        """
        handle = self._handles.pop(sequence, None)
        if handle is None:
            async with self._opening:
                handle = self._handles.pop(sequence, None)
                if handle is None:
                    handle = _Handle(await self._disk.open(file_name(sequence)))
                self._handles[sequence] = handle
        else:
            self._handles[sequence] = handle
        handle.users += 1
        try:
            yield handle.file
        finally:
            handle.users -= 1
            if handle.users == 0 and self._handles.get(sequence) is not handle:
                await handle.file.close()
            elif len(self._handles) > self._limit:
                await self._close_oldest()

    async def forget(self, sequence: int) -> None:
        """Close the file as soon as no read uses it."""
        async with self._opening:
            handle = self._handles.pop(sequence, None)
        if handle is not None and handle.users == 0:
            await handle.file.close()

    async def close(self) -> None:
        for sequence in list(self._handles):
            await self.forget(sequence)

    async def _close_oldest(self) -> None:
        for sequence, handle in self._handles.items():
            if handle.users == 0:
                await self.forget(sequence)
                return
