"""The file that the journal appends to: its space, its position, and the step to the next file.

Records are only ever added behind those that are durable. When a write finds the disk full, what
it left behind is cut off before anything else is written, so nothing half-written comes back.
"""

from __future__ import annotations

from collections.abc import Sequence

from crc32c import crc32c

from storage_grpc.journal.format import (
    DATA_START,
    FileHeader,
    RecordKind,
    file_name,
    pack_header,
    pack_image,
    pack_state,
    record_size,
)
from storage_grpc.journal.index import Index, JournalFile
from storage_grpc.journal.settings import JournalSettings
from sulina.errors import StorageFull
from sulina.runtime.seam import Buffer, Disk, DiskFile, Randomness

_PADDING = [bytes(-length % 8) for length in range(8)]
_STATE_COPIES = 2


class RecordGroup:
    """Records on their way to the disk in one write, laid out from a position on."""

    __slots__ = ("_salt", "_synced", "buffers", "end")

    def __init__(self, file: JournalFile) -> None:
        self._salt = file.salt
        self._synced = file.end
        self.buffers: list[Buffer] = []
        self.end = file.end

    def add(
        self,
        kind: int,
        ledger: int,
        entry: int,
        lac: int,
        payload: Sequence[Buffer],
        length: int,
        payload_crc: int,
    ) -> int:
        """Add a record; returns its position."""
        position = self.end
        image = pack_image(
            kind, self._salt, position, self._synced, ledger, entry, lac, length, payload_crc
        )
        buffers = self.buffers
        buffers.append(image)
        buffers.extend(payload)
        buffers.append(_PADDING[length & 7] + image)
        self.end = position + record_size(length)
        return position


class JournalWriter:
    """Writes groups to the newest file, and starts the next one when it is full.

    One caller at a time. ``StorageFull`` leaves everything as it was; after ``StorageFailed``
    the writer must not be used again.
    """

    def __init__(
        self,
        disk: Disk,
        index: Index,
        settings: JournalSettings,
        randomness: Randomness,
        incarnation: bytes,
        next_sequence: int,
    ) -> None:
        self._disk = disk
        self._index = index
        self._settings = settings
        self._randomness = randomness
        self._incarnation = incarnation
        self._next_sequence = next_sequence
        self._handle: DiskFile | None = None
        self._reserved = 0
        self.file: JournalFile | None = None
        """The file written to; None as long as there was no space for one."""

    async def prepare(self, size: int, *, spare: bool) -> JournalFile:
        """The file that takes the next ``size`` bytes, with space for them.

        With ``spare`` the settings' ``spare_bytes`` stay free behind them. Raises
        ``StorageFull``.
        """
        limit = self._settings.file_bytes
        if self.file is None:
            await self._start_file()
        elif self.file.end + size > limit and self.file.end > DATA_START:
            try:
                await self._start_file()
            except StorageFull:
                # Fences and deletes may still fit into the space kept for them.
                if spare:
                    raise
        assert self.file is not None
        assert self._handle is not None
        wanted = self.file.end + size + (self._settings.spare_bytes if spare else 0)
        self._reserved = await self._reserve(self._handle, self._reserved, wanted)
        return self.file

    async def write(self, group: RecordGroup) -> None:
        """Make a group durable. It was laid out from the end of the file on."""
        assert self.file is not None
        assert self._handle is not None
        try:
            await self._handle.write(self.file.end, group.buffers, sync=True)
        except StorageFull:
            await self._handle.truncate(self.file.end)
            self._reserved = self.file.end
            raise
        self.file.end = group.end

    async def close(self) -> None:
        if self._handle is not None:
            await self._handle.close()
            self._handle = None

    async def _reserve(self, handle: DiskFile, reserved: int, wanted: int) -> int:
        """Have ``wanted`` bytes in the file, in large steps as long as there is space for them.

        Returns how many there are now.
        """
        if wanted <= reserved:
            return reserved
        step = self._settings.reserve_bytes
        ahead = max(wanted, min(-(-wanted // step) * step, self._settings.file_bytes))
        try:
            await handle.reserve(ahead)
            return ahead
        except StorageFull:
            await handle.reserve(wanted)
            return wanted

    async def _start_file(self) -> None:
        """Make the next file the one written to. On ``StorageFull`` nothing has changed."""
        sequence = self._next_sequence
        salt = self._randomness.getrandbits(64)
        file = JournalFile(sequence, salt, DATA_START)
        state = pack_state(self._index.state(besides=sequence))
        group = RecordGroup(file)
        for _ in range(_STATE_COPIES):
            group.add(RecordKind.STATE, 0, 0, -1, (state,), len(state), crc32c(state))
        header = pack_header(FileHeader(sequence, salt, self._incarnation))
        handle = await self._disk.open(file_name(sequence), create=True)
        try:
            wanted = group.end + self._settings.spare_bytes
            reserved = await self._reserve(handle, 0, wanted)
            # Durable before anything follows: a file without it was never begun.
            await handle.write(0, [header], sync=True)
            await handle.write(DATA_START, group.buffers, sync=True)
        except StorageFull:
            await handle.close()
            await self._disk.remove(file_name(sequence))
            raise
        previous, self._handle, self._reserved = self._handle, handle, reserved
        file.end = group.end
        self._next_sequence += 1
        self._index.files[sequence] = self.file = file
        if previous is not None:
            await previous.close()
