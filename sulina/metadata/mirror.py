"""Part of the metadata kept in memory: tables that follow the store by a watch.

A mirror lists its prefix once and then follows every change, in order. When the store no longer
holds what the watch needs, it lists again and works out the difference. It never goes back to an
older revision. While the store can't be reached the tables stay as they were: readers get what was
true, and nothing is ever written on the word of a mirror alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from sulina.errors import Closed, Retriable, SulinaError, UnknownOutcome
from sulina.metadata.store import Compacted, Event, EventKind, KeyValue, Listing, MetadataStore
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_PAGE = 5_000
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0

V = TypeVar("V")


class Table(Generic[V]):
    """The keys under one prefix, decoded. Readers look at ``items``; only the mirror changes it.

    ``decode`` returns None for a key that does not belong here. What it can't read is left out,
    and logged.
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
        """Call ``watcher`` with each item that changed, or None for one that is gone."""
        self._watchers.append(watcher)

    def put(self, item: KeyValue) -> None:
        """For the mirror: the key is so from now on."""
        try:
            value = self._decode(item)
        except SulinaError as error:
            _log.error("%s is left out: %s", item.key, error)
            value = None
        if value is None:
            self.remove(item.key)
            return
        rest = item.key.removeprefix(self.prefix)
        self.items[rest] = value
        self.revisions[rest] = item.mod_revision
        for watcher in self._watchers:
            watcher(rest, value)

    def remove(self, key: str) -> None:
        """For the mirror: the key is gone."""
        rest = key.removeprefix(self.prefix)
        if self.items.pop(rest, None) is not None:
            del self.revisions[rest]
            for watcher in self._watchers:
                watcher(rest, None)

    def keep_only(self, keys: set[str]) -> None:
        """For the mirror: after a listing, what is not in it is gone."""
        for rest in [rest for rest in self.items if self.prefix + rest not in keys]:
            self.remove(self.prefix + rest)


class Mirror:
    """Tables beneath one prefix of the store. Use as ``async with``; entering waits for a listing.

    A key goes to the first table whose prefix it has.
    """

    def __init__(
        self, store: MetadataStore, clock: Clock, prefix: str, tables: Sequence[Table[object]]
    ) -> None:
        self._store = store
        self._clock = clock
        self._prefix = prefix
        self._tables = tables
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.revision = 0
        """Everything up to here is in the tables."""

    async def __aenter__(self) -> Mirror:
        await self._list()
        self._task = asyncio.create_task(self._follow(), name=f"mirror {self._prefix}")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def change(self) -> None:
        """Wait for the next change of any table."""
        await self._changed.wait()

    async def reached(self, revision: int) -> None:
        """Wait until a change of this prefix with that revision, or a later one, is in the tables.

        No deadline of its own.
        """
        while self.revision < revision:
            await self.change()

    # ---- following the store ----

    async def _follow(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            watch = self._store.watch(self._prefix, from_revision=self.revision + 1)
            try:
                async for event in watch:
                    pause = _FIRST_PAUSE
                    self._apply(event)
                return  # the store was closed
            except Closed:
                return
            except Compacted:
                _log.info("%s: changes were compacted away, listing again", self._prefix)
            except (Retriable, UnknownOutcome) as error:
                _log.warning("%s can't be followed for now: %s", self._prefix, error)
            finally:
                await watch.aclose()
            pause = await self._list_again(pause)

    async def _list_again(self, pause: float) -> float:
        while True:
            try:
                await self._list()
            except (Retriable, UnknownOutcome):
                await self._clock.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                return pause

    async def _list(self) -> None:
        pages: list[Listing] = []
        after: str | None = None
        while True:
            page = await self._store.range(self._prefix, limit=_PAGE, after=after)
            pages.append(page)
            if not page.more:
                break
            after = page.items[-1].key
        # Pages may be of different revisions: what changed between them is in the watch, which
        # begins behind the first of them and repeats the rest.
        revision = pages[0].revision
        if revision < self.revision:
            raise Retriable(
                f"the metadata store answered as of revision {revision}, and {self.revision} was "
                "seen before: was it restored from a backup? Restart the brokers after that"
            )
        keys: set[str] = set()
        for item in self._items(pages):
            keys.add(item.key)
            table = self._table(item.key)
            if table is None:
                continue
            rest = item.key.removeprefix(table.prefix)
            if table.revisions.get(rest) != item.mod_revision:
                table.put(item)
        for table in self._tables:
            table.keep_only(keys)
        self._at(revision)

    @staticmethod
    def _items(pages: Sequence[Listing]) -> Iterator[KeyValue]:
        for page in pages:
            yield from page.items

    def _apply(self, event: Event) -> None:
        table = self._table(event.key)
        if table is not None:
            rest = event.key.removeprefix(table.prefix)
            if table.revisions.get(rest, 0) <= event.mod_revision:
                if event.kind is EventKind.DELETE:
                    table.remove(event.key)
                else:
                    table.put(KeyValue(event.key, event.value, 0, event.mod_revision, 0, 0))
        self._at(event.mod_revision)

    def _table(self, key: str) -> Table[object] | None:
        return next((table for table in self._tables if key.startswith(table.prefix)), None)

    def _at(self, revision: int) -> None:
        self.revision = max(self.revision, revision)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
