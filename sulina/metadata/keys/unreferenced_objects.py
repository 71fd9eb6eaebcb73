"""Objects that nobody lists any more: ``/tier/doomed/{first of their ledgers}``.

Written in the transaction that takes ledgers off a topic's list, or when their topic is being
deleted, so that objects are deleted although whoever began it is gone; and only those, so that
nothing is ever deleted because it merely seems unknown. A record stays for a while after the
deletion: an upload that was under way may have ended behind it.
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
AT_ONCE: Final = 1000
"""Ledgers of one record."""


@dataclass(frozen=True, slots=True)
class UnreferencedObjects:
    """Objects of one topic, each by its ledger and first offset."""

    topic: str
    objects: tuple[tuple[int, int], ...]
    since_us: int
    """When they left the list, by the wall clock of who took them off."""


@dataclass(frozen=True, slots=True)
class StoredUnreferenced:
    """A record as it was read."""

    value: UnreferencedObjects
    key: str
    revision: int


def puts(topic: TopicName, refs: Sequence[LedgerRef], now_us: int) -> list[Put]:
    """What notes that the objects of ``refs`` shall go; nothing for none."""
    found: list[Put] = []
    for start in range(0, len(refs), AT_ONCE):
        some = refs[start : start + AT_ONCE]
        value = UnreferencedObjects(
            str(topic), tuple((ref.id, ref.first_offset) for ref in some), now_us
        )
        found.append(Put(f"{ROOT}{some[0].id:020d}", record.encode(value)))
    return found


async def list_some(
    store: MetadataStore, limit: int, after: str | None = None
) -> list[StoredUnreferenced]:
    """Some records, in the order of their keys."""
    listing = await store.range(ROOT, limit=limit, after=after)
    return [_stored(item) for item in listing.items]


def _stored(item: KeyValue) -> StoredUnreferenced:
    return StoredUnreferenced(record.decode(UnreferencedObjects, item), item.key, item.mod_revision)


async def forget(store: MetadataStore, done: StoredUnreferenced) -> None:
    """The objects are gone for good."""
    await store.txn([ModRevisionIs(done.key, done.revision)], [Delete(done.key)])
