"""Finds the records that a later record with the same key has replaced.

The digests of all keys go to partitions by their first bits, which are kept in files; then each
partition is sorted by itself. So memory does not depend on the number of keys: it is one partition
while it is sorted (about 100 bytes for each of its records), the write buffers, and one byte for
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


class Spill(Protocol):
    """Files for one run, removed when it ends."""

    def append(self, number: int, data: bytes) -> None:
        """Add bytes to a file."""
        ...

    def read(self, number: int) -> bytes:
        """All bytes of a file; empty if nothing was added."""
        ...

    def remove(self, number: int) -> None:
        """Delete a file, if it exists."""
        ...


class MemorySpill:
    """Keeps everything in memory: for small ranges, and for the simulation."""

    def __init__(self) -> None:
        self._files: dict[int, list[bytes]] = {}

    def append(self, number: int, data: bytes) -> None:
        self._files.setdefault(number, []).append(data)

    def read(self, number: int) -> bytes:
        return b"".join(self._files.get(number, ()))

    def remove(self, number: int) -> None:
        self._files.pop(number, None)


class NewestOfKeys:
    """Collects keys in the order of their offsets, then tells which records are replaced."""

    def __init__(self, hasher: KeyHasher, spill: Spill, partitions: int = 64) -> None:
        assert 1 <= partitions <= MAX_PARTITIONS and partitions.bit_count() == 1
        self._hasher = hasher
        self._spill = spill
        self._partitions = partitions
        self._shift = np.uint64(64 - (partitions.bit_length() - 1))
        self._pending: list[NDArray[np.void]] = []
        self._pending_bytes = 0
        self._last = -1
        self.records = 0
        """Records with a key, so far."""

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
        """The offsets of replaced records, one partition at a time."""
        self._write()
        for number in range(self._partitions):
            entries = np.frombuffer(self._spill.read(number), ENTRY)
            if len(entries):
                yield _older_of(entries)


def _older_of(entries: NDArray[np.void]) -> NDArray[np.int64]:
    """All offsets but the highest of each key; the entries are in the order of their offsets."""
    high, low = entries["high"], entries["low"]
    order = np.argsort(high, kind="stable")
    same = high[order[1:]] == high[order[:-1]]
    differs = low[order[1:]] != low[order[:-1]]
    if (same & differs).any():  # halves collide: sort by both
        order = np.lexsort((low, high))  # stable, so offsets stay in order
        same = high[order[1:]] == high[order[:-1]]
        differs = low[order[1:]] != low[order[:-1]]
    older: NDArray[np.int64] = entries["offset"][order[:-1][same & ~differs]]
    return older
