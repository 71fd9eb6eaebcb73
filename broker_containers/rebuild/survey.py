"""What storage nodes and the object store hold, whatever the metadata says.

Each ledger begins with a frame that names its topic, and each object says which ledger it was, so
neither needs the metadata to be told apart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from storage_grpc.entries import Entry
from storage_grpc.node import MaybeLost, Node
from storage_grpc.quorum.calls import with_deadline
from sulina.errors import CorruptEntry, CorruptFrame, NotFound, Refused
from sulina.lake.decoder import TAIL, NeedMore, open_footer
from sulina.lake.layout import ROOT, parse_key
from sulina.lake.summary import ObjectSummary
from sulina.names import TopicName
from sulina.objects.store import ObjectStore
from sulina.runtime.seam import Clock
from sulina.wire.header import HEADER_SIZE, FrameHeader, parse_header

_ENTRIES_AT_ONCE: Final = 4096
_BYTES_AT_ONCE: Final = 4 << 20
_CALL_SECONDS: Final = 30.0
_LISTED_AT_ONCE: Final = 1000
_T = TypeVar("_T")

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and how much there is."""


class ListedNode(Node, Protocol):
    """A storage node that tells which ledgers it has."""

    async def ledgers(self, after: int | None = None) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class FoundLedger:
    """A ledger of which nodes have entries. It ends with the last that follows on all before."""

    id: int
    topic: TopicName
    first_offset: int
    end: int
    """The offset after its last record."""
    epoch: int
    entries: int


@dataclass(frozen=True, slots=True)
class StorageSurvey:
    """All that was found. ``nameless`` are ledgers without their first entry: nobody ever listed
    them, since a ledger is listed before anything else is written to it, or it was lost."""

    ledgers: tuple[FoundLedger, ...]
    nameless: tuple[int, ...]
    objects: tuple[ObjectSummary, ...]
    damaged: tuple[str, ...]
    """What can't be read, in words."""

    @property
    def highest(self) -> int:
        """No ledger that was found has a higher id; 0 if there is none."""
        ids = [*(one.id for one in self.ledgers), *self.nameless]
        return max([*ids, *(one.ledger for one in self.objects)], default=0)


class LedgerCopies:
    """Entries of ledgers from whichever node has them."""

    def __init__(self, nodes: Sequence[ListedNode], clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock

    async def fence(self, ledger: int) -> None:
        """No writer of old can add to the ledger any more, on any of the nodes."""
        for node in self._nodes:
            await self._call(node.fence(ledger), node)

    async def read(self, ledger: int, first: int, *, head: int | None = None) -> list[Entry]:
        """Consecutive entries from ``first`` on, of one node; none if no node has it.

        Raises ``CorruptEntry`` if a copy is there and all are damaged, and what a node raises that
        does not answer: an entry counts as absent only if every node said so.
        """
        damage: CorruptEntry | None = None
        for node in self._nodes:
            reading = node.read(
                ledger,
                first,
                max_entries=_ENTRIES_AT_ONCE,
                max_bytes=_BYTES_AT_ONCE,
                head=head,
            )
            try:
                return await self._call(reading, node)
            except (NotFound, MaybeLost):
                continue
            except CorruptEntry as error:
                damage = error
        if damage is not None:
            raise damage
        return []

    async def listed(self) -> list[int]:
        """The ids of all ledgers of which a node has something, ascending."""
        found: set[int] = set()
        for node in self._nodes:
            page = await self._call(node.ledgers(), node)
            while page:
                found.update(page)
                page = await self._call(node.ledgers(page[-1]), node)
        return sorted(found)

    async def _call(self, call: Awaitable[_T], node: ListedNode) -> _T:
        return await with_deadline(self._clock, _CALL_SECONDS, call, f"storage node {node.id}")


async def survey(
    copies: LedgerCopies, objects: ObjectStore | None, progress: Progress
) -> StorageSurvey:
    """Look at every ledger and every object; reads heads and footers, and changes nothing.

    Raises ``Unavailable`` if a node or the object store does not answer: what is not seen would
    pass for lost.
    """
    damaged: list[str] = []
    ledgers: list[FoundLedger] = []
    nameless: list[int] = []
    ids = await copies.listed()
    for number, ledger in enumerate(ids):
        progress("ledgers", number, len(ids))
        try:
            found = await _look_at(copies, ledger)
        except (CorruptEntry, CorruptFrame) as error:
            damaged.append(f"ledger {ledger}: {error}")
            continue
        if found is None:
            nameless.append(ledger)
        else:
            ledgers.append(found)
    progress("ledgers", len(ids), len(ids))
    summaries = [] if objects is None else await _objects(objects, damaged, progress)
    return StorageSurvey(tuple(ledgers), tuple(nameless), tuple(summaries), tuple(damaged))


async def _look_at(copies: LedgerCopies, ledger: int) -> FoundLedger | None:
    """What is in a ledger; None if it has no first entry that says so."""
    start = await copies.read(ledger, 0)
    if not start:
        return None
    first = parse_header(start[0].payload)
    topic = _topic_of(first, start[0])
    if topic is None:
        return None
    end, entries = first.base_offset, 0
    epoch = first.epoch
    while heads := await copies.read(ledger, entries, head=HEADER_SIZE):
        for entry in heads:
            header = parse_header(entry.payload)
            end, epoch = header.next_offset, max(epoch, header.epoch)
        entries += len(heads)
    return FoundLedger(ledger, topic, first.base_offset, end, epoch, entries)


def _topic_of(header: FrameHeader, entry: Entry) -> TopicName | None:
    if not header.is_control:
        return None
    name = bytes(entry.payload[header.name_at : header.name_at + header.name_length])
    try:
        return TopicName.parse(name.decode(errors="replace"))
    except Refused:
        return None  # written before ledgers named their topics


async def _objects(
    store: ObjectStore, damaged: list[str], progress: Progress
) -> list[ObjectSummary]:
    found: list[ObjectSummary] = []
    after = ""
    while page := await store.list(ROOT, after=after, limit=_LISTED_AT_ONCE):
        for item in page:
            progress("objects", len(found), 0)
            try:
                parse_key(item.key)
                found.append(await _summary(store, item.key))
            except (CorruptEntry, Refused) as error:
                damaged.append(f"object {item.key}: {error}")
        after = page[-1].key
    return found


async def _summary(store: ObjectStore, key: str) -> ObjectSummary:
    length = TAIL
    while True:
        tail, size = await store.tail(key, length)
        footer = open_footer(tail, size)
        if not isinstance(footer, NeedMore):
            return footer.summary
        length = footer.length
