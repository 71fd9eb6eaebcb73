"""The cost of a topic with very many ledgers: reading, planning with and changing its list."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from broker_containers.topics.tiering import TieringSettings, droppable, untiered
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.keys import ledger_pages, ledgers, namespaces, topic_lifecycle, topics
from sulina.metadata.keys.ledgers import LedgerRef, LedgerState, TieredRef
from sulina.metadata.keys.path import state_root
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock

TOPIC = TopicName.parse("/default/many")
_RECORDS = 1000
_STEP = 1000


@dataclass(frozen=True, slots=True)
class ListCost:
    """The costs of one topic's list."""

    ledgers: int
    read_seconds: float
    plan_seconds: float
    """Seconds to find which ledgers to tier, and whose entries to delete."""
    bytes_each: float
    """Bytes in the metadata store."""
    change_bytes: int
    """Bytes that one change of the list writes."""


async def measure_lists(count: int = 10_000) -> ListCost:
    """Measure a list of ``count`` ledgers, nearly all of them tiered."""
    store = await EmbeddedStore.open(RealClock())
    try:
        await namespaces.create_first(store)
        await topic_lifecycle.create(store, TOPIC, topics.TopicRecord())
        refs = tuple(_ref(number) for number in range(count))
        before = ledgers.StoredLedgers(ledgers.LedgerList(), 0)
        for end in range(_STEP, count + _STEP, _STEP):
            wanted = ledger_pages.with_pages(replace(before.list, epoch=1, ledgers=refs[:end]))
            revision = await ledgers.swap(store, TOPIC, before.revision, wanted, before=before.list)
            assert revision is not None
            before = ledgers.StoredLedgers(wanted, revision)
        begun = time.perf_counter()
        found = (await ledgers.get(store, TOPIC)).list
        read = time.perf_counter() - begun
        begun = time.perf_counter()
        untiered(found.ledgers)
        droppable(found.ledgers, TieringSettings(), 1 << 62)
        plan = time.perf_counter() - begun
        listing = await store.range(state_root(TOPIC))
        head = next(item for item in listing.items if item.key == ledgers.key(TOPIC))
        size = sum(len(item.value) for item in listing.items)
        return ListCost(count, read, plan, size / count, len(head.value))
    finally:
        await store.close()


def _ref(number: int) -> LedgerRef:
    begun = 1_750_000_000_000_000 + number * 60_000_000
    return LedgerRef(
        1_000_000 + number,
        number * _RECORDS,
        number * _RECORDS + _RECORDS - 1,
        LedgerState.CLOSED,
        300_000,
        begun,
        begun + 59_000_000,
        42,
        TieredRef(81_234, "v1-0123456789abcdef0123456789abcdef", local=False),
    )
