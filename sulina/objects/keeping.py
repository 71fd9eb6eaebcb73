"""What a store keeps of deleted objects, for those who must know when the last copy is gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Keeping:
    """What is kept of an object after its deletion. By default nothing is."""

    text: str = ""
    """In a sentence without a full stop; empty if there is nothing to say."""
    days: int | None = 0
    """For how many days after the deletion; None if that is for good, or not known."""

    def gone_us(self, deleted_us: int) -> int:
        """When nothing is left of what is deleted at that time; 0 if that is not known."""
        if self.days is None:
            return 0
        if not self.days:
            return deleted_us
        # Stores count whole days, and act at the next midnight.
        return -(-(deleted_us + self.days * _DAY_US) // _DAY_US) * _DAY_US


@runtime_checkable
class KeepsDeleted(Protocol):
    """A store that may keep what was deleted, unlike those that lack this."""

    async def keeping(self) -> Keeping:
        """What it keeps of deleted objects. Errors become part of the answer."""
        ...
