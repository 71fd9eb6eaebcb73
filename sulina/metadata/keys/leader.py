"""The leader: ``/cluster/leader``, bound to the lease of the broker that leads.

The revision that created the key is the term. Whatever a leader writes is guarded by it, so a
leader that was replaced without noticing changes nothing any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from sulina.metadata.keys import record
from sulina.metadata.store import Absent, Compare, Delete, Get, MetadataStore, ModRevisionIs, Put

KEY = "/cluster/leader"


@dataclass(frozen=True, slots=True)
class LeaderRecord:
    """Who leads."""

    broker: str
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class Leadership:
    """The leader's place: who has it, and in which term; term 0 if nobody."""

    holder: LeaderRecord | None
    term: int


async def look(store: MetadataStore) -> Leadership:
    """Who leads now."""
    item = await store.get(KEY)
    if item is None:
        return Leadership(None, 0)
    return Leadership(record.decode(LeaderRecord, item), item.mod_revision)


async def take(store: MetadataStore, wanted: LeaderRecord, lease: int) -> Leadership:
    """Take the place if it is free; returns who has it afterwards, with the term."""
    result = await store.txn([Absent(KEY)], [Put(KEY, record.encode(wanted), lease)], [Get(KEY)])
    if result.succeeded:
        return Leadership(wanted, result.revision)
    item = result.responses[0].item
    if item is None:
        return Leadership(None, 0)
    return Leadership(record.decode(LeaderRecord, item), item.mod_revision)


async def leave(store: MetadataStore, term: int) -> None:
    """Give the place up, if it is still that of ``term``."""
    await store.txn([in_term(term)], [Delete(KEY)])


def in_term(term: int) -> Compare:
    """What holds while the leader of ``term`` leads."""
    return ModRevisionIs(KEY, term)
