"""What a topic's list of ledgers says: which ledgers, from where to where, and where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from sulina.errors import Refused


class LedgerState(StrEnum):
    """Whether a ledger may still grow."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class TieredRef:
    """The object that a closed ledger has become. It was read back and verified.

    Where it is follows from the topic, the ledger's first offset and its id, so that a list of
    thousands stays small.
    """

    size: int
    """Bytes of the object."""
    digest: str
    """Of its records, in order."""
    local: bool = True
    """Whether the ledger's entries may still be on storage nodes."""


@dataclass(frozen=True, slots=True)
class LedgerRef:
    """One ledger of a topic. ``last_offset`` is known once it is closed; an empty one ends just
    before its first offset."""

    id: int
    first_offset: int
    last_offset: int | None = None
    state: LedgerState = LedgerState.OPEN
    bytes: int = 0
    first_time_us: int = 0
    last_time_us: int = 0
    last_entry: int | None = None
    """The number of its last entry, once it is closed; -1 if it has none."""
    tiered: TieredRef | None = None
    """Its object, once there is one."""

    @property
    def records(self) -> int:
        """How many it has, once it is closed; 0 before."""
        return 0 if self.last_offset is None else self.last_offset - self.first_offset + 1

    @property
    def is_local(self) -> bool:
        """Whether its entries should be on storage nodes."""
        return self.tiered is None or self.tiered.local

    def __post_init__(self) -> None:
        if (self.state is LedgerState.CLOSED) != (self.last_offset is not None):
            raise Refused(f"ledger {self.id} must have a last offset exactly if it is closed")
        if self.tiered is not None and self.state is not LedgerState.CLOSED:
            raise Refused(f"ledger {self.id} is open and can't have an object")


@dataclass(frozen=True, slots=True)
class Page:
    """Some ledgers of a list that are kept under a key of their own."""

    first: int
    """The id of the ledger that was its first when it was made: its name."""
    count: int
    """How many of its ledgers are in the list."""
    skip: int = 0
    """How many of its oldest are not any more."""


@dataclass(frozen=True, slots=True)
class LedgerList:
    """A topic's ledgers from the oldest to the newest, and the epoch of the owner who wrote them.

    Closed ledgers and their successors leave no gap between their offsets and no overlap.
    """

    epoch: int = 0
    ledgers: tuple[LedgerRef, ...] = ()
    pages: tuple[Page, ...] = ()
    """Where the oldest of them are stored; the others are in the list's own value."""

    def __post_init__(self) -> None:
        if len({ledger.id for ledger in self.ledgers}) != len(self.ledgers):
            raise Refused("a topic has each ledger once")
        for ledger, following in pairwise(self.ledgers):
            if ledger.last_offset not in (None, following.first_offset - 1):
                raise Refused(
                    f"ledger {ledger.id} ends at offset {ledger.last_offset} but ledger "
                    f"{following.id} begins at {following.first_offset}"
                )

    @property
    def paged(self) -> int:
        """How many of the oldest are in pages."""
        return sum(page.count for page in self.pages)

    def of_page(self, number: int) -> tuple[LedgerRef, ...]:
        """The ledgers of one page that are in the list."""
        start = sum(page.count for page in self.pages[:number])
        return self.ledgers[start : start + self.pages[number].count]

    def trimmed(self, count: int) -> LedgerList:
        """The same without its ``count`` oldest ledgers."""
        pages = list(self.pages)
        left = count
        while pages and left:
            gone = min(left, pages[0].count)
            left -= gone
            first = pages.pop(0)
            if gone < first.count:
                pages.insert(0, replace(first, count=first.count - gone, skip=first.skip + gone))
        return replace(self, ledgers=self.ledgers[count:], pages=tuple(pages))

    def changed(self, ref: LedgerRef) -> LedgerList:
        """The same with ``ref`` in the place of the ledger with its id, if that is there."""
        refs = tuple(ref if each.id == ref.id else each for each in self.ledgers)
        return replace(self, ledgers=refs)

    def without(self, ledger: int) -> LedgerList:
        """The same without one ledger that is not in a page."""
        kept = self.ledgers[self.paged :]
        others = tuple(ref for ref in kept if ref.id != ledger)
        return replace(self, ledgers=self.ledgers[: self.paged] + others)
