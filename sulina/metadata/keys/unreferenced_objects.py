"""Objects that no topic references any more: ``/tier/doomed/{id of the first ledger}``, and
``/tier/doomed/{ledger}-{generation}`` for those that this object replaced.

Written in the transaction that removes ledgers from a topic's list, or when a topic is deleted, so
that the objects are deleted even if the broker that started it crashes. Only recorded objects are
deleted, never one that merely seems unknown. A record is kept for a while after the deletion,
because an upload in progress may have finished later. Replaced objects are deleted only after a
while, because readers, jobs and snapshots of tables still use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sulina.metadata.keys import record
from sulina.metadata.store import Delete, KeyValue, MetadataStore, ModRevisionIs, Put
from sulina.names import TopicName

ROOT: Final = "/tier/doomed/"
LEDGERS_PER_RECORD: Final = 1000
"""The maximum number of ledgers per record."""


Place = tuple[int, ...]
"""An object of a topic: its ledger and first offset, and, if it replaced others, its generation and
last offset."""


@dataclass(frozen=True, slots=True)
class UnreferencedObjects:
    """Objects of one topic."""

    topic: str
    objects: tuple[Place, ...]
    since_us: int
    """When they were removed from the list, by the wall clock of that broker."""
    keep_us: int = 0
    """How long they are kept after that."""
    notice: Place = ()
    """The object whose notice to plain readers goes after them, if there is one."""


@dataclass(frozen=True, slots=True)
class StoredUnreferenced:
    """A record with the key and revision that it was read at."""

    value: UnreferencedObjects
    key: str
    revision: int


def puts(topic: TopicName, places: Sequence[Place], now_us: int, keep_us: int = 0) -> list[Put]:
    """Records that objects of ``topic`` are to be deleted, after ``keep_us``."""
    found: list[Put] = []
    for start in range(0, len(places), LEDGERS_PER_RECORD):
        some = tuple(places[start : start + LEDGERS_PER_RECORD])
        value = UnreferencedObjects(str(topic), some, now_us, keep_us)
        found.append(Put(f"{ROOT}{some[0][0]:020d}", record.encode(value)))
    return found


def put_replaced(
    topic: TopicName, places: Sequence[Place], new: Place, now_us: int, keep_us: int
) -> Put:
    """Records that objects are to be deleted after ``keep_us``: those that the object ``new``
    replaced, or that object itself, which was given up."""
    assert len(places) <= LEDGERS_PER_RECORD
    value = UnreferencedObjects(str(topic), tuple(places), now_us, keep_us, new)
    ledger, _, generation, _ = new
    return Put(f"{ROOT}{ledger:020d}-{generation:010d}", record.encode(value))


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
