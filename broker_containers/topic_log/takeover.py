"""What a new owner of a topic reads before it serves anything: the log's end, the sequences.

The newest ledger with records holds both. A ledger that the previous owner left open is fenced and
recovered first; one that was created and never written is removed from the list.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from broker_containers.topic_log.dedup import Dedup
from broker_containers.topic_log.ledger_scan import (
    ScannedLedger,
    read_control_frame,
    scan,
    scan_object,
)
from storage_grpc.ledgers import Ledgers
from storage_grpc.tier.tier import Tier
from sulina.errors import SulinaError
from sulina.metadata.keys import closing
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef, LedgerState
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName


@dataclass(frozen=True, slots=True)
class FencedLog:
    """The log as the previous owner left it."""

    list: LedgerList
    """In the next epoch, with no open ledger. Takes effect only when it is swapped in."""
    dedup: Dedup
    end: int
    empty: tuple[LedgerRef, ...]
    """Ledgers to delete once the list without them is swapped in."""


async def fence_and_read(
    topic: TopicName,
    before: LedgerList,
    ledgers: Ledgers,
    store: MetadataStore,
    tier: Tier | None,
) -> FencedLog:
    """Fence the previous owner and read what is stored. Raises what recovery and reads raise.

    The previous owner confirmed no record at or after ``end``, and can confirm none from now on.
    """
    refs = list(before.ledgers)
    dedup, end, empty = Dedup(), refs[-1].first_offset if refs else 0, []
    while refs:
        ref = refs[-1]
        last_entry = ref.last_entry
        if ref.state is LedgerState.OPEN:
            last_entry = await ledgers.recover(ref.id)
        found = await _read_end(topic, ref, last_entry, ledgers, store, tier, dedup)
        if found.records or len(refs) == 1 or found.has_snapshot:
            end = found.end
            if ref.tiered is None:
                refs[-1] = replace(
                    ref,
                    state=LedgerState.CLOSED,
                    last_entry=last_entry,
                    last_offset=end - 1,
                    bytes=found.bytes,
                    first_time_us=found.first_time,
                    last_time_us=found.last_time,
                )
            break
        empty.append(refs.pop())  # created but never written
    taken = LedgerList(epoch=before.epoch + 1, ledgers=tuple(refs), pages=before.pages)
    return FencedLog(taken, dedup, end, tuple(empty))


async def _read_end(
    topic: TopicName,
    ref: LedgerRef,
    last_entry: int | None,
    ledgers: Ledgers,
    store: MetadataStore,
    tier: Tier | None,
    dedup: Dedup,
) -> ScannedLedger:
    """From entries on storage nodes, or from what was recorded when the ledger was tiered."""
    if ref.tiered is None:
        return await scan(ledgers, ref, last_entry, dedup)
    noted = await closing.get(store, topic, ref.id)
    if noted is not None:
        return read_control_frame(ref, noted, dedup)
    if ref.tiered.local:
        try:
            return await scan(ledgers, ref, last_entry, dedup)
        except SulinaError:
            if tier is None:
                raise
    return await scan_object(tier, topic, ref, dedup)
