"""The contents of one journal file, from a scan or from its index file.

The index file is written once the journal file is complete, so that the next start need not scan
it. It has a checksum; if it is damaged or missing the journal file is scanned.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError  # noqa: N812

from crc32c import crc32c

from storage_grpc.journal.format import (
    FileHeader,
    JournalState,
    pack_array,
    pack_state,
    unpack_array,
    unpack_state,
)
from storage_grpc.journal.runs import EntryRun, EntryRuns

_MAGIC = b"SULJIDX1"
_HEAD = Struct("<8sQQ16sQIIIIII")
_CRC = Struct("<I")


@dataclass(slots=True)
class Contents:
    """One file's part of the index."""

    header: FileHeader
    end: int
    """Where its records end."""
    stopped: bool = False
    """Whether the last record says that the journal was closed."""
    runs: dict[int, EntryRuns] = field(default_factory=dict)
    lacs: dict[int, int] = field(default_factory=dict)
    """Highest LAC of each ledger in ``runs``."""
    state: JournalState | None = None
    fenced: dict[int, int] = field(default_factory=dict)
    """Fences after ``state``, with their LACs."""
    deleted: list[int] = field(default_factory=list)
    """Deletes after ``state``."""
    dropped: list[int] = field(default_factory=list)
    """Files removed after ``state``."""
    gone: set[int] = field(default_factory=set)
    """Deleted ledgers whose entries are still in the file."""
    damage: list[tuple[int, int]] = field(default_factory=list)
    """Ranges that were durable and can no longer be read."""
    records: int = 0
    corrupt: int = 0
    """Records in ``runs`` whose payload is damaged; reading them fails."""
    proven: int = 0
    """Everything before this position was durable."""
    sealed: bool = False
    """Whether this comes from the index file, not from a scan."""

    def add(self, ledger: int, entry: int, lac: int, position: int, length: int) -> None:
        runs = self.runs.get(ledger)
        if runs is None:
            runs = self.runs[ledger] = EntryRuns()
        runs.add(entry, self.header.sequence, position, length)
        self.lacs[ledger] = max(lac, self.lacs.get(ledger, -1))


def pack_contents(contents: Contents) -> bytes:
    """The content of an index file. Fences and deletes must be in ``state``."""
    assert contents.state is not None
    runs = [(ledger, run) for ledger, found in contents.runs.items() for run in found.items]
    state = pack_state(contents.state)
    body = b"".join(
        (
            _HEAD.pack(
                _MAGIC,
                contents.header.sequence,
                contents.header.salt,
                contents.header.incarnation,
                contents.end,
                contents.stopped,
                len(state),
                len(contents.gone),
                len(contents.damage),
                len(runs),
                sum(len(run.lengths) for _, run in runs),
            ),
            state,
            pack_array("Q", sorted(contents.gone)),
            pack_array("Q", (place for span in contents.damage for place in span)),
            pack_array("Q", (ledger for ledger, _ in runs)),
            pack_array("Q", (run.first for _, run in runs)),
            pack_array("I", (len(run.lengths) for _, run in runs)),
            pack_array("q", (contents.lacs[ledger] for ledger, _ in runs)),
            *(pack_array("I", run.positions) for _, run in runs),
            *(pack_array("I", run.lengths) for _, run in runs),
        )
    )
    return body + _CRC.pack(crc32c(body))


def unpack_contents(data: bytes) -> Contents | None:
    """Decode an index file; None if it is damaged."""
    body = memoryview(data)[: -_CRC.size]
    try:
        if _CRC.unpack(data[-_CRC.size :])[0] != crc32c(body):
            return None
        magic, sequence, salt, incarnation, end, stopped, *sizes = _HEAD.unpack_from(body)
        if magic != _MAGIC:
            return None
        state_size, gone_count, damage_count, run_count, entry_count = sizes
        at = _HEAD.size + state_size
        state = unpack_state(body[_HEAD.size : at])
        gone, at = unpack_array("Q", body, at, gone_count)
        damage, at = unpack_array("Q", body, at, 2 * damage_count)
        ledgers, at = unpack_array("Q", body, at, run_count)
        firsts, at = unpack_array("Q", body, at, run_count)
        counts, at = unpack_array("I", body, at, run_count)
        lacs, at = unpack_array("q", body, at, run_count)
        positions, at = unpack_array("I", body, at, entry_count)
        lengths, at = unpack_array("I", body, at, entry_count)
    except (StructError, ValueError):
        return None
    if state is None or sum(counts) != entry_count:
        return None
    return Contents(
        header=FileHeader(sequence, salt, incarnation),
        end=end,
        stopped=bool(stopped),
        runs=_split(sequence, ledgers, firsts, counts, positions, lengths),
        lacs=dict(zip(ledgers, lacs, strict=True)),
        state=state,
        gone=set(gone),
        damage=list(zip(damage[::2], damage[1::2], strict=True)),
        records=entry_count,
        proven=end,
        sealed=True,
    )


def _split(
    file: int,
    ledgers: array[int],
    firsts: array[int],
    counts: array[int],
    positions: array[int],
    lengths: array[int],
) -> dict[int, EntryRuns]:
    runs: dict[int, EntryRuns] = {}
    low = 0
    for ledger, first, count in zip(ledgers, firsts, counts, strict=True):
        high = low + count
        run = EntryRun(file, first, positions[low:high], lengths[low:high])
        runs.setdefault(ledger, EntryRuns()).insert(run)
        low = high
    return runs
