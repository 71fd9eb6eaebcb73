"""The log of a reliable topic: a list of ledgers, of which the last one is written.

A new owner fences the last ledger, reads what is stored, and raises the epoch by compare-and-swap
before it serves anything. A ledger is created by the first append, so an idle topic costs nothing.
Each ledger starts with a control frame that holds the producers' last sequences and the topic's
name: the newest ledger is enough to restore them, and a ledger can be identified without metadata.

Closed ledgers may be tiered, with or without entries on storage nodes; readers handle both. Every
change of the list is a swap, one at a time.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from broker_containers.topic_log.dedup import Dedup
from broker_containers.topic_log.ledger_lookup import offset_at
from broker_containers.topic_log.ledger_reader import LedgerReader
from broker_containers.topic_log.ledger_settings import LedgerSettings
from broker_containers.topic_log.log import Appended
from broker_containers.topic_log.open_ledger import OpenLedger
from broker_containers.topic_log.owned_list import OwnedLedgerList
from broker_containers.topic_log.removal import LedgerRemoval
from broker_containers.topic_log.tail_cache import CachedFrame
from broker_containers.topic_log.takeover import fence_and_read
from storage_grpc.ledgers import Ledgers, LedgerWriter
from storage_grpc.tier.tier import Tier
from sulina.errors import Fenced, StorageFull, SulinaError
from sulina.metadata.keys.ledger_list import CompactionState, Replacement
from sulina.metadata.keys.ledgers import LedgerIds, LedgerList, LedgerRef, LedgerState
from sulina.metadata.store import Compare, MetadataStore, Op
from sulina.names import TopicName
from sulina.runtime import stages
from sulina.runtime.seam import Clock
from sulina.runtime.stages import Stage
from sulina.wire.encode import Origin, encode_control_frame
from sulina.wire.header import FrameHeader, assign

_SETTLED_SECONDS = 5.0
"""How long to wait before rolling an under-replicated ledger."""


@dataclass(slots=True, eq=False)
class _Pending:
    frame: memoryview
    header: FrameHeader
    done: Appended
    settled: bool = False


Guards = Callable[[], Sequence[Compare]]


def _no_guards() -> Sequence[Compare]:
    return ()


@dataclass(slots=True)
class Tiered:
    """What became objects since the log was opened."""

    objects: int = 0
    bytes: int = 0


class ManagedLedger:
    """One topic's log. Create it with ``open``; one owner at a time, by epoch."""

    def __init__(
        self,
        topic: TopicName,
        ledgers: Ledgers,
        store: MetadataStore,
        ids: LedgerIds,
        clock: Clock,
        settings: LedgerSettings,
        guards: Guards = _no_guards,
        tier: Tier | None = None,
    ) -> None:
        self._guards = guards
        self.topic = topic
        self.tier = tier
        self._ledgers = ledgers
        self._store = store
        self._ids = ids
        self._clock = clock
        self.settings = settings
        """May be changed at any time."""
        self.tiered = Tiered()
        self._owned = OwnedLedgerList(topic, store)
        self.removal = LedgerRemoval(topic, self._owned, ledgers, tier, clock, self._switched)
        self._writer: LedgerWriter | None = None
        self._written: OpenLedger | None = None
        self._born = 0.0
        self._bases = array("q")  # base offset of each entry of the ledger being written
        self._queue: deque[_Pending] = deque()
        self._under_way: deque[_Pending] = deque()
        self._drained: asyncio.Future[None] | None = None
        """For whoever waits until nothing is under way."""
        self._switching: asyncio.Task[None] | None = None
        self._failure: SulinaError | None = None
        self._intact = False
        """After a failure: what is stored is known, and no ledger is open."""
        self._closed = False
        self._next = 0
        self.dedup = Dedup()
        self.end = 0

    @classmethod
    async def open(
        cls,
        topic: TopicName,
        ledgers: Ledgers,
        store: MetadataStore,
        ids: LedgerIds,
        clock: Clock,
        settings: LedgerSettings,
        guards: Guards = _no_guards,
        tier: Tier | None = None,
    ) -> ManagedLedger:
        """Become the owner. Raises ``Fenced`` if another process does so at the same time.

        ``guards`` returns conditions on the metadata under which this process may take over.
        Without a ``tier``, ledgers that exist only as objects cannot be read.
        """
        log = cls(topic, ledgers, store, ids, clock, settings, guards, tier)
        await log._take_over()
        return log

    # ---- state of the owner ----

    @property
    def _list(self) -> LedgerList:
        return self._owned.list

    @property
    def epoch(self) -> int:
        return self._list.epoch

    @property
    def start(self) -> int:
        return visible[0].first_offset if (visible := self._list.visible) else self.end

    @property
    def usable(self) -> bool:
        return self._failure is None

    @property
    def refs(self) -> tuple[LedgerRef, ...]:
        """The ledgers with data, in order; the last one may be open."""
        if self._written is None:
            return self._list.visible
        return (*self._list.visible[:-1], self._written.ref)

    @property
    def replacement(self) -> Replacement | None:
        """The replacement of objects that is under way."""
        return self._list.replacing

    @property
    def compaction(self) -> CompactionState:
        """How far the topic is compacted by key."""
        return self._list.compaction or CompactionState()

    @property
    def list(self) -> LedgerList:
        """The list as last written: without what was appended to the open ledger."""
        return self._list

    def run(self, first_offset: int, last_offset: int) -> tuple[LedgerRef, ...]:
        """The closed ledgers with exactly these offsets; none if there are others."""
        return self._list.run(first_offset, last_offset)

    async def _take_over(self) -> None:
        async with self._owned.taking(self._guards()) as before:
            await self._take_over_from(before)

    async def _take_over_from(self, before: LedgerList) -> None:
        learned = await fence_and_read(self.topic, before, self._ledgers, self._store, self.tier)
        await self._owned.take(learned.list)
        self._writer, self._written = None, None
        self.dedup, self.end, self._next = learned.dedup, learned.end, learned.end
        self._failure = None
        for ref in learned.empty:
            await self._ledgers.delete(ref.id)

    async def commit(
        self, change: Callable[[LedgerList], LedgerList], also: Sequence[Op] = ()
    ) -> None:
        """Swap the topic's list for ``change`` of it; see ``OwnedLedgerList``."""
        await self._owned.commit(change, also)

    async def settle(self) -> None:
        """Resolve a swap whose outcome is unknown. Raises ``Fenced``."""
        await self._owned.settle()

    @property
    def guard(self) -> Compare:
        """A condition on the metadata that holds while this object is the owner."""
        return self._owned.guard

    async def repair(self) -> None:
        if self._switching is not None:
            await asyncio.wait([self._switching])
        if self._closed:
            raise Fenced(f"{self.topic} was closed here")
        if self._intact:
            self._failure, self._intact = None, False
        elif self._failure is not None:
            await self._take_over()

    # ---- appending ----

    def append(self, frame: memoryview, header: FrameHeader, done: Appended) -> None:
        if self._failure is not None:
            done(self._failure)
            return
        self.dedup.sending(header)
        self._queue.append(_Pending(frame, header, done))
        self._push()

    def _push(self) -> None:
        if self._switching is not None:
            return
        while self._queue:
            writer = self._writer
            if writer is None or self._must_roll():
                self._switching = asyncio.create_task(self._switch())
                return
            if self._ledgers.overloaded:
                self._switching = asyncio.create_task(self._wait_for_room())
                return
            self._write(writer, self._queue.popleft())

    async def _wait_for_room(self) -> None:
        await self._ledgers.wait_writable()
        self._switching = None
        if self._failure is None:
            self._push()

    def _must_roll(self) -> bool:
        written, settings = self._written, self.settings
        assert written is not None and self._writer is not None
        if written.bytes == 0:
            return False
        age = self._clock.now() - self._born
        return (
            written.bytes >= settings.roll_bytes
            or age >= settings.roll_seconds
            or (age >= _SETTLED_SECONDS and self._writer.wants_roll)
        )

    def _write(self, writer: LedgerWriter, pending: _Pending) -> None:
        frame, base, epoch = pending.frame, self._next, self.epoch
        assign(frame, base, epoch)
        pending.header = header = pending.header.assigned(base, epoch)
        self._next = header.next_offset
        self._bases.append(base)
        assert self._written is not None
        self._written.bytes += header.size
        self._under_way.append(pending)
        if stages.traces:
            stages.mark(frame, Stage.APPENDED)
        writer.submit(frame, partial(self._confirm, pending))

    def _confirm(self, pending: _Pending, error: SulinaError | None) -> None:
        if pending.settled:
            return  # failed together with an earlier one
        if error is not None:
            self._fail(error)
            return
        assert self._under_way.popleft() is pending, "results arrive in order"
        pending.settled = True
        if stages.traces:
            stages.mark(pending.frame, Stage.CONFIRMED)
        header = pending.header
        self.end = header.next_offset
        self.dedup.stored(header)
        assert self._written is not None
        self._written.confirmed(header)
        pending.done(CachedFrame(header, pending.frame))
        if self._drained is not None and not self._under_way:
            self._drained.set_result(None)
            self._drained = None

    def _fail(self, error: SulinaError) -> None:
        """Fail all unconfirmed appends; some of them may be stored nevertheless."""
        self._failure = error
        self.dedup.nothing_under_way()
        failed = (*self._under_way, *self._queue)
        self._under_way.clear()
        self._queue.clear()
        for pending in failed:
            pending.settled = True
            pending.done(error)
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    async def _nothing_under_way(self) -> None:
        """Wait until everything written is confirmed, or has failed."""
        if self._under_way:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    # ---- rolling ----

    async def _switch(self, *, begin: bool = True) -> None:
        """Close the open ledger, if any, and start the next."""
        try:
            await self._nothing_under_way()
            if self._failure is None:
                await (self._start_ledger() if begin else self._end_ledger())
        except SulinaError as error:
            self._fail(error)
        finally:
            self._switching = None
        if self._failure is None:
            self._push()

    async def _end_ledger(self) -> None:
        assert self._writer is not None
        await self._writer.close()
        await self.commit(self._ended)
        self._writer, self._written = None, None

    async def _start_ledger(self) -> None:
        if self._writer is not None:
            await self._writer.close()
        ledger = await self._ids.next()
        writer = await self._ledgers.create(ledger)
        begun = LedgerRef(id=ledger, first_offset=self.end)
        await self.commit(lambda before: self._ended(before, begun))
        control = self._control()
        self._bases = array("q", [self.end])
        self._writer, self._written, self._born = writer, OpenLedger(begun), self._clock.now()
        try:
            await writer.append(control)
        except StorageFull:
            # Nothing else was appended, so it is deleted without a fence: each attempt's fence
            # would use space that a full disk reserves for deletions.
            self._writer, self._written = None, None
            await self.commit(lambda before: before.without(ledger))
            self._intact = True
            raise

    def _control(self) -> memoryview:
        """A control frame with the producers' current sequences."""
        snapshot = self.dedup.snapshot()
        frame = encode_control_frame(Origin(str(self.topic)), snapshot, self._clock.wall_us())
        control = memoryview(bytearray(frame))
        assign(control, self.end, self.epoch)
        return control

    def _ended(self, before: LedgerList, *begun: LedgerRef) -> LedgerList:
        """The list with the open ledger closed and the given ones added."""
        refs = before.ledgers
        if self._writer is not None and self._written is not None:
            written = replace(
                self._written.ref,
                state=LedgerState.CLOSED,
                last_entry=self._writer.lac,
                last_offset=self.end - 1,
            )
            refs = (*refs[:-1], written)
        return replace(before, ledgers=(*refs, *begun))

    @property
    def written_for(self) -> float:
        """Age of the open ledger in seconds; 0 if it has no records."""
        if self._written is None or not self._written.bytes:
            return 0.0
        return self._clock.now() - self._born

    async def roll(self) -> None:
        """Close the open ledger if it has records; the next append starts another.

        A failure is left to ``repair``, as after a failed append.
        """
        await self._end_if(lambda: self._written is not None and self._written.bytes > 0)

    async def begin(self) -> None:
        """Begin an empty ledger, so that all others can be trimmed; failures as for ``roll``.

        Its control frame takes over the producers' sequences, and is durable on return. A ledger
        that is empty already stays.
        """
        await self._end_if(lambda: self._written is None or self._written.bytes > 0, begin=True)

    async def _end_if(self, needed: Callable[[], bool], *, begin: bool = False) -> None:
        while self._switching is not None:
            await asyncio.wait([self._switching])
        if self._failure is None and not self._closed and needed():
            self._switching = asyncio.create_task(self._switch(begin=begin))
            await asyncio.wait([self._switching])

    def closing_frame(self, ref: LedgerRef) -> bytes:
        """What a takeover needs at the end of ``ref``; empty if records follow it."""
        if self._written is None and self._list.ledgers[-1].id == ref.id and not self._queue:
            return bytes(self._control())
        return b""

    # ---- reading ----

    def reader(self, offset: int) -> LedgerReader:
        return LedgerReader(self, self._ledgers, offset)

    @property
    def ledgers(self) -> Ledgers:
        """Where entries are stored."""
        return self._ledgers

    def last_entry(self, ref: LedgerRef) -> int:
        """The last confirmed entry of one of this log's ledgers."""
        if ref.last_entry is not None:
            return ref.last_entry
        return self._writer.lac if self._writer is not None else -1

    def entry_in_written(self, ref: LedgerRef, offset: int) -> int | None:
        """The entry that contains ``offset`` if ``ref`` is the open ledger."""
        if self._written is None or self._written.id != ref.id:
            return None
        return bisect_right(self._bases, offset) - 1

    async def offset_at(self, time_us: int) -> int:
        return await offset_at(self, time_us)

    # ---- ending ----

    async def _switched(self) -> None:
        if self._switching is not None:
            await asyncio.wait([self._switching])

    async def close(self) -> None:
        """Finish pending appends and close the ledger, so that the next start is fast."""
        self._closed = True
        while self._switching is not None or self._under_way:
            # Each may lead to the other: a new ledger takes the appends that waited for it.
            if self._switching is not None:
                await asyncio.wait([self._switching])
            else:
                await self._nothing_under_way()
        if self._failure is None and self._writer is not None:
            await self._writer.close()
            await self.commit(self._ended)
            self._writer, self._written = None, None
        self._fail(Fenced(f"{self.topic} was closed here"))
