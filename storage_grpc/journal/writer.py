"""Appends to the newest journal file, reserves its space, and starts the next file, which is
prepared in the background once the journal is in steady use (``next_file``).

Records are only added after durable ones. If a write finds the disk full, its partial data is cut
off before anything else is written.
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
from storage_grpc.journal.next_file import NextFile, PreparedFile
from storage_grpc.journal.settings import JournalSettings
from sulina.errors import StorageFull
from sulina.runtime.seam import Buffer, Clock, Disk, DiskFile, Randomness

_PADDING = [bytes(-length % 8) for length in range(8)]
_STATE_COPIES = 2


class RecordGroup:
    """Records of one write, laid out from the end of a file on."""

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

    One caller at a time. ``StorageFull`` changes nothing; after ``StorageFailed`` the writer must
    not be used again.
    """

    def __init__(
        self,
        disk: Disk,
        index: Index,
        settings: JournalSettings,
        randomness: Randomness,
        incarnation: bytes,
        next_sequence: int,
        clock: Clock,
    ) -> None:
        self._disk = disk
        self._index = index
        self._settings = settings
        self._randomness = randomness
        self._incarnation = incarnation
        self._next_sequence = next_sequence
        self._handle: DiskFile | None = None
        self._reserved = 0
        self._zeros = 0
        """Size of the part of the file that was written with zeros before."""
        self._writes = 0
        """Writes to the file."""
        self._next = NextFile(disk, settings, clock)
        self.file: JournalFile | None = None
        """The file written to; None until there was space for one."""

    @property
    def reserved_bytes(self) -> int:
        """What entries may take before more space is needed."""
        if self.file is None:
            return 0
        here = max(self._reserved - self.file.end - self._settings.spare_bytes, 0)
        return here + self._next.reserved_bytes

    async def prepare(self, size: int, *, spare: bool) -> JournalFile:
        """The file for the next ``size`` bytes, with space reserved for them.

        With ``spare``, ``spare_bytes`` of the settings stay free after them. Raises
        ``StorageFull``.
        """
        limit = self._zeros if self._next.ready else self._settings.file_bytes
        if self.file is None:
            await self._start_file()
        elif self.file.end + size > limit and self.file.end > DATA_START:
            try:
                await self._start_file()
            except StorageFull:
                # Fences and deletes may still fit into the spare space.
                if spare:
                    raise
        assert self.file is not None
        assert self._handle is not None
        wanted = self.file.end + size + (self._settings.spare_bytes if spare else 0)
        try:
            self._reserved = await self._reserve(self._handle, self._reserved, wanted)
        except StorageFull:
            if not self._next.reserved_bytes:
                raise
            await self._start_file()  # its space is there already
            return await self.prepare(size, spare=spare)
        return self.file

    def _prepare_next(self) -> None:
        """Have the next file prepared once this one is in steady use."""
        settings = self._settings
        assert self.file is not None
        steady = settings.prewrite_after and self._writes >= settings.prewrite_after
        if steady and self.file.end > self._zeros // 2:
            # A journal that is hardly used gets a small file.
            wanted = max(settings.reserve_bytes + settings.spare_bytes, 4 * self._zeros)
            self._next.begin(self._next_sequence, min(wanted, settings.file_bytes))

    async def write(self, group: RecordGroup) -> None:
        """Write and sync a group that was laid out from the end of the file on."""
        assert self.file is not None
        assert self._handle is not None
        try:
            await self._handle.write(self.file.end, group.buffers, sync=True)
        except StorageFull:
            await self._handle.truncate(self.file.end)
            self._reserved = self._zeros = self.file.end
            raise
        self._next.appended(group.end - self.file.end)
        self.file.end = group.end
        self._writes += 1
        if not self._next.begun:
            self._prepare_next()

    async def close(self) -> None:
        await self._next.remove()
        if self._handle is not None:
            await self._handle.close()
            self._handle = None

    async def _reserve(self, handle: DiskFile, reserved: int, wanted: int) -> int:
        """Reserve ``wanted`` bytes in the file, in large steps while there is space.

        Returns how many are reserved now.
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
        """Start the next file. ``StorageFull`` changes nothing."""
        sequence = self._next_sequence
        salt = self._randomness.getrandbits(64)
        file = JournalFile(sequence, salt, DATA_START)
        state = pack_state(self._index.state(for_file=sequence))
        group = RecordGroup(file)
        for _ in range(_STATE_COPIES):
            group.add(RecordKind.STATE, 0, 0, -1, (state,), len(state), crc32c(state))
        header = pack_header(FileHeader(sequence, salt, self._incarnation))
        prepared = await self._next.take()
        if prepared is None:
            handle = await self._disk.open(file_name(sequence), create=True)
            prepared = PreparedFile(handle, 0, 0)
        handle = prepared.handle
        try:
            wanted = group.end + self._settings.spare_bytes
            reserved = await self._reserve(handle, prepared.reserved, wanted)
            # Durable before anything follows: a file without a header has no content.
            await handle.write(0, [header], sync=True)
            await handle.write(DATA_START, group.buffers, sync=True)
        except StorageFull:
            await handle.close()
            await self._disk.remove(file_name(sequence))
            raise
        previous, self._handle, self._reserved = self._handle, handle, reserved
        self._zeros, self._writes = prepared.zeros, 0
        file.end = group.end
        self._next_sequence += 1
        self._index.files[sequence] = self.file = file
        if previous is not None:
            await previous.close()
