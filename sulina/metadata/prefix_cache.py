"""Keeps the keys below a prefix in memory, as tables that follow the store through a watch.

A ``PrefixCache`` lists its prefix once and then applies every change, in order. When the store no
longer holds the changes that the watch needs, it lists again and applies the difference. No key
ever goes back to an older revision. While the store cannot be reached, the tables keep their last
state; readers may see old values, so writes must still compare with the store.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from sulina.errors import Closed, Retriable, SulinaError
from sulina.metadata.store import (
    Compacted,
    Event,
    EventKind,
    KeyValue,
    Listing,
    MetadataStore,
    Watch,
)
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_PAGE = 5_000
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0

V = TypeVar("V")


class CachedTable(Generic[V]):
    """The decoded keys below one prefix, in ``items``. Only the ``PrefixCache`` changes it.

    ``decode`` returns None for a key that does not belong here. Keys that it cannot read are logged
    and left out. For a change from a watch it receives only key, value and revision.
    """

    def __init__(self, prefix: str, decode: Callable[[KeyValue], V | None]) -> None:
        self.prefix = prefix
        self.items: dict[str, V] = {}
        """By the part of the key after the prefix."""
        self.revisions: dict[str, int] = {}
        """The revision of each item, for a compare-and-swap."""
        self._decode = decode
        self._watchers: list[Callable[[str, V | None], None]] = []

    def on_change(self, watcher: Callable[[str, V | None], None]) -> None:
        """Call ``watcher`` with each changed item, or None for a deleted one.

        It must not block. Its exceptions are logged and do not affect others.
        """
        self._watchers.append(watcher)

    def put(self, item: KeyValue) -> None:
        """Set a key. For the ``PrefixCache`` only."""
        try:
            value = self._decode(item)
        except (SulinaError, ValueError) as error:
            _log.error("%s is ignored: %s", item.key, error)
            value = None
        if value is None:
            self.remove(item.key)
            return
        rest = item.key.removeprefix(self.prefix)
        self.items[rest] = value
        self.revisions[rest] = item.mod_revision
        self._tell(rest, value)

    def remove(self, key: str) -> None:
        """Remove a key. For the ``PrefixCache`` only."""
        rest = key.removeprefix(self.prefix)
        if self.items.pop(rest, None) is not None:
            del self.revisions[rest]
            self._tell(rest, None)

    def _tell(self, rest: str, value: V | None) -> None:
        for watcher in self._watchers:
            try:
                watcher(rest, value)
            except Exception:
                _log.exception("a handler failed for the change of %s%s", self.prefix, rest)


class PrefixCache:
    """Tables below one prefix of the store. Use it as ``async with``; entering waits for a listing.

    A key belongs to the first table whose prefix it starts with.
    """

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        prefix: str,
        tables: Sequence[CachedTable[Any]],
        *,
        page: int = _PAGE,
    ) -> None:
        self.prefix = prefix
        self._store = store
        self._clock = clock
        self._tables = tables
        self._page = page
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._watch: Watch | None = None
        self._listing = asyncio.Lock()
        self._touched: dict[str, int] | None = None
        """During a listing: the keys that the watch reported meanwhile, with their revisions."""
        self._known = _Known()
        self._told = 0
        """The revision of the last change reported by a watch."""
        self._watchers: list[Callable[[], None]] = []
        self.revision = 0
        """All changes up to this revision are in the tables."""
        self.newest = (prefix, 0)
        """The most recently changed key below the prefix, and its revision."""

    async def __aenter__(self) -> PrefixCache:
        await self._list()
        self._task = asyncio.create_task(self._follow(), name=f"prefix_cache {self.prefix}")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def on_advance(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` whenever ``revision`` or ``newest`` advances.

        It must neither block nor raise.
        """
        self._watchers.append(watcher)

    @property
    def news(self) -> asyncio.Event:
        """Set at the next change of any table. Take it before reading, to miss no change."""
        return self._changed

    async def change(self) -> None:
        """Wait for the next change of any table."""
        await self._changed.wait()

    async def reached(self, revision: int) -> None:
        """Wait until the tables include a change of this prefix at ``revision`` or later.

        Has no timeout.
        """
        while self.revision < revision:
            await self.change()

    async def refresh(self) -> None:
        """List again now and restart the watch, for callers that know that changes were missed.

        When it returns, everything stored before the call is in the tables. Raises the store's
        errors; the tables are unchanged then.
        """
        await self._list()
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.aclose()

    # ---- following the store ----

    async def _follow(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = self._clock.now()
            try:
                while not await self._follow_watch():
                    pass
            except Closed:
                return
            except Compacted:
                _log.info("%s: changes were compacted; listing again", self.prefix)
            except SulinaError as error:
                _log.warning("watching %s failed; will retry: %s", self.prefix, error)
            # A watch that fails immediately must not cause listings without a pause.
            if self._clock.now() - began > _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            try:
                pause = await self._list_again(pause)
            except Closed:
                return

    async def _follow_watch(self) -> bool:
        """Apply changes as they arrive; returns whether the watch ended by itself."""
        watch = self._store.watch(self.prefix, from_revision=self._resume_at)
        self._watch = watch
        try:
            async for event in watch:
                self._apply(event)
            return self._watch is watch
        finally:
            if self._watch is watch:
                self._watch = None
            await watch.aclose()

    @property
    def _resume_at(self) -> int:
        # The last change may be one of several in its transaction: read that one again.
        return self._told if self._told > self._known.first else self._known.first + 1

    async def _list_again(self, pause: float) -> float:
        while True:
            await self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                await self._list()
            except Closed:
                raise
            except SulinaError as error:
                _log.warning("listing %s failed; will retry: %s", self.prefix, error)
            else:
                return pause

    def _apply(self, event: Event) -> None:
        if event.mod_revision > self._known.of(event.key):
            if self._touched is not None:
                self._touched[event.key] = event.mod_revision
            table = self._table(event.key)
            if table is not None:
                rest = event.key.removeprefix(table.prefix)
                if event.kind is EventKind.DELETE:
                    table.remove(event.key)
                elif table.revisions.get(rest) != event.mod_revision:
                    table.put(KeyValue(event.key, event.value, 0, event.mod_revision, 0, 0))
        self._told = event.mod_revision
        self._at(event.mod_revision, event.key, event.mod_revision)

    # ---- listing ----

    async def _list(self) -> None:
        async with self._listing:
            seen = max(self.revision, self._known.newest)
            self._touched = {}
            try:
                pages = await self._pages()
                if pages[0].revision < seen:
                    raise Retriable(
                        f"the metadata store answered at revision {pages[0].revision}, but {seen} "
                        "was seen before: was it restored from a backup? Then restart the brokers"
                    )
                self._merge(pages, self._touched)
            finally:
                self._touched = None

    async def _pages(self) -> list[Listing]:
        pages: list[Listing] = []
        after: str | None = None
        while True:
            page = await self._store.range(self.prefix, limit=self._page, after=after)
            pages.append(page)
            if not page.more:
                return pages
            after = page.items[-1].key

    def _merge(self, pages: Sequence[Listing], touched: dict[str, int]) -> None:
        """Update the tables from a listing, without undoing what the watch reported meanwhile.

        Pages may have different revisions. The watch starts after the first of them, so it reports
        all changes between pages; those that later pages already include are skipped.
        """
        known = _Known(pages)
        found: set[str] = set()
        newest = (self.prefix, 0)
        for page in pages:
            for item in page.items:
                found.add(item.key)
                if item.mod_revision > newest[1]:
                    newest = item.key, item.mod_revision
                table = self._table(item.key)
                if table is None or touched.get(item.key, 0) > page.revision:
                    continue
                rest = item.key.removeprefix(table.prefix)
                if table.revisions.get(rest) != item.mod_revision:
                    table.put(item)
        for table in self._tables:
            for key in [table.prefix + rest for rest in table.items]:
                if key not in found and touched.get(key, 0) <= known.of(key):
                    table.remove(key)
        self._known = known
        self._at(pages[0].revision, *newest)

    def _table(self, key: str) -> CachedTable[Any] | None:
        return next((table for table in self._tables if key.startswith(table.prefix)), None)

    def _at(self, revision: int, key: str, changed: int) -> None:
        self.revision = max(self.revision, revision)
        if changed > self.newest[1]:
            self.newest = key, changed
        done, self._changed = self._changed, asyncio.Event()
        done.set()
        for watcher in self._watchers:
            watcher()


class _Known:
    """The revision at which each key was listed: that of the page that covers it."""

    def __init__(self, pages: Sequence[Listing] = ()) -> None:
        self._ends = [page.items[-1].key for page in pages[:-1]]
        self._revisions = [page.revision for page in pages]
        self.first = self._revisions[0] if pages else 0
        self.newest = max(self._revisions, default=0)

    def of(self, key: str) -> int:
        if not self._revisions:
            return 0
        return self._revisions[bisect_left(self._ends, key)]
