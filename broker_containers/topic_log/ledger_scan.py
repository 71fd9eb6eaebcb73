"""Learns from a ledger what a new owner must know: its end, its size, the producers' sequences."""

from __future__ import annotations

from dataclasses import dataclass

from broker_containers.topic_log.dedup import Dedup
from broker_containers.topic_log.ledger_lookup import needed_tier
from storage_grpc.ledgers import Ledgers
from storage_grpc.tier.tier import Tier, head_of
from sulina.errors import StorageFailed
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.names import TopicName
from sulina.runtime.seam import Buffer
from sulina.wire.decode import Frame
from sulina.wire.header import HEADER_SIZE, parse_header

_HEADS_AT_ONCE = 4096
_READ_AT_ONCE = 4 << 20


@dataclass(slots=True)
class ScannedLedger:
    """What a scan of a ledger found."""

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
    """Read the headers of all entries up to ``last_entry`` and bring ``dedup`` up to date.

    Raises ``StorageFailed`` if offsets do not follow each other: serving such a ledger would show
    a gap or a repeat. Raises ``CorruptEntry`` when an entry is damaged.
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
                    f"ledger {ref.id} goes on at offset {header.base_offset} where {found.end} "
                    f"should follow (entry {head.entry}): its data needs repair by hand"
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
    """The same for a ledger that is an object; one with a closing frame is not read as a whole."""
    assert ref.last_offset is not None
    tier, head = needed_tier(tier, ref), head_of(topic, ref)
    offset = ref.first_offset
    for frame in await tier.control(head):
        dedup.restore(Frame(frame).payloads[0])
        offset = parse_header(frame).base_offset
    while offset <= ref.last_offset:
        for frame in await tier.read(head, offset, _READ_AT_ONCE):
            header = parse_header(frame)
            dedup.stored(header)
            offset = header.next_offset
    return _known(ref)


def read_control_frame(ref: LedgerRef, control: Buffer, dedup: Dedup) -> ScannedLedger:
    """What is known of a closed ledger from the list, and from a control frame of its end."""
    dedup.restore(Frame(control).payloads[0])
    return _known(ref)


def _known(ref: LedgerRef) -> ScannedLedger:
    assert ref.last_offset is not None
    return ScannedLedger(
        ref.last_offset + 1, ref.records, ref.bytes, ref.first_time_us, ref.last_time_us, True
    )
