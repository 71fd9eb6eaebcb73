"""Removes a topic's oldest ledgers, restores what is kept, and deletes what is not.

The list changes first, by a swap; the data goes after it. What is decided is decided again at its
turn: a ledger that was restored or replaced meanwhile stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from broker_containers.topic_log.cleanup import delete_objects, objects_to_delete
from broker_containers.topic_log.owned_list import OwnedLedgerList
from storage_grpc.ledgers import Ledgers
from storage_grpc.tier.tier import Tier, place_of
from sulina.lake.layout import RemovedMark
from sulina.metadata.keys import unreferenced_objects
from sulina.metadata.keys.ledger_list import Removal
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef
from sulina.names import TopicName
from sulina.runtime.seam import Clock


class _Changed(Exception):
    """The list changed before a swap; nothing was swapped."""


class LedgerRemoval:
    """The end of one topic's ledgers. Errors as of ``OwnedLedgerList.commit``, and of storage."""

    def __init__(
        self,
        topic: TopicName,
        owned: OwnedLedgerList,
        ledgers: Ledgers,
        tier: Tier | None,
        clock: Clock,
        switched: Callable[[], Awaitable[None]],
    ) -> None:
        """``switched`` waits until the topic is not between two ledgers."""
        self._topic = topic
        self._owned = owned
        self._ledgers = ledgers
        self._tier = tier
        self._clock = clock
        self._switched = switched
        self.tables_seconds = 0.0
        """How long objects that left the topic are kept at least, so that tables drop them."""
        self._marked: tuple[tuple[int, int], ...] = ()
        self._marked_at = 0.0

    @property
    def removed(self) -> tuple[tuple[LedgerRef, ...], tuple[Removal, ...]]:
        """The ledgers that were removed and can be restored, oldest first, and when they were."""
        return self._owned.list.ledgers[: self._owned.list.hidden], self._owned.list.removed

    async def trim(self, oldest: Sequence[LedgerRef], keep_us: int | None = None) -> int:
        """Remove the oldest ledgers, as far as they are still these; returns how many. The newest
        ledger stays.

        With ``keep_us`` their data is kept for that time, and can be restored; without, it is
        deleted at once, with what was removed before and is still kept.
        """
        await self._switched()
        if keep_us is None or not (keep_us or self._owned.list.hidden):
            return await self._delete(
                lambda list_: list_.hidden + found if (found := list_.leading(oldest)) else 0
            )
        now_us, count = self._clock.wall_us(), 0

        def removing(list_: LedgerList) -> LedgerList:
            nonlocal count
            count = list_.leading(oldest)
            return list_.removing(count, now_us, now_us + keep_us) if count else list_

        if self._owned.list.leading(oldest):
            await self._owned.commit(removing)
        return count

    async def delete_overdue(self, now_us: int) -> int:
        """Delete the data of ledgers that were removed and kept for long enough.

        If they have objects, the mark that says so must have been there for ``tables_seconds``.
        """
        await self._switched()
        if not self._owned.list.overdue(now_us) or not await self._noticed():
            return 0
        return await self._delete(lambda list_: list_.overdue(now_us))

    async def mark_removed(self) -> None:
        """Tell readers of the objects which of them are removed, unless that is done already."""
        wanted = self._owned.list.marks
        if not wanted or self._marked == wanted or self._tier is None or not self._tier.ready:
            return
        former = [RemovedMark(*each) for each in {*self._marked, *wanted[:-1]} - {wanted[-1]}]
        await self._tier.mark_removed(self._topic, RemovedMark(*wanted[-1]), former)
        self._marked, self._marked_at = wanted, self._clock.now()

    async def _noticed(self) -> bool:
        """Whether tables had the time to drop what is removed."""
        if not self.tables_seconds or self._tier is None:
            return True
        if all(ref.tiered is None for ref in self._owned.list.ledgers[: self._owned.list.hidden]):
            return True
        await self.mark_removed()
        since = self._clock.now() - self._marked_at
        return self._marked == self._owned.list.marks and since >= self.tables_seconds

    async def restore(self) -> int:
        """Restore the ledgers that were removed and whose data is kept; returns how many."""
        await self._switched()
        count = self._owned.list.hidden
        if count:
            await self._owned.commit(LedgerList.restored)
        return count

    async def _delete(self, counted: Callable[[LedgerList], int]) -> int:
        """Delete the data of so many of the oldest ledgers. The list changes first."""

        def doomed(list_: LedgerList) -> tuple[LedgerRef, ...]:
            count = min(counted(list_), unreferenced_objects.LEDGERS_PER_RECORD)
            return list_.ledgers[: min(count, len(list_.ledgers) - 1)]

        while gone := doomed(self._owned.list):
            objects = objects_to_delete(self._tier, self._topic, gone)
            places = [place_of(head) for head in objects]
            # What was kept long enough is overdue; other objects are still in tables.
            now_us = self._clock.wall_us()
            overdue = len(gone) <= self._owned.list.overdue(now_us)
            keep_us = 0 if overdue else int(self.tables_seconds * 1e6)
            doom = unreferenced_objects.puts(self._topic, places, now_us, keep_us)

            def trimmed(list_: LedgerList, gone: tuple[LedgerRef, ...] = gone) -> LedgerList:
                if doomed(list_) != gone:  # by our turn they were restored, or replaced
                    raise _Changed
                return list_.trimmed(len(gone))

            try:
                await self._owned.commit(trimmed, doom)
            except _Changed:
                continue
            for ref in gone:
                if ref.is_local:
                    await self._ledgers.delete(ref.id)
            if not keep_us:
                await delete_objects(self._tier, objects)
            break
        return len(gone)
