"""A disk in memory that simulates the failures of real disks, for tests and simulation.

It tracks durable and unsynced bytes separately. ``crash`` returns the disk as a power cut would
leave it: each 512-byte sector that was not synced is kept or lost at random. After a failed sync
the unsynced bytes can still be read, but a power cut loses them. Other faults: ``capacity`` and
``write_limit`` make the disk full, ``before`` is called before every operation and may wait or
raise, ``flip`` and ``cut`` damage a file.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

from sulina.errors import NotFound, Refused, StorageFailed, StorageFull
from sulina.runtime.seam import Buffer

SECTOR = 512

Hook = Callable[[str, str], Awaitable[None]]
"""Called with the operation (``write``, ``sync``, ``read``, ...) and the file's name."""


class _Content:
    """The bytes of a file: as written, and those that surely survive a power cut."""

    __slots__ = ("durable", "durable_size", "unsynced", "written")

    def __init__(self, content: bytes = b"") -> None:
        self.written = bytearray(content)
        self.durable = bytearray(content)
        self.durable_size = len(content)
        self.unsynced: list[tuple[int, int]] = []

    def write(self, position: int, data: bytes) -> None:
        end = position + len(data)
        self.grow(end)
        self.written[position:end] = data
        self.unsynced.append((position, end))

    def grow(self, size: int) -> None:
        if size > len(self.written):
            self.written.extend(bytes(size - len(self.written)))

    def resize(self, size: int) -> None:
        for content in (self.written, self.durable):
            del content[size:]
            content.extend(bytes(size - len(content)))
        self.durable_size = size
        self.unsynced = [(start, min(end, size)) for start, end in self.unsynced if start < size]

    def sync(self) -> None:
        self.durable.extend(bytes(len(self.written) - len(self.durable)))
        for start, end in self.unsynced:
            self.durable[start:end] = self.written[start:end]
        self.durable_size = len(self.written)
        self.unsynced.clear()

    def after_crash(self, chance: random.Random) -> bytes:
        """The durable bytes, overwritten by a random subset of the unsynced sectors."""
        kept_size = chance.choice((self.durable_size, len(self.written)))
        luck = chance.random()
        content = bytearray(self.durable)
        content.extend(bytes(len(self.written) - len(content)))
        for start, end in self.unsynced:
            at = start
            while at < end:
                upto = min(end, (at // SECTOR + 1) * SECTOR)
                if chance.random() < luck:
                    content[at:upto] = self.written[at:upto]
                    kept_size = max(kept_size, upto)
                at = upto
        return bytes(content[:kept_size])


class MemoryDiskFile:
    """``seam.DiskFile`` over bytes in memory."""

    __slots__ = ("_content", "_disk", "_name")

    def __init__(self, disk: MemoryDisk, name: str, content: _Content) -> None:
        self._disk = disk
        self._name = name
        self._content = content

    @property
    def name(self) -> str:
        return self._name

    async def write(self, position: int, buffers: Sequence[Buffer], *, sync: bool) -> None:
        await self._disk._enter("write", self._name)
        data = b"".join(buffers)
        growth = position + len(data) - len(self._content.written)
        fits = self._disk._take_room(len(data), growth)
        self._content.write(position, data[:fits])
        if fits < len(data):
            raise self._disk._full("write", self._name)
        if sync:
            await self.sync()

    async def read(self, position: int, length: int) -> bytes:
        await self._disk._enter("read", self._name)
        return bytes(self._content.written[position : position + length])

    async def size(self) -> int:
        await self._disk._enter("size", self._name)
        return len(self._content.written)

    async def reserve(self, length: int) -> None:
        await self._disk._enter("reserve", self._name)
        if length - len(self._content.written) > self._disk._room():
            raise self._disk._full("reserve", self._name)
        self._content.grow(length)

    async def prewrite(self, position: int, length: int) -> None:
        await self.write(position, [bytes(length)], sync=True)

    async def truncate(self, length: int) -> None:
        await self._disk._enter("truncate", self._name)
        self._content.resize(length)

    async def sync(self) -> None:
        try:
            await self._disk._enter("sync", self._name)
        except StorageFailed:
            # Like real systems: after a failed sync the pages are considered clean.
            self._content.unsynced.clear()
            raise
        self._content.sync()

    async def close(self) -> None:
        """Nothing to release."""


class MemoryDisk:
    """``seam.Disk`` in memory. After ``crash``, only the returned disk is usable."""

    def __init__(self, *, capacity: int | None = None, before: Hook | None = None) -> None:
        self.capacity = capacity
        self.write_limit: int | None = None
        """How many more bytes can be written, even to reserved space, as on copy-on-write disks."""
        self.before = before
        self._files: dict[str, _Content] = {}
        self._crashed = False

    async def open(self, name: str, *, create: bool = False) -> MemoryDiskFile:
        await self._enter("open", name)
        if "/" in name or not name:
            raise Refused(f"invalid file name: {name!r}")
        if name not in self._files:
            if not create:
                raise NotFound(f"cannot open {name}: the file does not exist")
            self._files[name] = _Content()
        return MemoryDiskFile(self, name, self._files[name])

    async def list(self) -> list[str]:
        await self._enter("list", "")
        return sorted(self._files)

    async def remove(self, name: str) -> None:
        await self._enter("remove", name)
        self._files.pop(name, None)

    async def replace(self, name: str, content: Buffer) -> None:
        await self._enter("replace", name)
        if len(content) > self._room():
            raise self._full("replace", name)
        self._files[name] = _Content(bytes(content))

    async def close(self) -> None:
        """Nothing to release; the files are kept."""

    def crash(self, chance: random.Random) -> MemoryDisk:
        """The disk after a power cut. This one and its open files raise ``StorageFailed``."""
        self._crashed = True
        successor = MemoryDisk(capacity=self.capacity)
        for name in sorted(self._files):
            successor._files[name] = _Content(self._files[name].after_crash(chance))
        return successor

    def copy(self) -> MemoryDisk:
        """Another disk with the same bytes, all durable."""
        twin = MemoryDisk(capacity=self.capacity)
        for name, content in self._files.items():
            twin._files[name] = _Content(bytes(content.written))
        return twin

    def content(self, name: str) -> bytes:
        """The current bytes of a file."""
        return bytes(self._files[name].written)

    def flip(self, name: str, position: int, bit: int = 0) -> None:
        """Flip one bit of a file, durably."""
        content = self._files[name]
        for side in (content.written, content.durable):
            if position < len(side):
                side[position] ^= 1 << bit

    def cut(self, name: str, size: int) -> None:
        """Truncate a file, or extend it with zeros, durably."""
        self._files[name].resize(size)

    async def _enter(self, operation: str, name: str) -> None:
        if self.before is not None:
            await self.before(operation, name)
        if self._crashed:
            raise StorageFailed(f"cannot {operation} {name}: the power was cut")

    def _room(self) -> int:
        if self.capacity is None:
            return 1 << 62
        return max(0, self.capacity - sum(len(file.written) for file in self._files.values()))

    def _take_room(self, length: int, growth: int) -> int:
        """How many of ``length`` bytes fit, if writing all of them grows a file by ``growth``."""
        fits = max(0, length - max(0, growth - self._room()))
        if self.write_limit is not None:
            fits = min(fits, self.write_limit)
            self.write_limit -= fits
        return fits

    def _full(self, operation: str, name: str) -> StorageFull:
        return StorageFull(f"cannot {operation} {name}: no space is left; free some space there")
