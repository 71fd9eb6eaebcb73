"""Reads objects: footers and row groups by ranged reads, with read-ahead and bounded memory.

Concurrent reads of the same bytes share one fetch. Every byte is checked against the checksums in
the footer before it is decoded: a read returns frames as they were published, or raises an error.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Final

import pyarrow as pa

from storage_grpc.tier.tier import CACHE_BYTES, key_of
from sulina.errors import CorruptEntry
from sulina.lake.decoder import (
    TAIL,
    Footer,
    NeedMore,
    RowGroup,
    Verifier,
    decode_row_group,
    open_footer,
    read_row_group,
)
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.objects.store import ObjectStore
from sulina.runtime.seam import RunBlocking
from sulina.runtime.tasks import stop_tasks
from sulina.wire.header import parse_header

_GroupKey = tuple[str, int]
_FRAME_COST: Final = 200
"""Bytes of memory that a frame takes in addition to its content."""
_MAX_FETCHES: Final = 8
"""Row groups fetched at the same time."""
_READ_AHEAD: Final = 2
"""Row groups fetched before a replay needs them: one is in transit while another is decoded."""
_CACHED_FOOTERS: Final = 4096


@dataclass(frozen=True, slots=True)
class _Opened:
    """An object's footer, and the last bytes of the object, read along with it."""

    footer: Footer
    tail: bytes


@dataclass(frozen=True, slots=True)
class _Frames:
    """The frames of a row group."""

    frames: list[bytes]
    bases: list[int]
    cost: int


class ObjectReader:
    """Reads the objects of one store, with a bounded cache. ``close`` cancels pending fetches."""

    def __init__(
        self, store: ObjectStore, run_blocking: RunBlocking, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._store = store
        self._run_blocking = run_blocking
        self._cache_bytes = cache_bytes
        self._footers: OrderedDict[str, Footer] = OrderedDict()
        self._groups: OrderedDict[_GroupKey, _Frames] = OrderedDict()
        self._cached = 0
        self._opening: dict[str, asyncio.Task[Footer]] = {}
        self._fetching: dict[_GroupKey, asyncio.Task[_Frames]] = {}
        self._ahead: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(_MAX_FETCHES)

    # ---- reading ----

    async def read(
        self, head: ObjectHead, offset: int, max_bytes: int, then: ObjectHead | None = None
    ) -> Sequence[bytes]:
        """See ``Tier.read``."""
        footer = await self._footer(head)
        number = footer.find(offset)
        if number == len(footer.row_groups) or footer.row_groups[number].first_offset > offset:
            if not footer.summary.is_sparse:
                raise CorruptEntry(f"the object {key_of(head)} has no offset {offset}")
            if number == len(footer.row_groups):
                return []
        found = await self._frames(head, footer, number)
        for following in range(number + 1, number + 1 + _READ_AHEAD):
            if following < len(footer.row_groups):
                self._look_ahead(head, following)
            elif then is not None:
                self._look_ahead(then, following - len(footer.row_groups))
        first = max(bisect_right(found.bases, offset) - 1, 0)
        if parse_header(found.frames[first]).next_offset <= offset:
            first += 1  # the next record of a sparse object; there is one in this row group
        end, size = first, 0
        while end < len(found.frames) and (end == first or size < max_bytes):
            size += len(found.frames[end])
            end += 1
        return found.frames[first:end]

    async def read_at(self, head: ObjectHead, time_us: int) -> bytes | None:
        """See ``Tier.read_at``."""
        footer = await self._footer(head)
        for group in footer.row_groups:
            if group.last_time_us >= time_us:
                for frame in (await self._frames(head, footer, group.number)).frames:
                    if parse_header(frame).last_time >= time_us:
                        return frame
        return None

    async def control(self, head: ObjectHead) -> Sequence[bytes]:
        """See ``Tier.control``."""
        return (await self._footer(head)).control_frames

    async def verify(self, head: ObjectHead) -> ObjectSummary:
        """See ``Tier.verify``. Reads everything again, nothing from the cache."""
        self.forget(head)
        opened = await self._open(head)
        verifier = Verifier(opened.footer)
        groups = opened.footer.row_groups
        ahead: asyncio.Task[bytes] | None = None
        try:
            for group, following in zip_longest(groups, groups[1:]):
                data = await (ahead or self._bytes(head, opened, group))
                ahead = None
                if following is not None:
                    # Fetched while this one is verified.
                    coming = self._bytes(head, opened, following)
                    ahead = asyncio.create_task(coming, name=f"verify {key_of(head)}")
                await self._run_blocking(partial(verifier.add, group, data))
        finally:
            await stop_tasks(ahead)
        verifier.finish()
        return opened.footer.summary

    async def footer(self, head: ObjectHead) -> Footer:
        """An object's footer, read again and not from the cache."""
        return (await self._open(head)).footer

    async def frames(self, head: ObjectHead, footer: Footer) -> AsyncGenerator[list[bytes]]:
        """All frames of an object, a row group at a time, past the cache."""
        async for group, data in self._all_bytes(head, footer):
            yield await self._run_blocking(partial(decode_row_group, footer, group, data))

    async def rows(
        self, head: ObjectHead, footer: Footer, columns: Sequence[str]
    ) -> AsyncGenerator[pa.Table]:
        """All records of an object, a row group at a time, past the cache."""
        async for group, data in self._all_bytes(head, footer):
            yield await self._run_blocking(partial(read_row_group, footer, group, data, columns))

    async def _all_bytes(
        self, head: ObjectHead, footer: Footer
    ) -> AsyncGenerator[tuple[RowGroup, bytes]]:
        for group in footer.row_groups:
            async with self._turns:
                data = await self._bytes(head, _Opened(footer, b""), group)
            yield group, data

    def forget(self, head: ObjectHead) -> None:
        """Remove an object from the cache."""
        key = key_of(head)
        self._footers.pop(key, None)
        for place in [place for place in self._groups if place[0] == key]:
            self._cached -= self._groups.pop(place).cost

    async def close(self) -> None:
        """Cancel pending fetches."""
        tasks = [*self._ahead, *self._opening.values(), *self._fetching.values()]
        await stop_tasks(*tasks)

    # ---- footers ----

    async def _footer(self, head: ObjectHead) -> Footer:
        key = key_of(head)
        found = self._footers.get(key)
        if found is not None:
            self._footers.move_to_end(key)
            return found
        task = self._opening.get(key)
        if task is None:
            task = self._opening[key] = asyncio.create_task(
                self._read_footer(head), name=f"open {key}"
            )
            task.add_done_callback(lambda done: self._opened(key, done))
        # Shielded because other readers may wait for the same footer.
        return await asyncio.shield(task)

    async def _read_footer(self, head: ObjectHead) -> Footer:
        opened = await self._open(head)
        first = opened.footer.row_groups[:1]
        if first and _within(first[0], opened):
            # One request has read the whole small object.
            self._fetch(head, opened, first[0])
        return opened.footer

    def _opened(self, key: str, done: asyncio.Task[Footer]) -> None:
        self._opening.pop(key, None)
        if not done.cancelled() and done.exception() is None:
            self._footers[key] = done.result()
            if len(self._footers) > _CACHED_FOOTERS:
                self._footers.popitem(last=False)

    async def _open(self, head: ObjectHead) -> _Opened:
        key = key_of(head)
        tail, size = await self._store.tail(key, TAIL)
        found = open_footer(tail, size)
        if isinstance(found, NeedMore):
            tail, size = await self._store.tail(key, found.length)
            found = open_footer(tail, size)
            if isinstance(found, NeedMore):
                raise CorruptEntry(f"the object {key} changed while it was read")
        summary = found.summary
        last = summary.last_offset if head.generation else -1
        named = ObjectHead(
            summary.topic, summary.ledger, summary.first_offset, summary.generation, last
        )
        if named != head:
            raise CorruptEntry(
                f"the object {key} belongs to ledger {summary.ledger} of {summary.topic}: "
                "was it copied there?"
            )
        return _Opened(found, tail)

    # ---- row groups ----

    async def _frames(self, head: ObjectHead, footer: Footer, number: int) -> _Frames:
        place = key_of(head), number
        found = self._groups.get(place)
        if found is not None:
            self._groups.move_to_end(place)
            return found
        task = self._fetching.get(place)
        if task is None:
            task = self._fetch(head, _Opened(footer, b""), footer.row_groups[number])
        # Shielded because other readers may wait for the same row group.
        return await asyncio.shield(task)

    def _fetch(self, head: ObjectHead, opened: _Opened, group: RowGroup) -> asyncio.Task[_Frames]:
        place = key_of(head), group.number
        task = asyncio.create_task(self._fetch_group(head, opened, group), name=f"fetch {place}")
        self._fetching[place] = task

        def ended(done: asyncio.Task[_Frames]) -> None:
            self._fetching.pop(place, None)
            if not done.cancelled() and done.exception() is None:
                self._keep(place, done.result())

        task.add_done_callback(ended)
        return task

    async def _fetch_group(self, head: ObjectHead, opened: _Opened, group: RowGroup) -> _Frames:
        async with self._turns:
            data = await self._bytes(head, opened, group)
            frames = await self._run_blocking(partial(decode_row_group, opened.footer, group, data))
        bases = [parse_header(frame).base_offset for frame in frames]
        return _Frames(frames, bases, sum(map(len, frames)) + _FRAME_COST * len(frames))

    async def _bytes(self, head: ObjectHead, opened: _Opened, group: RowGroup) -> bytes:
        if _within(group, opened):
            start = opened.footer.summary.size - len(opened.tail)
            return opened.tail[group.start - start : group.end - start]
        return await self._store.get(key_of(head), group.start, group.end)

    def _keep(self, place: _GroupKey, found: _Frames) -> None:
        if place not in self._groups:
            self._groups[place] = found
            self._cached += found.cost
        while self._cached > self._cache_bytes and len(self._groups) > 1:
            self._cached -= self._groups.popitem(last=False)[1].cost

    # ---- ahead ----

    def _look_ahead(self, head: ObjectHead, number: int) -> None:
        """Start to fetch a row group that will be read next, unless too many fetches run."""
        place = key_of(head), number
        if place in self._groups or place in self._fetching or self._turns.locked():
            return
        if len(self._ahead) < _MAX_FETCHES:
            task = asyncio.create_task(self._fetch_ahead(head, number), name=f"ahead {place}")
            self._ahead.add(task)
            task.add_done_callback(self._looked)

    async def _fetch_ahead(self, head: ObjectHead, number: int) -> None:
        footer = await self._footer(head)
        if number < len(footer.row_groups):
            await self._frames(head, footer, number)

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._ahead.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved here; a read of it raises the same error


def _within(group: RowGroup, opened: _Opened) -> bool:
    """Whether the bytes that were read along with the footer contain a row group."""
    return group.start >= opened.footer.summary.size - len(opened.tail) and bool(opened.tail)
