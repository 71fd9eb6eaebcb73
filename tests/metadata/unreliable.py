"""A metadata store between a prefix_cache and the real one, which a test can make deaf or break."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Self

from sulina.errors import SulinaError
from sulina.metadata.lease import Lease
from sulina.metadata.store import (
    Compare,
    Event,
    KeyValue,
    Listing,
    MetadataStore,
    Op,
    TxnResult,
    Watch,
)


class UnreliableStore:
    """``MetadataStore`` over another one. Reads and writes pass, watches and listings may not."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._watches: list[_Watch] = []
        self.deaf = False
        """Whether new watches hear nothing."""
        self.was_deaf = False
        """Whether a watch ever was."""
        self.watch_error: SulinaError | None = None
        """What new watches fail with."""
        self.listing_errors: list[SulinaError] = []
        """What the next listings fail with, one each."""
        self.before_page: Callable[[], Awaitable[object]] | None = None
        """Runs before each page of a listing."""
        self.after_page: Callable[[], Awaitable[object]] | None = None
        """Runs when a page was read, before the caller has it."""
        self.pages = 0
        """How many pages were asked for."""

    def lose_watches(self, error: SulinaError | None = None) -> None:
        """Every watch fails with ``error``, or ends as if it had been closed."""
        for watch in self._watches:
            watch.lose(error)
        self._watches.clear()

    def tell_only(self, count: int) -> None:
        """The watches there are tell so many changes more, and then fall silent."""
        for watch in self._watches:
            watch.left = count

    # ---- the store ----

    async def get(self, key: str) -> KeyValue | None:
        return await self._store.get(key)

    async def range(
        self,
        prefix: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        keys_only: bool = False,
    ) -> Listing:
        self.pages += 1
        if self.before_page is not None:
            await self.before_page()
        if self.listing_errors:
            raise self.listing_errors.pop(0)
        page = await self._store.range(prefix, limit=limit, after=after, keys_only=keys_only)
        if self.after_page is not None:
            await self.after_page()
        return page

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        return await self._store.put(key, value, lease=lease)

    async def delete(self, key: str) -> bool:
        return await self._store.delete(key)

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> TxnResult:
        return await self._store.txn(compares, then, otherwise)

    async def grant(self, ttl_seconds: int) -> Lease:
        return await self._store.grant(ttl_seconds)

    def watch(self, prefix: str, *, from_revision: int) -> Watch:
        self.was_deaf |= self.deaf
        watch = _Watch(
            self._store.watch(prefix, from_revision=from_revision), self.deaf, self.watch_error
        )
        self._watches.append(watch)
        return watch

    async def compact(self, revision: int) -> None:
        await self._store.compact(revision)

    async def close(self) -> None:
        await self._store.close()


class _Watch:
    def __init__(self, watch: Watch, deaf: bool, error: SulinaError | None) -> None:
        self._watch = watch
        self._deaf = deaf
        self._end: Exception | None = error
        self._lost = asyncio.Event()
        self.left: int | None = None
        """How many changes it tells yet, if that has an end."""
        if error is not None:
            self._lost.set()

    def lose(self, error: SulinaError | None) -> None:
        self._end = error or StopAsyncIteration()
        self._lost.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._deaf or self.left == 0:
            await self._lost.wait()
        if self.left is not None:
            self.left -= 1
        if not self._lost.is_set():
            return await self._next()
        assert self._end is not None
        raise self._end

    async def _next(self) -> Event:
        event = asyncio.ensure_future(anext(self._watch))
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait((event, lost), return_when=asyncio.FIRST_COMPLETED)
            if self._end is not None:
                raise self._end
            return await event
        finally:
            for task in (event, lost):
                task.cancel()
            await asyncio.gather(event, lost, return_exceptions=True)

    async def aclose(self) -> None:
        self.lose(None)
        await self._watch.aclose()
