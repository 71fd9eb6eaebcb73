"""What a new owner of a topic reads before it serves anything: the log's end, the sequences.

The newest ledger with records holds both. A ledger that the previous owner left open is fenced and
recovered first; one that was created and never written is removed from the list.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from broker_containers.topic_log.dedup import Dedup
from broker_containers.topic_log.ledger_lookup import needed_tier
from storage_grpc.ledgers import Ledgers
from storage_grpc.tier.tier import Tier, head_of
from sulina.errors import StorageFailed, SulinaError
from sulina.metadata.keys import closing
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef, LedgerState
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.seam import Buffer
from sulina.wire.decode import Frame
from sulina.wire.header import HEADER_SIZE, parse_header

_HEADS_AT_ONCE = 4096
_READ_AT_ONCE = 4 << 20


@dataclass(slots=True)
class ScannedLedger:
    """The result of scanning a ledger."""

    end: int
    """The offset after its last record."""
    records: int = 0
    bytes: int = 0
    first_time: int = 0
    last_time: int = 0
    has_snapshot: bool = False


async def scan(
    ledgers: Ledgers, ref: LedgerRef, last_entry: int | None, dedup: Dedup
) -> ScannedLedger:
    """Read the headers of all entries up to ``last_entry`` and update ``dedup``.

    Raises ``StorageFailed`` if offsets are not consecutive: serving such a ledger would show a
    gap or a repeat. Raises ``CorruptEntry`` for a damaged entry.
    """
    found = ScannedLedger(end=ref.first_offset)
    entry = 0
    while last_entry is not None and entry <= last_entry:
        heads = await ledgers.read(
            ref.id, entry, max_entries=_HEADS_AT_ONCE, max_bytes=1 << 20, head=HEADER_SIZE
        )
        for head in heads[: last_entry - entry + 1]:
            header = parse_header(head.payload)
            if header.is_control:
                (whole,) = await ledgers.read(ref.id, head.entry, max_entries=1, max_bytes=1)
                dedup.restore(Frame(whole.payload).payloads[0])
                found.has_snapshot = True
                continue
            if header.base_offset != found.end:
                raise StorageFailed(
                    f"ledger {ref.id} continues at offset {header.base_offset}, not {found.end} "
                    f"(entry {head.entry}): its data must be repaired manually"
                )
            dedup.stored(header)
            found.end = header.next_offset
            found.records += header.count
            found.bytes += header.size
            found.first_time = found.first_time or header.first_time
            found.last_time = max(found.last_time, header.last_time)
        entry += len(heads)
    return found


async def scan_object(
    tier: Tier | None, topic: TopicName, ref: LedgerRef, dedup: Dedup
) -> ScannedLedger:
    """The same for a tiered ledger. If it has a closing frame, only that is read."""
    assert ref.last_offset is not None
    tier, head = needed_tier(tier, ref), head_of(topic, ref)
    offset = ref.first_offset
    for frame in await tier.control(head):
        dedup.restore(Frame(frame).payloads[0])
        offset = parse_header(frame).base_offset
    while offset <= ref.last_offset:
        found = await tier.read(head, offset, _READ_AT_ONCE)
        if not found:
            break  # the object lacks the offsets from here on
        for frame in found:
            header = parse_header(frame)
            dedup.stored(header)
            offset = header.next_offset
    return _known(ref)


def read_control_frame(ref: LedgerRef, control: Buffer, dedup: Dedup) -> ScannedLedger:
    """The state at the end of a closed ledger, from the list and its closing control frame."""
    dedup.restore(Frame(control).payloads[0])
    return _known(ref)


def _known(ref: LedgerRef) -> ScannedLedger:
    assert ref.last_offset is not None
    return ScannedLedger(
        ref.last_offset + 1, ref.records, ref.bytes, ref.first_time_us, ref.last_time_us, True
    )


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
    taken = replace(before, epoch=before.epoch + 1, ledgers=tuple(refs))
    return FencedLog(taken.fitted(), dedup, end, tuple(empty))


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
