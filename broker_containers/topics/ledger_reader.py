"""Reads a managed ledger in order, from any offset, across ledgers, and finds places by time.

Within a closed ledger, places are found by bisection over entry headers: no index is kept.
"""

from __future__ import annotations

from typing import Protocol

from broker_containers.topics.tail_cache import CachedFrame
from storage_grpc.ledgers import Ledgers
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.wire.decode import Frame
from sulina.wire.header import HEADER_SIZE, FrameHeader, parse_header

_ENTRIES_AT_ONCE = 1024


class ReadableLog(Protocol):
    """What the reader needs of a managed ledger."""

    @property
    def end(self) -> int: ...

    @property
    def refs(self) -> tuple[LedgerRef, ...]: ...

    def last_entry(self, ref: LedgerRef) -> int: ...

    def entry_in_written(self, ref: LedgerRef, offset: int) -> int | None: ...


class LedgerReader:
    """A place in a log. Reads never go past the log's confirmed end."""

    def __init__(self, log: ReadableLog, ledgers: Ledgers, offset: int) -> None:
        self._log = log
        self._ledgers = ledgers
        self._offset = offset
        self._ledger = -1
        self._entry = 0

    async def read(self, max_bytes: int) -> list[CachedFrame]:
        while self._offset < self._log.end:
            ref = self._ref()
            if ref is None:
                return []
            if ref.id != self._ledger:
                self._entry = await self._locate(ref)
                self._ledger = ref.id
            entries = await self._ledgers.read(
                ref.id, self._entry, max_entries=_ENTRIES_AT_ONCE, max_bytes=max_bytes
            )
            frames = [CachedFrame(parse_header(e.payload), e.payload) for e in entries]
            end = self._log.end
            # What is not confirmed yet is read again when it is.
            frames = [f for f in frames if f.header.next_offset <= end]
            self._entry += len(frames)
            frames = [f for f in frames if f.header.count]
            frames = [f for f in frames if f.header.next_offset > self._offset]
            if frames:
                self._offset = frames[-1].header.next_offset
                return frames
        return []

    def _ref(self) -> LedgerRef | None:
        """The ledger with the next offset; the first kept one if that offset is gone."""
        for ref in self._log.refs:
            last = ref.last_offset
            if last is None or last >= self._offset:
                return ref
        return None

    async def _locate(self, ref: LedgerRef) -> int:
        """The entry of ``ref`` that holds the offset, or its first."""
        if self._offset <= ref.first_offset:
            return 0
        known = self._log.entry_in_written(ref, self._offset)
        if known is not None:
            return max(known, 0)
        low, high = 0, self._log.last_entry(ref)
        while low < high:  # the last entry whose base offset is not beyond the wanted one
            middle = (low + high + 1) // 2
            if (await head_of(self._ledgers, ref, middle)).base_offset <= self._offset:
                low = middle
            else:
                high = middle - 1
        return low


async def head_of(ledgers: Ledgers, ref: LedgerRef, entry: int) -> FrameHeader:
    """The header of one entry."""
    (head,) = await ledgers.read(ref.id, entry, max_entries=1, max_bytes=1, head=HEADER_SIZE)
    return parse_header(head.payload)


async def first_record_at(
    ledgers: Ledgers, ref: LedgerRef, last_entry: int, time_us: int
) -> int | None:
    """The offset of the first record that is not older than ``time_us``.

    Frames are found by their latest record; only the one found is opened.
    """
    low, high = 0, last_entry + 1
    while low < high:
        middle = (low + high) // 2
        if (await head_of(ledgers, ref, middle)).last_time < time_us:
            low = middle + 1
        else:
            high = middle
    while low <= last_entry:
        header = await head_of(ledgers, ref, low)
        if not header.is_control:
            return header.base_offset + await _older_in_frame(ledgers, ref, low, header, time_us)
        low += 1
    return None


async def _older_in_frame(
    ledgers: Ledgers, ref: LedgerRef, entry: int, header: FrameHeader, time_us: int
) -> int:
    """How many records stand in a frame before the first that is not older than ``time_us``."""
    if header.first_time >= time_us:
        return 0
    (whole,) = await ledgers.read(ref.id, entry, max_entries=1, max_bytes=1)
    times = enumerate(Frame(whole.payload).times)
    return next((index for index, time in times if time >= time_us), 0)
