"""Consumers of Danube's stock clients: ``/danube/consumers/{number}``, bound to a broker's lease.

Such a client opens its stream with only a number, even at a broker that has just restarted or never
saw it. This record tells every broker which consumer the number stands for.
"""

from __future__ import annotations

from dataclasses import dataclass

from sulina.metadata.keys import record
from sulina.metadata.store import Delete, MetadataStore, ModRevisionIs
from sulina.model import SubscriptionType

CONSUMERS = "/danube/consumers/"


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A consumer's subscription."""

    topic: str
    subscription: str
    name: str
    type: SubscriptionType
    key_filters: tuple[str, ...] = ()


def key(number: int) -> str:
    return f"{CONSUMERS}{number}"


async def get(store: MetadataStore, number: int) -> ConsumerRecord | None:
    """A consumer, or None."""
    return await record.get(store, ConsumerRecord, key(number))


async def put(store: MetadataStore, number: int, wanted: ConsumerRecord, lease: int) -> int:
    """Store a consumer; returns the revision. Raises ``NotFound`` if the lease is gone."""
    return await store.put(key(number), record.encode(wanted), lease=lease)


async def delete(store: MetadataStore, number: int, revision: int) -> None:
    """Delete a consumer, unless it was stored again since ``revision``."""
    await store.txn([ModRevisionIs(key(number), revision)], [Delete(key(number))])
