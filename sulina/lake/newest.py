"""Finds the records that a later record with the same key has replaced.

The digests of all keys go to partitions by their first bits, which are kept in files; then each
partition is read in parts, and only the newest record of each key is held for the next part. If a
partition has too many keys, it is read again for each half of them. So memory depends neither on
the number of keys nor on that of records, however they are distributed: it is at most twice
``HELD`` records while they are sorted (about 100 bytes each), the write buffers, and one byte for
each offset of the range in question. Nothing runs Python code for a record. The same records give
the same result, whatever the seed and the number of partitions are; an interrupted run starts
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sulina.lake.buffers import integers, present
from sulina.lake.key_digests import KeyHasher

Flags = NDArray[np.bool_]

ENTRY: Final = np.dtype([("high", "<u8"), ("low", "<u8"), ("offset", "<i8")])
_BUFFER: Final = 4 << 20
"""Bytes of entries that are collected before they are written."""
MAX_PARTITIONS: Final = 4096
HELD: Final = 1 << 20
"""Records of a partition that are read at once, and of earlier parts that are held meanwhile."""
_HALF_BITS: Final = 64


class Spill(Protocol):
    """Files for one run, removed when it ends."""

    def append(self, number: int, data: bytes) -> None:
        """Add bytes to a file."""
        ...

    def read(self, number: int, start: int, length: int) -> bytes:
        """Bytes of a file from ``start`` on; fewer than ``length`` only at its end."""
        ...

    def remove(self, number: int) -> None:
        """Delete a file, if it exists."""
        ...


class MemorySpill:
    """Keeps everything in memory: for small ranges, and for the simulation."""

    def __init__(self) -> None:
        self._files: dict[int, bytearray] = {}

    def append(self, number: int, data: bytes) -> None:
        self._files.setdefault(number, bytearray()).extend(data)

    def read(self, number: int, start: int, length: int) -> bytes:
        with memoryview(self._files.get(number, b"")) as data:
            return bytes(data[start : start + length])

    def remove(self, number: int) -> None:
        self._files.pop(number, None)


class NewestOfKeys:
    """Collects keys in the order of their offsets, then tells which records are replaced."""

    def __init__(
        self, hasher: KeyHasher, spill: Spill, partitions: int = 64, held: int = HELD
    ) -> None:
        """``held`` limits the records of a partition that are in memory, see ``HELD``."""
        assert held > 0
        assert 1 <= partitions <= MAX_PARTITIONS and partitions.bit_count() == 1
        self._hasher = hasher
        self._spill = spill
        self._partitions = partitions
        self._held = held
        self._shift = np.uint64(64 - (partitions.bit_length() - 1))
        self._pending: list[NDArray[np.void]] = []
        self._pending_bytes = 0
        self._last = -1
        self.records = 0
        """Records with a key, so far."""
        self.most_sorted = 0
        """The most records that were sorted at once."""

    def add(self, offsets: pa.Array, keys: pa.Array) -> None:
        """Add records, in the order of their offsets. Records without a key are ignored."""
        numbers = integers(offsets)
        if len(numbers):
            assert numbers[0] > self._last, "records are added in the order of their offsets"
            self._last = int(numbers[-1])
        if keys.null_count:
            numbers = numbers[present(keys)]
            keys = keys.drop_null()
        if not len(numbers):
            return
        digests = self._hasher.digests(keys)
        entries = np.empty(len(numbers), ENTRY)
        entries["high"], entries["low"], entries["offset"] = digests.high, digests.low, numbers
        self._pending.append(entries)
        self._pending_bytes += entries.nbytes
        self.records += len(entries)
        if self._pending_bytes >= _BUFFER:
            self._write()

    def _write(self) -> None:
        if not self._pending:
            return
        entries = np.concatenate(self._pending)
        self._pending, self._pending_bytes = [], 0
        if self._partitions == 1:
            self._spill.append(0, entries.tobytes())
            return
        places = (entries["high"] >> self._shift).astype(np.uint16)
        order = np.argsort(places, kind="stable")
        entries, counts = entries[order], np.bincount(places, minlength=self._partitions)
        ends = np.cumsum(counts)
        for number in np.flatnonzero(counts):
            part = entries[ends[number] - counts[number] : ends[number]]
            self._spill.append(int(number), part.tobytes())

    def replaced(self, first: int, last: int) -> Flags:
        """Which offsets from ``first`` to ``last`` have a record that a later one replaced."""
        flags = np.zeros(max(last - first + 1, 0), np.bool_)
        for offsets in self._older():
            mine = offsets[(offsets >= first) & (offsets <= last)]
            flags[mine - first] = True
        return flags

    def close(self) -> None:
        """Remove the files."""
        self._pending, self._pending_bytes = [], 0
        for number in range(self._partitions):
            self._spill.remove(number)

    def _older(self) -> Iterator[NDArray[np.int64]]:
        """The offsets of replaced records; some of them several times."""
        self._write()
        for number in range(self._partitions):
            yield from self._older_in(number, 0, 0)

    def _older_in(self, number: int, bits: int, begin: int) -> Iterator[NDArray[np.int64]]:
        """The same for a partition, for keys the low half of whose digest has these first bits."""
        assert bits <= _HALF_BITS
        newest = np.empty(0, ENTRY)
        for entries in self._read(number):
            if bits:
                first = entries["low"] >> np.uint64(_HALF_BITS - bits)
                entries = entries[first == np.uint64(begin)]
            entries = np.concatenate((newest, entries))
            self.most_sorted = max(self.most_sorted, len(entries))
            order, older = _sorted(entries)
            yield entries["offset"][order[older]]
            newest = entries[order[~older]]
            if len(newest) > self._held:
                yield from self._older_in(number, bits + 1, 2 * begin)
                yield from self._older_in(number, bits + 1, 2 * begin + 1)
                return

    def _read(self, number: int) -> Iterator[NDArray[np.void]]:
        """The records of a partition, in the order of their offsets."""
        size, at = self._held * ENTRY.itemsize, 0
        while data := self._spill.read(number, at, size):
            yield np.frombuffer(data, ENTRY)
            at += len(data)


def _sorted(entries: NDArray[np.void]) -> tuple[NDArray[np.intp], Flags]:
    """An order in which records of a key follow each other, as they did before, and which of them
    in this order are followed by one of their key."""
    high, low = entries["high"], entries["low"]
    order = np.argsort(high, kind="stable")
    same = high[order[1:]] == high[order[:-1]]
    differs = low[order[1:]] != low[order[:-1]]
    if (same & differs).any():  # halves collide: sort by both
        order = np.lexsort((low, high))  # stable, too
        same = high[order[1:]] == high[order[:-1]]
        differs = low[order[1:]] != low[order[:-1]]
    older = np.zeros(len(entries), np.bool_)
    older[:-1] = same & ~differs
    return order, older
