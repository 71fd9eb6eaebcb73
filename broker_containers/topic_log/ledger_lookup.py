"""Finds offsets in a log by time, in ledgers and in objects.

A ledger is searched by bisection over entry headers, without an index. An object has statistics.
"""

from __future__ import annotations

from typing import Protocol

from storage_grpc.ledgers import Ledgers
from storage_grpc.tier.tier import Tier, head_of
from sulina.errors import SulinaError, Unavailable
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.names import TopicName
from sulina.runtime.seam import Buffer
from sulina.wire.decode import Frame
from sulina.wire.header import HEADER_SIZE, FrameHeader, parse_header


class ReadableLog(Protocol):
    """What readers need from a managed ledger."""

    topic: TopicName
    tier: Tier | None

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def refs(self) -> tuple[LedgerRef, ...]: ...

    @property
    def ledgers(self) -> Ledgers: ...

    def last_entry(self, ref: LedgerRef) -> int: ...

    def entry_in_written(self, ref: LedgerRef, offset: int) -> int | None: ...


def needed_tier(tier: Tier | None, ref: LedgerRef) -> Tier:
    """The tier, for a ledger that cannot be read without it. Raises ``Unavailable``."""
    if tier is None:
        raise Unavailable(
            f"ledger {ref.id} is in the object store, which this broker cannot read: "
            "start the broker or the storage nodes with --tier"
        )
    return tier


async def entry_header(ledgers: Ledgers, ref: LedgerRef, entry: int) -> FrameHeader:
    """The header of one entry."""
    (head,) = await ledgers.read(ref.id, entry, max_entries=1, max_bytes=1, head=HEADER_SIZE)
    return parse_header(head.payload)


async def offset_at(log: ReadableLog, time_us: int) -> int:
    """The offset of the first record published at this time or later; the log's end if none."""
    for ref in log.refs:
        if ref.last_time_us >= time_us:
            found = await _first_record_at(log, ref, time_us)
            if found is not None and found < log.end:
                return found
    return log.end


async def _first_record_at(log: ReadableLog, ref: LedgerRef, time_us: int) -> int | None:
    """The offset of the first record of ``ref`` that is not older than ``time_us``.

    Frames are found by their latest record; only the matching frame is decoded.
    """
    frame: Buffer | None
    if not ref.is_local:
        frame = await needed_tier(log.tier, ref).read_at(head_of(log.topic, ref), time_us)
    else:
        try:
            frame = await _first_frame_at(log.ledgers, ref, log.last_entry(ref), time_us)
        except SulinaError:
            if ref.tiered is None or log.tier is None:
                raise
            frame = await log.tier.read_at(head_of(log.topic, ref), time_us)
    return None if frame is None else _first_in_frame(frame, time_us)


async def _first_frame_at(
    ledgers: Ledgers, ref: LedgerRef, last_entry: int, time_us: int
) -> Buffer | None:
    low, high = 0, last_entry + 1
    while low < high:
        middle = (low + high) // 2
        if (await entry_header(ledgers, ref, middle)).last_time < time_us:
            low = middle + 1
        else:
            high = middle
    while low <= last_entry:
        header = await entry_header(ledgers, ref, low)
        if not header.is_control:
            # If the first record matches, the header is enough.
            size = HEADER_SIZE if header.first_time >= time_us else None
            (found,) = await ledgers.read(ref.id, low, max_entries=1, max_bytes=1, head=size)
            return found.payload
        low += 1
    return None


def _first_in_frame(frame: Buffer, time_us: int) -> int:
    """The offset of the first record of a frame that is not older than ``time_us``."""
    header = parse_header(frame)
    if header.first_time >= time_us:
        return header.base_offset
    times = enumerate(Frame(frame).times)
    return header.base_offset + next((index for index, time in times if time >= time_us), 0)
