"""The store's files: a log of batches, and a snapshot that replaces old logs.

``metadata.snapshot`` is the state after some batch. ``metadata-<n>.log`` has the batches from
number ``n`` on. Recovery loads the snapshot and replays the later batches, from whichever log has
them, so a crash between writing a snapshot, starting a new log and removing the old one loses
nothing.

Each batch is synced before the next is written, so only the last one can be torn. A damaged batch
before an intact one is damage to acknowledged data: it is reported, never truncated.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable

from sulina.errors import StorageFailed, StorageFull, SulinaError, UnknownOutcome
from sulina.metadata.embedded import codec
from sulina.metadata.embedded.state import Change, StoreState
from sulina.runtime.seam import Clock, Disk, DiskFile

_log = logging.getLogger(__name__)
SNAPSHOT_NAME = "metadata.snapshot"
DEFAULT_LOG_BYTES = 16 * 1024 * 1024
_LOG_SECONDS = 60.0
"""How often a full disk is logged at most."""
_PAUSE_EVERY = 1_000
"""Keys to encode before yielding to other tasks."""


def log_name(first: int) -> str:
    """The name of the log whose first batch has the number ``first``."""
    return f"metadata-{first:020d}.log"


def first_of(name: str) -> int | None:
    """The number in a log's name; None for other files."""
    number = name.removeprefix("metadata-").removesuffix(".log")
    return int(number) if number.isdecimal() and name == log_name(int(number)) else None


class TransactionLog:
    """The log that is being written. Only one caller at a time."""

    def __init__(
        self, disk: Disk, clock: Clock, file: DiskFile, end: int, sequence: int, max_bytes: int
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._file = file
        self._end = end
        self._sequence = sequence
        self._max_bytes = max_bytes
        self._snapshot_at = max_bytes
        self._broken = False
        self._full = False
        """Whether the process has logged that there is no space."""
        self._log_from = clock.now()

    async def append(self, changes: Iterable[Change]) -> None:
        """Make a batch durable, atomically.

        Raises ``StorageFull`` without writing anything; later batches succeed once there is space.
        Raises ``UnknownOutcome`` if the disk failed; after that, every append raises
        ``StorageFailed`` until the store is opened again.
        """
        if self._broken:
            raise StorageFailed(
                "the metadata log failed earlier and accepts no changes: "
                "check the disk, then restart this node"
            )
        payload = b"".join(map(codec.encode_change, changes))
        record = codec.encode_record(codec.BATCH, self._sequence + 1, payload)
        self._broken = True  # until the write succeeds, also if this task is cancelled
        try:
            await self._file.write(self._end, [record], sync=True)
        except StorageFull as full:
            await self._cut()
            self._broken = False
            if self._clock.now() >= self._log_from:
                self._log_from, self._full = self._clock.now() + _LOG_SECONDS, True
                _log.warning("the metadata cannot be changed until there is space: %s", full)
            raise
        except StorageFailed as error:
            raise _unknown(error) from error
        self._broken = False
        if self._full:
            self._full = False
            _log.warning("the metadata has space again and takes changes")
        self._end += len(record)
        self._sequence += 1

    async def _cut(self) -> None:
        """Remove the remains of a failed write: a crash must not bring a refused batch back."""
        try:
            await self._file.truncate(self._end)
        except SulinaError as error:
            raise _unknown(error) from error

    async def shrink(self, state: StoreState) -> None:
        """If the log is long, write ``state``, the result of all batches, as a snapshot.

        A failure costs only space: the old log continues, and the snapshot is retried later.
        """
        if self._end < self._snapshot_at or self._broken:
            return
        try:
            size = await self._write_snapshot(state)
            await self._begin_log()
        except (StorageFull, StorageFailed):
            self._snapshot_at = self._end + self._max_bytes
        else:
            # The next snapshot is due when the log has grown by the size of this one.
            self._snapshot_at = max(self._max_bytes, size)

    async def _write_snapshot(self, state: StoreState) -> int:
        parts = [codec.snapshot_head(state)]
        for number, change in enumerate(codec.snapshot_changes(state), 1):
            parts.append(codec.encode_change(change))
            if number % _PAUSE_EVERY == 0:
                await self._clock.sleep(0)
        record = codec.encode_record(codec.SNAPSHOT, self._sequence, b"".join(parts))
        await self._disk.replace(SNAPSHOT_NAME, record)
        return len(record)

    async def _begin_log(self) -> None:
        file = await self._disk.open(log_name(self._sequence + 1), create=True)
        await self.close()
        self._file, self._end = file, 0
        for name in await self._disk.list():
            first = first_of(name)
            if first is not None and first <= self._sequence:
                await self._disk.remove(name)

    async def close(self) -> None:
        """Close the file. Everything is durable already, so a failing disk does no harm now."""
        with contextlib.suppress(StorageFailed):
            await self._file.close()


def _unknown(error: SulinaError) -> UnknownOutcome:
    return UnknownOutcome(
        f"writing the metadata log failed ({error}); the change may or may not be kept: check the "
        "disk, restart this node, then read back"
    )
