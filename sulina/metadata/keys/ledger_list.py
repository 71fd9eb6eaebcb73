"""A topic's list of ledgers: their ids, offsets, and where they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise, takewhile
from typing import Final

from sulina.errors import Refused


class LedgerState(StrEnum):
    """Whether a ledger may still grow."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class TieredRef:
    """The object of a tiered ledger. It was read back and verified.

    Its name follows from the topic, the ledger's first offset and its id, and, if it replaces
    others, its last offset and generation. So a list of thousands stays small.
    """

    size: int
    """The size of the object in bytes."""
    digest: str
    """A digest of its records, in order."""
    local: bool = True
    """Whether the ledger's entries may still be on storage nodes."""
    generation: int = 0
    """0 for the object that the ledger became; one that replaces others has a higher one."""
    records: int | None = None
    """How many records it has, if it lacks some of the ledger's offsets."""
    schema: str = ""
    """A checksum of the versions of the schema that its typed columns are made with."""


@dataclass(frozen=True, slots=True)
class LedgerRef:
    """One ledger of a topic. ``last_offset`` is set once it is closed; for an empty ledger it is
    one less than the first offset."""

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
    """Its object, once it is tiered."""

    @property
    def records(self) -> int:
        """The number of offsets, once it is closed; 0 before. Each has a record, unless the
        object lacks some of them."""
        return 0 if self.last_offset is None else self.last_offset - self.first_offset + 1

    @property
    def is_local(self) -> bool:
        """Whether its entries should be on storage nodes."""
        return self.tiered is None or self.tiered.local

    def __post_init__(self) -> None:
        if (self.state is LedgerState.CLOSED) != (self.last_offset is not None):
            raise Refused(f"ledger {self.id} must have a last offset if, and only if, it is closed")
        if self.tiered is not None and self.state is not LedgerState.CLOSED:
            raise Refused(f"ledger {self.id} is open and cannot have an object")


@dataclass(frozen=True, slots=True)
class Page:
    """Ledgers of a list that are stored under a separate key."""

    first: int
    """The id of its first ledger when it was created, which is its name."""
    count: int
    """How many of its ledgers are in the list."""
    skip: int = 0
    """How many of its oldest ledgers are no longer in the list."""
    version: int = 0
    """Rises when ledgers in the page are joined, so that a reader notices another version."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """An object that is being written to replace those of consecutive ledgers."""

    generation: int
    kind: str
    """What for; see ``storage_grpc.tier.replacing``."""
    ledger: int
    """The id of the last ledger, which the new object takes over."""
    first_offset: int
    last_offset: int
    until: int = 0
    """Compaction: records before this offset may replace others."""
    tombstones_before_us: int = 0
    """Compaction: tombstones published before this time are dropped; 0 keeps all."""
    key_digests: tuple[str, ...] = ()
    """Erasure: digests of the keys."""
    erased_us: int = 0
    """Erasure: the time that erased records say."""
    offsets: tuple[tuple[int, int], ...] = ()
    """Erasure: ranges of offsets."""
    request: int = 0
    """Erasure: the request that it is for."""


@dataclass(frozen=True, slots=True)
class CompactionState:
    """How far a topic is compacted by key. A round goes from the oldest ledger to ``until``."""

    cleaned: int = 0
    """The last round that ended compared all records below this offset with each other."""
    done: int = 0
    """The round under way has replaced what is below this offset."""
    until: int = 0
    """Where the round under way ends; 0 if there is none."""
    tombstones_before_us: int = 0
    """The round under way drops tombstones below ``settled`` published before this time; 0 keeps
    all."""
    start: int = 0
    """The round under way has replaced all that can be in the topic from here to ``done``."""
    settled_start: int = 0
    settled: int = 0
    """An earlier round compared all records from ``settled_start`` to here with each other: between
    these offsets, tombstones have nothing before them to delete."""
    settled_us: int = 0
    """When that round ended."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Ledgers that retention removed from the topic, and whose data is kept for a while."""

    ledgers: int
    """How many; they are the oldest of the list, after those of earlier removals."""
    since_us: int
    until_us: int
    """When their data may be deleted."""


_REMOVALS: Final = 16
"""Removals within this fraction of the time for which data is kept become one."""


@dataclass(frozen=True, slots=True)
class LedgerList:
    """A topic's ledgers from oldest to newest, and the epoch of the owner that wrote the list.

    The offsets of consecutive ledgers have neither gaps nor overlaps.
    """

    epoch: int = 0
    ledgers: tuple[LedgerRef, ...] = ()
    pages: tuple[Page, ...] = ()
    """The pages with the oldest ledgers; the others are in the list's own value."""
    removed: tuple[Removal, ...] = ()
    """What is still in the list, so that it can be restored, and no longer in the topic."""
    generation: int = 0
    """The highest generation that an object of the topic has, or was to have."""
    replacing: Replacement | None = None
    """The replacement under way: its object may exist, and replaces nothing yet."""
    compaction: CompactionState | None = None
    """None if the topic was never compacted."""
    rewrite: bool = False
    """Whether objects with outdated typed columns are to be rewritten."""
    erasures: tuple[int, ...] = ()
    """Requests to erase that are open, in the order in which they are carried out."""
    repeated: tuple[int, ...] = ()
    """Those that ended, and have to be repeated if what is removed is restored."""
    last_erasure: int = 0
    """The highest number of a request so far."""
    marks: tuple[tuple[int, int], ...] = ()
    """What tells readers of the objects which of them are removed (``sulina.lake.removed``): the
    number and the ledger of the current mark, and before it those of the previous one."""

    def __post_init__(self) -> None:
        if len({ledger.id for ledger in self.ledgers}) != len(self.ledgers):
            raise Refused("a topic's list must have each ledger only once")
        for ledger, following in pairwise(self.ledgers):
            if ledger.last_offset not in (None, following.first_offset - 1):
                raise Refused(
                    f"ledger {ledger.id} ends at offset {ledger.last_offset} but ledger "
                    f"{following.id} begins at {following.first_offset}"
                )

    @property
    def requested(self) -> bool:
        """Whether the owner has a request to finish."""
        return self.rewrite or bool(self.erasures)

    @property
    def hidden(self) -> int:
        """How many of the oldest ledgers were removed from the topic."""
        return sum(removal.ledgers for removal in self.removed)

    @property
    def visible(self) -> tuple[LedgerRef, ...]:
        """The ledgers that the topic has."""
        return self.ledgers[self.hidden :] if self.removed else self.ledgers

    def removing(self, count: int, now_us: int, until_us: int) -> LedgerList:
        """A copy in which the ``count`` oldest visible ledgers are removed, and kept until then, or
        as long as what was removed before: ledgers are deleted in their order."""
        last = self.removed[-1] if self.removed else None
        if last is not None and (
            until_us <= last.until_us or now_us - last.since_us < (until_us - now_us) // _REMOVALS
        ):
            joined = Removal(last.ledgers + count, last.since_us, max(until_us, last.until_us))
            return replace(self, removed=(*self.removed[:-1], joined)).marked()
        return replace(self, removed=(*self.removed, Removal(count, now_us, until_us))).marked()

    def marked(self) -> LedgerList:
        """A copy with another mark if the current one does not say what is removed."""
        last = self.marks[-1] if self.marks else (0, 0)
        ledger = self.visible[0].id - 1 if self.visible else last[1]
        if ledger == last[1]:
            return self
        # Higher than the numbers of a deleted topic of the same name, whose ledgers are older.
        mark = max(last[0] + 1, ledger), ledger
        return replace(self, marks=(*self.marks[-1:], mark))

    def restored(self) -> LedgerList:
        """A copy in which nothing is removed. What was to be erased is erased from it, too."""
        repeated = tuple(each for each in self.repeated if each not in self.erasures)
        erasures = (*self.erasures, *repeated)
        return replace(self, removed=(), erasures=erasures, repeated=()).marked()

    def overdue(self, now_us: int) -> int:
        """How many of the oldest ledgers need not be kept any longer."""
        due = takewhile(lambda removal: removal.until_us <= now_us, self.removed)
        return sum(removal.ledgers for removal in due)

    def leading(self, refs: Sequence[LedgerRef]) -> int:
        """How many of ``refs`` are, unchanged, the oldest visible ledgers; never all of these."""
        pairs = zip(self.visible[:-1], refs, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def fitted(self) -> LedgerList:
        """A copy that removes no more ledgers than it has."""
        return replace(
            self, removed=_without(self.removed[::-1], self.hidden - len(self.ledgers))[::-1]
        )

    @property
    def paged(self) -> int:
        """The number of ledgers in pages."""
        return sum(page.count for page in self.pages)

    def of_page(self, number: int) -> tuple[LedgerRef, ...]:
        """The ledgers of one page that are in the list."""
        start = sum(page.count for page in self.pages[:number])
        return self.ledgers[start : start + self.pages[number].count]

    def trimmed(self, count: int) -> LedgerList:
        """A copy without the ``count`` oldest ledgers."""
        pages = list(self.pages)
        left = count
        while pages and left:
            gone = min(left, pages[0].count)
            left -= gone
            first = pages.pop(0)
            if gone < first.count:
                pages.insert(0, replace(first, count=first.count - gone, skip=first.skip + gone))
        removed = _without(self.removed, count)
        kept = replace(
            self,
            ledgers=self.ledgers[count:],
            pages=tuple(pages),
            removed=removed,
            repeated=self.repeated if removed else (),
        )
        return kept.marked() if count > self.hidden else kept

    def changed(self, ref: LedgerRef) -> LedgerList:
        """A copy with ``ref`` in place of the ledger with its id, if there is one."""
        refs = tuple(ref if each.id == ref.id else each for each in self.ledgers)
        return replace(self, ledgers=refs)

    def run(self, first_offset: int, last_offset: int) -> tuple[LedgerRef, ...]:
        """The ledgers with exactly these offsets; none if the topic does not have such."""
        refs = self.visible
        firsts = {ref.first_offset: at for at, ref in enumerate(refs) if ref.records}
        lasts = {ref.last_offset: at for at, ref in enumerate(refs) if ref.records}
        if first_offset not in firsts or last_offset not in lasts:
            return ()
        found = refs[firsts[first_offset] : lasts[last_offset] + 1]
        # An empty ledger between them has entries of its own.
        return found if all(ref.records for ref in found) else ()

    def replaced(self, ref: LedgerRef) -> LedgerList:
        """A copy with ``ref`` in place of the ledgers with its offsets, which it must have."""
        assert ref.last_offset is not None
        gone = self.run(ref.first_offset, ref.last_offset)
        if not gone:
            raise Refused(f"the list no longer has the ledgers that {ref.id} should replace")
        at = self.ledgers.index(gone[0])
        end = self.ledgers.index(gone[-1]) + 1
        pages: list[Page] = []
        start = 0
        for page in self.pages:
            stop = start + page.count
            lost = max(0, min(stop, end) - max(start, at))
            if lost and start <= at:
                page = replace(page, count=page.count - lost + 1, version=page.version + 1)
            elif lost:
                # The page before it has the new ledger: here some of the oldest are gone.
                page = replace(page, count=page.count - lost, skip=page.skip + lost)
            if page.count:
                pages.append(page)
            start = stop
        ledgers = (*self.ledgers[:at], ref, *self.ledgers[end:])
        compaction = self.compaction
        if compaction is not None and self.replacing is not None and self.replacing.until:
            # What was removed by now is not compacted, and may be restored, or was meanwhile.
            start = max(compaction.start, self.visible[0].first_offset)
            if ref.first_offset > compaction.done:
                start = max(start, ref.first_offset)
            compaction = replace(compaction, done=ref.last_offset + 1, start=start)
        return replace(
            self, ledgers=ledgers, pages=tuple(pages), replacing=None, compaction=compaction
        )

    def without(self, ledger: int) -> LedgerList:
        """A copy without one ledger, which is not in a page."""
        kept = self.ledgers[self.paged :]
        others = tuple(ref for ref in kept if ref.id != ledger)
        return replace(self, ledgers=self.ledgers[: self.paged] + others)


def _without(removed: tuple[Removal, ...], count: int) -> tuple[Removal, ...]:
    """Removals without their first ``count`` ledgers."""
    left: list[Removal] = []
    for removal in removed:
        gone = min(max(count, 0), removal.ledgers)
        count -= gone
        if gone < removal.ledgers:
            left.append(replace(removal, ledgers=removal.ledgers - gone))
    return tuple(left)
