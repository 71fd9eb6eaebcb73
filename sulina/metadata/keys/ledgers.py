"""A topic's ledgers: ``/state/{namespace}/{topic}/ledgers``, one value, changed only by swaps.

``/ledgers/next`` has the number from which ledger ids are given; no id is given twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from sulina.errors import Refused
from sulina.metadata import cas
from sulina.metadata.keys import record
from sulina.metadata.keys.path import state_root
from sulina.metadata.keys.topics import exists
from sulina.metadata.store import Compare, Get, KeyValue, MetadataStore
from sulina.names import TopicName

NEXT_ID = "/ledgers/next"
_IDS_AT_ONCE = 32


class LedgerState(StrEnum):
    """Whether a ledger may still grow."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class LedgerRef:
    """One ledger of a topic. ``last_offset`` is known once it is closed; an empty one ends just
    before its first offset."""

    id: int
    first_offset: int
    last_offset: int | None = None
    state: LedgerState = LedgerState.OPEN
    bytes: int = 0
    first_time_us: int = 0
    last_time_us: int = 0
    last_entry: int | None = None
    """The number of its last entry, once it is closed; -1 if it has none."""

    def __post_init__(self) -> None:
        if (self.state is LedgerState.CLOSED) != (self.last_offset is not None):
            raise Refused(f"ledger {self.id} must have a last offset exactly if it is closed")


@dataclass(frozen=True, slots=True)
class LedgerList:
    """A topic's ledgers from the oldest to the newest, and the epoch of the owner who wrote them.

    Closed ledgers and their successors leave no gap between their offsets and no overlap.
    """

    epoch: int = 0
    ledgers: tuple[LedgerRef, ...] = ()

    def __post_init__(self) -> None:
        if len({ledger.id for ledger in self.ledgers}) != len(self.ledgers):
            raise Refused("a topic has each ledger once")
        for ledger, following in pairwise(self.ledgers):
            if ledger.last_offset not in (None, following.first_offset - 1):
                raise Refused(
                    f"ledger {ledger.id} ends at offset {ledger.last_offset} but ledger "
                    f"{following.id} begins at {following.first_offset}"
                )


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
    return _stored(await store.get(key(topic)))


async def get_guarded(
    store: MetadataStore, topic: TopicName, guards: Sequence[Compare]
) -> StoredLedgers | None:
    """A topic's ledgers, or None if a guard does not hold."""
    result = await store.txn(guards, [Get(key(topic))])
    return _stored(result.responses[0].item) if result.succeeded else None


def _stored(item: KeyValue | None) -> StoredLedgers:
    if item is None:
        return StoredLedgers(LedgerList(), 0)
    return StoredLedgers(record.decode(LedgerList, item), item.mod_revision)


async def swap(
    store: MetadataStore,
    topic: TopicName,
    expected_revision: int,
    ledgers: LedgerList,
    guards: Sequence[Compare] = (),
) -> int | None:
    """Replace the list if it is as read; returns the new revision, None if somebody was faster.

    None as well if the topic was deleted meanwhile, or one of ``guards`` does not hold.
    """
    return await cas.swap(
        store,
        key(topic),
        expected_revision,
        record.encode(ledgers),
        guards=[exists(topic), *guards],
    )


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
