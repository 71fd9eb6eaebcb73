"""The leader: ``/cluster/leader``, bound to the lease of the broker that leads.

The revision that created the key is the term. Everything that a leader writes is guarded by it, so
a leader that was replaced without noticing cannot change anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from sulina.metadata.keys import record
from sulina.metadata.store import (
    Absent,
    Compare,
    Delete,
    Get,
    KeyValue,
    MetadataStore,
    ModRevisionIs,
    Put,
)

KEY = "/cluster/leader"


@dataclass(frozen=True, slots=True)
class LeaderRecord:
    """The broker that leads."""

    broker: str
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class Leadership:
    """The current leader and its term; term 0 if there is no leader."""

    holder: LeaderRecord | None
    term: int


async def look(store: MetadataStore) -> Leadership:
    """The current leadership."""
    return _leadership(await store.get(KEY))


async def take(store: MetadataStore, wanted: LeaderRecord, lease: int) -> Leadership:
    """Become leader if there is none; returns the leadership afterwards."""
    result = await store.txn([Absent(KEY)], [Put(KEY, record.encode(wanted), lease)], [Get(KEY)])
    if result.succeeded:
        return Leadership(wanted, result.revision)
    return _leadership(result.responses[0].item)


def _leadership(item: KeyValue | None) -> Leadership:
    if item is None:
        return Leadership(None, 0)
    return Leadership(record.decode(LeaderRecord, item), item.mod_revision)


async def leave(store: MetadataStore, term: int) -> None:
    """Resign, if ``term`` is still current."""
    await store.txn([in_term(term)], [Delete(KEY)])


def in_term(term: int) -> Compare:
    """The condition that the leader of ``term`` still leads."""
    return ModRevisionIs(KEY, term)
