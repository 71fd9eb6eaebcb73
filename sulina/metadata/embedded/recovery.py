"""Opens the store's files: loads the snapshot, replays later batches, truncates a torn tail.

Batches are numbered, and no needed number may be missing, whichever file has it. Unreadable bytes
are skipped if nothing needed is missing, truncated if nothing follows them, and otherwise reported,
because continuing would lose acknowledged changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from sulina.errors import CorruptEntry
from sulina.metadata.embedded import codec
from sulina.metadata.embedded.log import (
    DEFAULT_LOG_BYTES,
    SNAPSHOT_NAME,
    TransactionLog,
    first_of,
    log_name,
)
from sulina.metadata.embedded.state import Change, StoreState
from sulina.runtime.seam import Clock, Disk, DiskFile


@dataclass(frozen=True, slots=True)
class RecoveredStore:
    """The state of the snapshot, the changes since, and the open log."""

    state: StoreState
    since: list[Change]
    log: TransactionLog


async def recover(
    disk: Disk, clock: Clock, *, max_log_bytes: int = DEFAULT_LOG_BYTES
) -> RecoveredStore:
    """Open the files, or create them in an empty folder. The result is durable.

    Raises ``CorruptEntry`` if acknowledged changes cannot be read.
    """
    names = await disk.list()
    sequence, state = 0, StoreState()
    if SNAPSHOT_NAME in names:
        sequence, state = await _load_snapshot(disk)
    since: list[Change] = []
    logs = [name for name in names if first_of(name) is not None]
    for name in logs or [log_name(sequence + 1)]:
        file = await disk.open(name, create=not logs)
        try:
            sequence, end = await _replay(file, sequence, since)
        except BaseException:
            await file.close()
            raise
        if logs and name != logs[-1]:
            await file.close()
    return RecoveredStore(
        state, since, TransactionLog(disk, clock, file, end, sequence, max_log_bytes)
    )


async def _load_snapshot(disk: Disk) -> tuple[int, StoreState]:
    file = await disk.open(SNAPSHOT_NAME)
    try:
        data = memoryview(await file.read(0, await file.size()))
    finally:
        await file.close()
    record = codec.read_record(codec.SNAPSHOT, data, 0)
    if record is None or record.end != len(data):
        raise CorruptEntry(
            f"the file {SNAPSHOT_NAME}, which names topics and ledgers, is damaged: "
            "restore the folder from a backup"
        )
    return record.sequence, codec.decode_snapshot(record.payload)


async def _replay(file: DiskFile, sequence: int, since: list[Change]) -> tuple[int, int]:
    """Add the changes after batch ``sequence``; returns the last batch and its end."""
    # A log starts when everything before it is durable, so its name implies earlier batches.
    _check_follows(first_of(file.name) or 0, sequence)
    data = await file.read(0, await file.size())
    last = end = 0
    while (record := codec.find_record(codec.BATCH, data, end)) is not None:
        _check_follows(record.sequence, sequence)
        if record.sequence == sequence + 1:
            since.extend(codec.decode_changes(record.payload))
            sequence = record.sequence
        last, end = end, record.end
    if end < len(data):
        await file.truncate(end)
    # The last batch may be complete but not durable, and readers will see it. A sync alone is not
    # enough: after a failed one, the system considers the bytes in its cache written.
    await file.write(last, [data[last:end]], sync=True)
    return sequence, end


def _check_follows(number: int, sequence: int) -> None:
    if number > sequence + 1:
        raise CorruptEntry(
            f"the metadata files are damaged: acknowledged changes {sequence + 1} to {number - 1} "
            "cannot be read; restore the folder from a backup"
        )
