"""Records that are not durable yet, and the rule for entries that are appended again."""

from __future__ import annotations

from collections.abc import Sequence

from storage_grpc.entries import other_bytes
from storage_grpc.journal.format import CONTROL_CRC, CONTROL_PAYLOAD, RecordKind
from storage_grpc.journal.reader import JournalReader
from storage_grpc.outcomes import Done
from sulina.errors import CorruptEntry, Refused, StorageFailed
from sulina.runtime.seam import Buffer


class PendingRecord:
    """One record to write. A plain class for speed: every append creates one."""

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
        done: Done,
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
        """The ledger has this entry or a higher one: check before writing it again."""
        self.stored = False
        """No record is needed: the entry is stored, or is in this group."""
        self.refusal: Refused | None = None
        """Set if the entry is stored with other bytes."""
        self.position = 0
        """Its position in the file."""


def control_record(done: Done, kind: RecordKind, ledger: int, lac: int) -> PendingRecord:
    """A record that is not an entry."""
    size = len(CONTROL_PAYLOAD)
    return PendingRecord(done, kind, ledger, 0, lac, (CONTROL_PAYLOAD,), size, CONTROL_CRC, False)


async def look_for_stored(group: Sequence[PendingRecord], reader: JournalReader) -> None:
    """Find entries that are stored already, or twice in this group, and compare their bytes.

    A stored entry that can't be read does not count: writing it again repairs it.
    """
    if not any(item.maybe_stored for item in group):
        return
    in_group: dict[tuple[int, int], PendingRecord] = {}
    for item in group:
        if item.kind != RecordKind.ENTRY:
            continue
        if item.maybe_stored:
            earlier = in_group.get((item.ledger, item.entry))
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
        in_group[item.ledger, item.entry] = item
