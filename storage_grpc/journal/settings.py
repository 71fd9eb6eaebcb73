"""Limits of a journal."""

from __future__ import annotations

from dataclasses import dataclass

from sulina.errors import Refused

LARGEST_FILE = 16 << 30
"""Positions are 32-bit counts of 8 bytes; this leaves room for one entry past the limit."""

SMALLEST_FILE = 64 << 10


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """Limits in bytes and counts. The defaults suit a dedicated storage node."""

    file_bytes: int = 256 << 20
    """Size of a journal file; a larger entry gets its own file."""
    reserve_bytes: int = 32 << 20
    """Disk space is reserved ahead of writes in steps of this size."""
    prewrite_after: int = 256
    """Writes to a file after which the next one is written with zeros ahead of its use; 0: never.
    Where zeros were written before, a sync has no metadata to write and takes half the time."""
    spare_bytes: int = 1 << 20
    """Reserved space that entries leave for fences and deletes on a full disk."""
    group_bytes: int = 8 << 20
    """Maximum size of one write with one sync, unless a single entry is larger."""
    max_pending_bytes: int = 64 << 20
    """``append`` raises ``Overloaded`` while this much or more is not durable."""
    max_entry_bytes: int = 64 << 20
    read_bytes: int = 4 << 20
    """Maximum size of one read from a file, unless a single entry is larger."""
    open_files: int = 64
    """Files kept open for reads."""
    tombstones: int = 16_384
    """Deleted ledgers remembered in addition to those with entries still in a file."""

    def __post_init__(self) -> None:
        if not SMALLEST_FILE <= self.file_bytes <= LARGEST_FILE:
            raise Refused(
                f"invalid size of a journal file: {self.file_bytes} bytes; "
                f"choose from {SMALLEST_FILE} to {LARGEST_FILE}"
            )
        if not 0 < self.max_entry_bytes <= 1 << 30:
            raise Refused(
                f"invalid value for max_entry_bytes: {self.max_entry_bytes}; choose 1 byte to 1 GiB"
            )
        for name in ("reserve_bytes", "group_bytes", "max_pending_bytes", "read_bytes"):
            if getattr(self, name) <= 0:
                raise Refused(f"invalid value for {name}: it must be more than 0")
        for name in ("spare_bytes", "tombstones", "prewrite_after"):
            if getattr(self, name) < 0:
                raise Refused(f"invalid value for {name}: it must not be negative")
        if self.open_files < 1:
            raise Refused("invalid value for open_files: it must be at least 1")
