"""Part of the metadata kept in memory: tables that follow the store by a watch.

A mirror lists its prefix once and then follows every change, in order. When the store no longer
holds what the watch needs, it lists again and works out the difference. It never goes back to an
older revision, not for a single key. While the store can't be reached the tables stay as they were:
readers get what was true, and nothing is ever written on the word of a mirror alone.
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


class Table(Generic[V]):
    """The keys under one prefix, decoded. Readers look at ``items``; only the mirror changes it.

    ``decode`` returns None for a key that does not belong here. What it can't read is left out,
    and logged. Of a change that a watch told, it gets key, value and revision alone.
    """

    def __init__(self, prefix: str, decode: Callable[[KeyValue], V | None]) -> None:
        self.prefix = prefix
        self.items: dict[str, V] = {}
        """By the rest of the key behind the prefix."""
        self.revisions: dict[str, int] = {}
        """When each was last changed: what a swap expects."""
        self._decode = decode
        self._watchers: list[Callable[[str, V | None], None]] = []

    def on_change(self, watcher: Callable[[str, V | None], None]) -> None:
        """Call ``watcher`` with each item that changed, or None for one that is gone.

        It must not block. What it raises is logged: nobody else may suffer from it.
        """
        self._watchers.append(watcher)

    def put(self, item: KeyValue) -> None:
        """For the mirror: the key is so from now on."""
        try:
            value = self._decode(item)
        except (SulinaError, ValueError) as error:
            _log.error("%s is left out: %s", item.key, error)
            value = None
        if value is None:
            self.remove(item.key)
            return
        rest = item.key.removeprefix(self.prefix)
        self.items[rest] = value
        self.revisions[rest] = item.mod_revision
        self._tell(rest, value)

    def remove(self, key: str) -> None:
        """For the mirror: the key is gone."""
        rest = key.removeprefix(self.prefix)
        if self.items.pop(rest, None) is not None:
            del self.revisions[rest]
            self._tell(rest, None)

    def _tell(self, rest: str, value: V | None) -> None:
        for watcher in self._watchers:
            try:
                watcher(rest, value)
            except Exception:
                _log.exception("the change of %s%s could not be acted upon", self.prefix, rest)


class Mirror:
    """Tables beneath one prefix of the store. Use as ``async with``; entering waits for a listing.

    A key goes to the first table whose prefix it has.
    """

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        prefix: str,
        tables: Sequence[Table[Any]],
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
        """While a listing is under way: what the watch told meanwhile, and its revision."""
        self._known = _Known()
        self._told = 0
        """The revision of the last change that a watch told."""
        self._watchers: list[Callable[[], None]] = []
        self.revision = 0
        """Everything up to here is in the tables."""
        self.newest = (prefix, 0)
        """The key beneath the prefix that was changed last, as far as is known, and when."""

    async def __aenter__(self) -> Mirror:
        await self._list()
        self._task = asyncio.create_task(self._follow(), name=f"mirror {self.prefix}")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def on_advance(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` after each step forward; it looks at ``revision`` and ``newest``.

        It must not block, nor raise.
        """
        self._watchers.append(watcher)

    @property
    def news(self) -> asyncio.Event:
        """Set with the next change of any table. Take it before you look, to miss none."""
        return self._changed

    async def change(self) -> None:
        """Wait for the next change of any table."""
        await self._changed.wait()

    async def reached(self, revision: int) -> None:
        """Wait until a change of this prefix with that revision, or a later one, is in the tables.

        No deadline of its own.
        """
        while self.revision < revision:
            await self.change()

    async def refresh(self) -> None:
        """List again now, and watch anew from there: for who knows that changes were missed.

        When it returns, everything that was stored before the call is in the tables. Raises as
        the store does; the tables stay as they were then.
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
                _log.info("%s: changes were compacted away, listing again", self.prefix)
            except SulinaError as error:
                _log.warning("%s can't be followed for now: %s", self.prefix, error)
            # A watch that fails as soon as it begins must not make us list without a pause.
            if self._clock.now() - began > _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            try:
                pause = await self._list_again(pause)
            except Closed:
                return

    async def _follow_watch(self) -> bool:
        """Apply changes as they come; returns whether the watch ended by itself."""
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
        # The last change may have been one of several of its transaction: see that again.
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
                _log.warning("%s can't be listed for now: %s", self.prefix, error)
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
                        f"the metadata store answered as of revision {pages[0].revision}, and "
                        f"{seen} was seen before: was it restored from a backup? Restart the "
                        "brokers after that"
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
        """Bring the tables to what was listed, but not behind what the watch told meanwhile.

        Pages may be of different revisions. What changed between them is in the watch, which
        begins behind the first of them; what the later pages knew already is skipped then.
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

    def _table(self, key: str) -> Table[Any] | None:
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
    """As of which revision each key was listed: that of the page it was on, or would have been."""

    def __init__(self, pages: Sequence[Listing] = ()) -> None:
        self._ends = [page.items[-1].key for page in pages[:-1]]
        self._revisions = [page.revision for page in pages]
        self.first = self._revisions[0] if pages else 0
        self.newest = max(self._revisions, default=0)

    def of(self, key: str) -> int:
        if not self._revisions:
            return 0
        return self._revisions[bisect_left(self._ends, key)]
