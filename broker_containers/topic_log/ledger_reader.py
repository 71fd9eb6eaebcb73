"""Reads a managed ledger in order, from any offset, across ledgers and objects.

Reads a ledger's entries from storage nodes if they are there and readable, otherwise its object.
Offsets continue from one to the next without a gap or repeat, except that objects which replaced
others may lack some. A read that an object's replacement overtakes continues in the new one.
"""

from __future__ import annotations

from bisect import bisect_left

from broker_containers.topic_log.ledger_lookup import ReadableLog, entry_header, needed_tier
from broker_containers.topic_log.tail_cache import CachedFrame
from storage_grpc.ledgers import Ledgers
from storage_grpc.tier.tier import head_of
from sulina.errors import CorruptEntry, SulinaError
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.wire.header import parse_header

_ENTRIES_AT_ONCE = 1024
_ENDLESS = 1 << 63


class LedgerReader:
    """A position in a log. Never reads past the log's confirmed end."""

    def __init__(self, log: ReadableLog, ledgers: Ledgers, offset: int) -> None:
        self._log = log
        self._ledgers = ledgers
        self._offset = offset
        self._ledger = -1
        self._entry = 0
        self._unreadable = -1
        """The ledger whose entries could not be read from storage nodes."""

    async def read(self, max_bytes: int) -> list[CachedFrame]:
        while True:
            self._offset = max(self._offset, self._log.start)
            if self._offset >= self._log.end:
                return []
            at = self._index()
            if at is None:
                return []
            frames = [f for f in await self._frames(at, max_bytes) if f.header.count]
            frames = [f for f in frames if f.header.next_offset > self._offset]
            if frames:
                self._offset = frames[-1].header.next_offset
                return frames

    def _index(self) -> int | None:
        """Index of the ledger with the next offset, or of the first kept one."""
        refs = self._log.refs
        at = bisect_left(refs, self._offset, key=_last_offset)
        return at if at < len(refs) else None

    async def _frames(self, at: int, max_bytes: int) -> list[CachedFrame]:
        refs = self._log.refs
        ref = refs[at]
        then = refs[at + 1] if at + 1 < len(refs) else None
        if ref.is_local and ref.id != self._unreadable:
            try:
                return await self._from_entries(ref, max_bytes)
            except SulinaError:
                self._ledger = -1
                # Its entries may have been deleted after tiering since the read began.
                ref = next((each for each in self._log.refs if each.id == ref.id), ref)
                if ref.tiered is None or self._log.tier is None:
                    raise
                self._unreadable = ref.id
        try:
            return await self._from_object(ref, max_bytes, then)
        except SulinaError:
            if self._is_replaced(ref):
                return []  # and then read from the object that took its place
            raise

    def _is_replaced(self, ref: LedgerRef) -> bool:
        """Whether the list names another object for the next offset since a read began."""
        at = self._index()
        now = None if at is None else self._log.refs[at]
        return now is not None and head_of(self._log.topic, now) != head_of(self._log.topic, ref)

    async def _from_entries(self, ref: LedgerRef, max_bytes: int) -> list[CachedFrame]:
        if ref.id != self._ledger:
            self._entry = await self._locate(ref)
            self._ledger = ref.id
        entries = await self._ledgers.read(
            ref.id, self._entry, max_entries=_ENTRIES_AT_ONCE, max_bytes=max_bytes
        )
        frames = [CachedFrame(parse_header(e.payload), e.payload) for e in entries]
        end = self._log.end
        # Unconfirmed entries are read again once they are confirmed.
        frames = [f for f in frames if f.header.next_offset <= end]
        self._entry += len(frames)
        return frames

    async def _from_object(
        self, ref: LedgerRef, max_bytes: int, then: LedgerRef | None
    ) -> list[CachedFrame]:
        tier, topic = needed_tier(self._log.tier, ref), self._log.topic
        wanted = max(self._offset, ref.first_offset)
        ahead = head_of(topic, then) if then is not None and not then.is_local else None
        found = await tier.read(head_of(topic, ref), wanted, max_bytes, ahead)
        frames = [CachedFrame(parse_header(frame), frame) for frame in found]
        sparse = ref.tiered is not None and ref.tiered.records is not None
        if sparse and not frames:
            assert ref.last_offset is not None
            self._offset = ref.last_offset + 1
            return []
        if not frames or not (
            (frames[0].base <= wanted or sparse) and wanted < frames[0].header.next_offset
        ):
            raise CorruptEntry(f"offset {wanted} is not in the object of ledger {ref.id}")
        return frames

    async def _locate(self, ref: LedgerRef) -> int:
        """The entry of ``ref`` that contains the offset, or its first."""
        if self._offset <= ref.first_offset:
            return 0
        known = self._log.entry_in_written(ref, self._offset)
        if known is not None:
            return max(known, 0)
        low, high = 0, self._log.last_entry(ref)
        while low < high:  # the last entry whose base offset is not beyond the offset
            middle = (low + high + 1) // 2
            if (await entry_header(self._ledgers, ref, middle)).base_offset <= self._offset:
                low = middle
            else:
                high = middle - 1
        return low


def _last_offset(ref: LedgerRef) -> int:
    return _ENDLESS if ref.last_offset is None else ref.last_offset
