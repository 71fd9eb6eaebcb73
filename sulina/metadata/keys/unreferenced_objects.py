"""Objects that no topic references any more: ``/tier/doomed/{id of the first ledger}``.

Written in the transaction that removes ledgers from a topic's list, or when a topic is deleted, so
that the objects are deleted even if the broker that started it crashes. Only recorded objects are
deleted, never one that merely seems unknown. A record is kept for a while after the deletion,
because an upload in progress may have finished later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sulina.metadata.keys import record
from sulina.metadata.keys.ledger_list import LedgerRef
from sulina.metadata.store import Delete, KeyValue, MetadataStore, ModRevisionIs, Put
from sulina.names import TopicName

ROOT: Final = "/tier/doomed/"
LEDGERS_PER_RECORD: Final = 1000
"""The maximum number of ledgers per record."""


@dataclass(frozen=True, slots=True)
class UnreferencedObjects:
    """Objects of one topic, each by its ledger and first offset."""

    topic: str
    objects: tuple[tuple[int, int], ...]
    since_us: int
    """When they were removed from the list, by the wall clock of that broker."""


@dataclass(frozen=True, slots=True)
class StoredUnreferenced:
    """A record with the key and revision that it was read at."""

    value: UnreferencedObjects
    key: str
    revision: int


def puts(topic: TopicName, refs: Sequence[LedgerRef], now_us: int) -> list[Put]:
    """Records that the objects of ``refs`` are to be deleted."""
    found: list[Put] = []
    for start in range(0, len(refs), LEDGERS_PER_RECORD):
        some = refs[start : start + LEDGERS_PER_RECORD]
        value = UnreferencedObjects(
            str(topic), tuple((ref.id, ref.first_offset) for ref in some), now_us
        )
        found.append(Put(f"{ROOT}{some[0].id:020d}", record.encode(value)))
    return found


async def list_some(
    store: MetadataStore, limit: int, after: str | None = None
) -> list[StoredUnreferenced]:
    """Up to ``limit`` records, in the order of their keys."""
    listing = await store.range(ROOT, limit=limit, after=after)
    return [_stored(item) for item in listing.items]


def _stored(item: KeyValue) -> StoredUnreferenced:
    return StoredUnreferenced(record.decode(UnreferencedObjects, item), item.key, item.mod_revision)


async def forget(store: MetadataStore, done: StoredUnreferenced) -> None:
    """Remove a record whose objects are deleted."""
    await store.txn([ModRevisionIs(done.key, done.revision)], [Delete(done.key)])
