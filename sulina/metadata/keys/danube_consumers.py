"""Consumers of Danube's stock clients: ``/danube/consumers/{number}``, bound to a broker's lease.

Such a client opens its stream with nothing but a number, also at a broker that has just restarted
or that was never told: here every broker finds out who that is.
"""

from __future__ import annotations

from dataclasses import dataclass

from sulina.metadata.keys import record
from sulina.metadata.store import Delete, MetadataStore, ModRevisionIs
from sulina.model import SubscriptionType

CONSUMERS = "/danube/consumers/"


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A consumer as it subscribed."""

    topic: str
    subscription: str
    name: str
    type: SubscriptionType
    key_filters: tuple[str, ...] = ()


def key(number: int) -> str:
    """Where a consumer is noted."""
    return f"{CONSUMERS}{number}"


async def get(store: MetadataStore, number: int) -> ConsumerRecord | None:
    """A consumer, or None."""
    item = await store.get(key(number))
    return None if item is None else record.decode(ConsumerRecord, item)


async def put(store: MetadataStore, number: int, wanted: ConsumerRecord, lease: int) -> int:
    """Note a consumer; the revision of it. ``NotFound`` if the lease is gone."""
    return await store.put(key(number), record.encode(wanted), lease=lease)


async def delete(store: MetadataStore, number: int, revision: int) -> None:
    """Forget a consumer, unless somebody noted it anew since ``revision``."""
    await store.txn([ModRevisionIs(key(number), revision)], [Delete(key(number))])
