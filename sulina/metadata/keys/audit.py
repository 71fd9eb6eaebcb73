"""The ends of the audit chains, ``/audit/{broker}``, and where the trail begins, ``/audit_start``.

They say where a broker continues its chain after a restart, and reveal a trail whose last records
were removed. A broker stores its own every few seconds, so one may be behind the trail.
"""

from __future__ import annotations

from dataclasses import dataclass

from sulina.audit import NO_HASH, ChainHead, TrailStart
from sulina.metadata.keys import record
from sulina.metadata.keys.auth import list_under
from sulina.metadata.keys.path import name_of, part
from sulina.metadata.store import MetadataStore

AUDIT = "/audit/"
START = "/audit_start"


@dataclass(frozen=True, slots=True)
class HeadRecord:
    """The last record of a chain, and its offset in the topic."""

    sequence: int = 0
    hash: str = NO_HASH
    offset: int = 0


async def put_head(store: MetadataStore, head: ChainHead, offset: int) -> None:
    """Store the end of a broker's chain."""
    value = record.encode(HeadRecord(head.sequence, head.hash, offset))
    await store.put(AUDIT + part(head.broker), value)


async def get_head(store: MetadataStore, broker: str) -> HeadRecord:
    """The stored end of a broker's chain; that of an empty chain if there is none."""
    item = await store.get(AUDIT + part(broker))
    return HeadRecord() if item is None else record.decode(HeadRecord, item)


async def heads(store: MetadataStore) -> list[ChainHead]:
    """The stored ends of all chains."""
    found = []
    for item in await list_under(store, AUDIT):
        read = record.decode(HeadRecord, item)
        broker = name_of(item.key.removeprefix(AUDIT))
        found.append(ChainHead(broker, read.sequence, read.hash, read.offset))
    return found


@dataclass(frozen=True, slots=True)
class StartRecord:
    """Where the trail begins, and where it will begin if a deletion is not finished yet."""

    starts: tuple[TrailStart, ...] = ()


async def starts(store: MetadataStore) -> tuple[TrailStart, ...]:
    """Where the trail may begin; empty if nothing was deleted."""
    item = await store.get(START)
    return () if item is None else record.decode(StartRecord, item).starts


async def put_starts(store: MetadataStore, *now: TrailStart) -> None:
    """Store where the trail may begin. Only the owner of the topic does."""
    await store.put(START, record.encode(StartRecord(now)))
