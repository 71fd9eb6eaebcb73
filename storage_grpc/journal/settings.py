"""The bounds of a journal."""

from __future__ import annotations

from dataclasses import dataclass

from sulina.errors import Refused

LARGEST_FILE = 16 << 30
"""Positions are kept as 32-bit counts of 8 bytes; this leaves room for an entry past the limit."""

SMALLEST_FILE = 64 << 10


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """How large the parts of a journal may become. The defaults suit a node of its own."""

    file_bytes: int = 256 << 20
    """A new file is started when this one would grow beyond; a larger entry gets its own file."""
    reserve_bytes: int = 32 << 20
    """Space is reserved ahead of the writes in steps of this."""
    spare_bytes: int = 1 << 20
    """Entries leave so much of the reserved space for fences and deletes on a full disk."""
    group_bytes: int = 8 << 20
    """At most so much goes into one write and one sync (or a single larger entry)."""
    max_pending_bytes: int = 64 << 20
    """``append`` raises ``Overloaded`` while this much or more is not durable."""
    max_entry_bytes: int = 64 << 20
    read_bytes: int = 4 << 20
    """At most so much is read from a file at once (or a single larger entry)."""
    open_files: int = 64
    """So many files are kept open for reads."""
    tombstones: int = 16_384
    """So many deleted ledgers are remembered beyond those whose entries are still in a file."""

    def __post_init__(self) -> None:
        if not SMALLEST_FILE <= self.file_bytes <= LARGEST_FILE:
            raise Refused(
                f"a journal file of {self.file_bytes} bytes is not possible: "
                f"choose from {SMALLEST_FILE} to {LARGEST_FILE}"
            )
        if not 0 < self.max_entry_bytes <= 1 << 30:
            raise Refused(f"entries of {self.max_entry_bytes} bytes: choose from 1 byte to 1 GiB")
        for name in ("reserve_bytes", "group_bytes", "max_pending_bytes", "read_bytes"):
            if getattr(self, name) <= 0:
                raise Refused(f"{name} must be more than 0")
        if self.spare_bytes < 0 or self.tombstones < 0 or self.open_files < 1:
            raise Refused("spare_bytes and tombstones cannot be negative, nor open_files below 1")
