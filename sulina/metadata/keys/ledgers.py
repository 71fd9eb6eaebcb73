"""A topic's ledgers: ``/state/{namespace}/{topic}/ledgers``, one value, changed only by swaps.

A long list keeps its oldest ledgers in pages beside it (``ledger_pages``), so that a change writes
little, whatever the number of ledgers. ``/ledgers/next`` has the number from which ledger ids are
given; no id is given twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sulina.metadata import cas
from sulina.metadata.keys import ledger_pages, record
from sulina.metadata.keys.ledger_list import LedgerList, LedgerRef, LedgerState, TieredRef
from sulina.metadata.keys.path import state_root
from sulina.metadata.keys.topics import exists
from sulina.metadata.store import (
    Compare,
    Delete,
    Get,
    KeyValue,
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
    """A ledger list as it was read: the revision is what a swap expects, 0 if there is none yet."""

    list: LedgerList
    revision: int


def key(topic: TopicName) -> str:
    """Where a topic's ledger list is."""
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
        # What pages hold is never wrong, only older or newer; one that is missing was trimmed
        # since, and then the list is another one by now.
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
    """Replace the list if it is as read; returns the new revision, None if somebody was faster.

    None as well if the topic was deleted meanwhile, or one of ``guards`` does not hold. ``before``
    is the list as it was read: pages that are as they were are not written. ``also`` happens in
    the same transaction.
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
    """Gives ledger ids, which it takes from the store in blocks. For any number of tasks."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._ids = range(0)

    async def next(self) -> int:
        """An id that nobody ever had. Some are skipped after errors and restarts."""
        async with self._lock:
            if not self._ids:
                self._ids = await self._take()
            first, self._ids = self._ids[0], self._ids[1:]
            return first

    async def _take(self) -> range:
        taken = range(0)

        def take(item: KeyValue | None) -> bytes:
            nonlocal taken
            first = 1 if item is None else record.decode(_Next, item).next
            taken = range(first, first + _IDS_AT_ONCE)
            return record.encode(_Next(taken.stop))

        await cas.update(self._store, NEXT_ID, take)
        return taken


async def skip_ids(store: MetadataStore, highest: int) -> None:
    """Give no id up to ``highest`` from now on: ledgers have them that the metadata forgot."""

    def skip(item: KeyValue | None) -> bytes:
        first = 1 if item is None else record.decode(_Next, item).next
        return record.encode(_Next(max(first, highest + 1)))

    await cas.update(store, NEXT_ID, skip)
