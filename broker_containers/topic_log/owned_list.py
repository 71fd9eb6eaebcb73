"""A topic's ledger list as its owner changes it: by compare-and-swap, one change at a time.

Rolling, tiering and trimming take turns, each on the result of the previous one. A swap that
succeeds proves that no other process owned the topic until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from sulina.errors import Fenced
from sulina.metadata.keys import ledger_pages, requests
from sulina.metadata.keys import ledgers as ledger_keys
from sulina.metadata.keys.ledgers import LedgerList
from sulina.metadata.store import Compare, MetadataStore, ModRevisionIs, Op
from sulina.names import TopicName


class OwnedLedgerList:
    """The list as last written; empty until it is taken."""

    def __init__(self, topic: TopicName, store: MetadataStore) -> None:
        self.list = LedgerList()
        self._topic = topic
        self._store = store
        self._revision = 0
        self._turn = asyncio.Lock()
        self._guards: Sequence[Compare] = ()
        self._before = LedgerList()
        self._in_doubt: LedgerList | None = None
        """The target of a swap whose outcome is unknown."""

    @property
    def guard(self) -> Compare:
        """A condition on the metadata that holds until another process changes the list."""
        return ModRevisionIs(ledger_keys.key(self._topic), self._revision)

    @asynccontextmanager
    async def taking(self, guards: Sequence[Compare]) -> AsyncIterator[LedgerList]:
        """The previous owner's list, for ``take``. Raises ``Fenced`` if a guard fails."""
        async with self._turn:
            found = await ledger_keys.get_guarded(self._store, self._topic, guards)
            if found is None:
                raise Fenced(f"{self._topic} belongs to another broker now")
            self._guards, self._before = guards, found.list
            self._revision, self._in_doubt = found.revision, None
            yield found.list

    async def take(self, ledgers: LedgerList) -> None:
        """Within ``taking``: write the list. Raises ``Fenced`` if another process was faster."""
        await self._swap(ledgers, self._before, self._guards)

    async def commit(
        self, change: Callable[[LedgerList], LedgerList], also: Sequence[Op] = ()
    ) -> None:
        """Swap the list for ``change`` of it, together with the operations in ``also``.

        Raises ``Fenced`` if another process changed the list, and errors of the store. After those
        the outcome is unknown until the next swap, or ``settle``, finds out.
        """
        async with self._turn:
            await self._settle()
            await self._swap(change(self.list), self.list, also=also)

    async def settle(self) -> None:
        """Resolve a swap whose outcome is unknown. Raises ``Fenced``."""
        if self._in_doubt is not None:
            async with self._turn:
                await self._settle()

    async def _settle(self) -> None:
        if self._in_doubt is None:
            return
        stored = await ledger_keys.get(self._store, self._topic)
        if stored.revision != self._revision:
            if stored.list != self._in_doubt:
                raise self._lost()
            self.list, self._revision = stored.list, stored.revision
        self._in_doubt = None

    async def _swap(
        self,
        ledgers: LedgerList,
        before: LedgerList,
        guards: Sequence[Compare] = (),
        also: Sequence[Op] = (),
    ) -> None:
        wanted = self._in_doubt = ledger_pages.with_pages(ledgers)
        if wanted.requested != before.requested:
            also = [*also, requests.mark(self._topic, wanted)]
        revision = await ledger_keys.swap(
            self._store, self._topic, self._revision, wanted, guards, before=before, also=also
        )
        self._in_doubt = None
        if revision is None:
            raise self._lost()
        self.list, self._revision = wanted, revision

    def _lost(self) -> Fenced:
        return Fenced(f"{self._topic} has another owner now, or was deleted")
