"""A topic's ledgers: ``/state/{namespace}/{topic}/ledgers``, changed only by compare-and-swap.

A long list keeps its oldest ledgers in separate pages (``ledger_pages``), so that a change writes
little, whatever the number of ledgers. ``/ledgers/next`` is the next ledger id; none is reused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sulina.metadata.keys import ledger_pages, record
from sulina.metadata.keys.ledger_list import LedgerList, LedgerRef, LedgerState, TieredRef
from sulina.metadata.keys.path import state_root
from sulina.metadata.keys.topics import exists
from sulina.metadata.store import (
    Compare,
    Delete,
    Get,
    MetadataStore,
    ModRevisionIs,
    Op,
    Put,
)
from sulina.names import TopicName

__all__ = ["LedgerIds", "LedgerList", "LedgerRef", "LedgerState", "StoredLedgers", "TieredRef"]

NEXT_ID = "/ledgers/next"
_IDS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class StoredLedgers:
    """A ledger list and the revision that it was read at, for a swap; 0 if there is none yet."""

    list: LedgerList
    revision: int


def key(topic: TopicName) -> str:
    return state_root(topic) + "ledgers"


async def get(store: MetadataStore, topic: TopicName) -> StoredLedgers:
    """A topic's ledgers; an empty list if it has none yet."""
    found = await get_guarded(store, topic, ())
    assert found is not None, "there was no guard"
    return found


async def get_guarded(
    store: MetadataStore, topic: TopicName, guards: Sequence[Compare]
) -> StoredLedgers | None:
    """A topic's ledgers, or None if a guard does not hold."""
    while True:
        result = await store.txn(guards, [Get(key(topic))])
        if not result.succeeded:
            return None
        item = result.responses[0].item
        head = LedgerList() if item is None else record.decode(LedgerList, item)
        revision = 0 if item is None else item.mod_revision
        if not head.pages:
            return StoredLedgers(head, revision)
        # Pages are never wrong, only older or newer; a missing one was trimmed meanwhile, and then
        # the list has changed too.
        listing = await store.range(ledger_pages.root(topic))
        whole = ledger_pages.join(topic, head, listing.items)
        if whole is not None:
            return StoredLedgers(whole, revision)


async def swap(
    store: MetadataStore,
    topic: TopicName,
    expected_revision: int,
    ledgers: LedgerList,
    guards: Sequence[Compare] = (),
    *,
    before: LedgerList | None = None,
    also: Sequence[Op] = (),
) -> int | None:
    """Replace the list if it is unchanged since it was read; returns the new revision.

    None if it has changed, the topic was deleted, or a guard does not hold. ``before`` is the list
    as it was read: unchanged pages are not written. ``also`` are further operations of the same
    transaction.
    """
    head = replace(ledgers, ledgers=ledgers.ledgers[ledgers.paged :])
    puts, gone = ledger_pages.changes(topic, before or LedgerList(), ledgers)
    ops: list[Op] = [*puts, Put(key(topic), record.encode(head)), *map(Delete, gone), *also]
    compares = [ModRevisionIs(key(topic), expected_revision), exists(topic), *guards]
    result = await store.txn(compares, ops)
    return result.revision if result.succeeded else None


@dataclass(frozen=True, slots=True)
class _Next:
    next: int = 1


class LedgerIds:
    """Assigns ledger ids, which it reserves in blocks. Any number of tasks may use it."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._ids = range(0)

    async def next(self) -> int:
        """A new id. Ids may be skipped after errors and restarts, but are never reused."""
        async with self._lock:
            if not self._ids:
                self._ids = await self._take()
            first, self._ids = self._ids[0], self._ids[1:]
            return first

    async def _take(self) -> range:
        def take(current: _Next | None) -> _Next:
            return _Next((current or _Next()).next + _IDS_AT_ONCE)

        after = (await record.update(self._store, _Next, NEXT_ID, take)).next
        return range(after - _IDS_AT_ONCE, after)


async def skip_ids(store: MetadataStore, highest: int) -> None:
    """Assign only ids above ``highest``, because lost metadata had used the others."""

    def skip(current: _Next | None) -> _Next:
        return _Next(max((current or _Next()).next, highest + 1))

    await record.update(store, _Next, NEXT_ID, skip)
