"""Surveys what storage nodes and the object store hold, independent of the metadata.

Each ledger starts with a frame that names its topic, and each object names its ledger, so both can
be identified without metadata.
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
from sulina.lake.layout import ROOT, is_notice, parse_key
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
"""Called with the current activity, how much of it is done, and the total."""


class ListedNode(Node, Protocol):
    """A storage node that lists its ledgers."""

    async def ledgers(self, after: int | None = None) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class FoundLedger:
    """A ledger with entries on nodes. It ends with the last consecutive entry."""

    id: int
    topic: TopicName
    first_offset: int
    end: int
    """The offset after its last record."""
    epoch: int
    entries: int


@dataclass(frozen=True, slots=True)
class StorageSurvey:
    """Everything found. ``nameless`` are ledgers without a first entry: they were never listed,
    since a ledger is listed before other entries are written, or the entry was lost."""

    ledgers: tuple[FoundLedger, ...]
    nameless: tuple[int, ...]
    objects: tuple[ObjectSummary, ...]
    damaged: tuple[str, ...]
    """What cannot be read, in words."""

    @property
    def highest(self) -> int:
        """The highest id of a found ledger; 0 if there is none."""
        ids = [*(one.id for one in self.ledgers), *self.nameless]
        return max([*ids, *(one.ledger for one in self.objects)], default=0)


class LedgerCopies:
    """Entries of ledgers from any node that has them."""

    def __init__(self, nodes: Sequence[ListedNode], clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock

    async def fence(self, ledger: int) -> None:
        """Fence the ledger on all nodes, so that no earlier writer can add to it."""
        for node in self._nodes:
            await self._call(node.fence(ledger), node)

    async def read(self, ledger: int, first: int, *, head: int | None = None) -> list[Entry]:
        """Consecutive entries from ``first`` on, of one node; empty if no node has it.

        Raises ``CorruptEntry`` if all existing copies are damaged, and errors of nodes that do not
        answer: an entry counts as missing only if every node says so.
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
        """The ids of all ledgers on any node, ascending."""
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
    """Read every ledger and object (headers and footers only); changes nothing.

    Raises ``Unavailable`` if a node or the object store does not answer: data that is not seen
    would be taken for lost.
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
    """The contents of a ledger; None if it has no first entry that names its topic."""
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
            if is_notice(item.key):
                continue
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
