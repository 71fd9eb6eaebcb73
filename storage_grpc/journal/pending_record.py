"""A record that waits to become durable, and the rule for an entry that is sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from storage_grpc.entries import other_bytes
from storage_grpc.journal.format import CONTROL_CRC, CONTROL_PAYLOAD, RecordKind
from storage_grpc.journal.reader import JournalReader
from sulina.errors import CorruptEntry, Refused, StorageFailed
from sulina.runtime.seam import Buffer


class PendingRecord:
    """One record on its way. A plain class: one is made for every append."""

    __slots__ = (
        "buffers",
        "crc",
        "done",
        "entry",
        "kind",
        "lac",
        "ledger",
        "length",
        "maybe_stored",
        "position",
        "refusal",
        "stored",
    )

    def __init__(
        self,
        done: asyncio.Future[None],
        kind: int,
        ledger: int,
        entry: int,
        lac: int,
        buffers: Sequence[Buffer],
        length: int,
        crc: int,
        maybe_stored: bool,
    ) -> None:
        self.done = done
        self.kind = kind
        self.ledger = ledger
        self.entry = entry
        self.lac = lac
        self.buffers = buffers
        self.length = length
        self.crc = crc
        self.maybe_stored = maybe_stored
        """The ledger has seen this entry or a higher one: look before it is written again."""
        self.stored = False
        """No record is needed: the entry is there, or will be with this group."""
        self.refusal: Refused | None = None
        """It is there with other bytes."""
        self.position = 0
        """Where in the file the record was put."""


def control_record(
    done: asyncio.Future[None], kind: RecordKind, ledger: int, lac: int
) -> PendingRecord:
    """A record that is no entry."""
    size = len(CONTROL_PAYLOAD)
    return PendingRecord(done, kind, ledger, 0, lac, (CONTROL_PAYLOAD,), size, CONTROL_CRC, False)


async def look_for_stored(group: Sequence[PendingRecord], reader: JournalReader) -> None:
    """Compare entries that were sent before with what is stored, or with what this group stores.

    A stored entry that cannot be read does not count: writing it again repairs it.
    """
    if not any(item.maybe_stored for item in group):
        return
    here: dict[tuple[int, int], PendingRecord] = {}
    for item in group:
        if item.kind != RecordKind.ENTRY:
            continue
        if item.maybe_stored:
            earlier = here.get((item.ledger, item.entry))
            if earlier is not None:
                stored: Buffer | None = b"".join(earlier.buffers)
            else:
                try:
                    stored = await reader.payload(item.ledger, item.entry)
                except (CorruptEntry, StorageFailed):
                    stored = None
            if stored is not None:
                item.stored = True
                if stored != b"".join(item.buffers):
                    item.refusal = other_bytes(item.ledger, item.entry)
                continue
        here[item.ledger, item.entry] = item
