"""Deletes ledgers and objects that no topic refers to any more, and nothing else.

Objects to delete are noted in the metadata by the same transaction that removes them from a
topic's list. They are deleted immediately, again by every broker that sees the note, and once more
when no upload can still be in progress; only then the note is removed. Objects that were replaced
are kept for the time in their note.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from storage_grpc.entries import EntryStore
from storage_grpc.tier.tier import Tier, head_of, place_of
from sulina.errors import StorageFull, SulinaError
from sulina.lake.summary import ObjectHead
from sulina.metadata.keys import ledgers, namespaces, topics, unreferenced_objects
from sulina.metadata.keys.ledger_list import LedgerRef, Replacement
from sulina.metadata.keys.topics import TopicState
from sulina.metadata.keys.unreferenced_objects import StoredUnreferenced
from sulina.metadata.store import MetadataStore, Put
from sulina.names import TopicName
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_SECONDS: Final = 60.0
_GRACE_SECONDS: Final = 3600.0
"""Longer than any upload takes."""
_AT_ONCE: Final = 64


class ObjectCleanup:
    """Deletes noted objects periodically."""

    def __init__(self, tier: Tier | None, store: MetadataStore, clock: Clock) -> None:
        self.deleted = 0
        """Deletions so far; an object may be deleted more than once."""
        self.grace_seconds = _GRACE_SECONDS
        """How long after its note an object is deleted once more."""
        self._tier = tier
        self._store = store
        self._clock = clock
        self._seen: set[str] = set()

    async def run(self) -> None:
        """Run until cancelled."""
        while self._tier is not None:
            try:
                await self.round()
            except SulinaError as error:
                _log.warning("deleting unreferenced objects failed; will retry: %s", error)
            await self._clock.sleep(_SECONDS)

    async def round(self) -> None:
        """Delete what this process has not deleted yet; remove notes older than the grace time."""
        if self._tier is None or not self._tier.ready:
            return
        there: set[str] = set()
        after: str | None = None
        while found := await unreferenced_objects.list_some(self._store, _AT_ONCE, after):
            for each in found:
                after = each.key
                there.add(each.key)
                age = (self._clock.wall_us() - each.value.since_us) / 1e6
                kept = each.value.keep_us / 1e6
                if age < kept or (age < self.grace_seconds and each.key in self._seen):
                    continue
                last = age >= max(self.grace_seconds, kept)
                if await self._delete(self._tier, each, last=last):
                    self._seen.add(each.key)
                    if last:
                        await unreferenced_objects.forget(self._store, each)
        self._seen &= there

    async def _delete(self, tier: Tier, doomed: StoredUnreferenced, *, last: bool) -> bool:
        """Delete unreferenced objects; returns whether that was all of them."""
        topic = TopicName.parse(doomed.value.topic)
        listed = await self._listed(topic)
        wanted = [ObjectHead(topic, *place) for place in doomed.value.objects]
        heads = [head for head in wanted if head not in listed]
        await tier.delete(heads)
        if last and doomed.value.notice:
            await tier.delete([], [ObjectHead(topic, *doomed.value.notice)])
        self.deleted += len(heads)
        return len(heads) == len(wanted)

    async def _listed(self, topic: TopicName) -> set[ObjectHead]:
        """Objects that the topic still lists: they are kept, whatever the note says."""
        found = await topics.get(self._store, topic)
        if found is None or found.state is TopicState.DELETING:
            return set()
        listed = (await ledgers.get(self._store, topic)).list.ledgers
        return {head_of(topic, ref) for ref in listed}


def objects_to_delete(
    tier: Tier | None, topic: TopicName, refs: Iterable[LedgerRef]
) -> list[ObjectHead]:
    """The objects that must be deleted with ledgers, including uploads in progress.

    Without an object store there are none in progress, so nothing needs to be noted.
    """
    under_way = tier is not None and tier.ready
    return [head_of(topic, ref) for ref in refs if ref.tiered is not None or under_way]


def note_given_up(topic: TopicName, under_way: Replacement, now_us: int) -> Put:
    """Notes that the object of a replacement, which may be in progress, is to be deleted."""
    place = place_of(new_head(topic, under_way))
    return unreferenced_objects.put_replaced(topic, [place], place, now_us, 0)


def new_head(topic: TopicName, under_way: Replacement) -> ObjectHead:
    """The head of the object of a replacement."""
    return ObjectHead(
        topic,
        under_way.ledger,
        under_way.first_offset,
        under_way.generation,
        under_way.last_offset,
    )


async def delete_objects(tier: Tier | None, heads: Sequence[ObjectHead]) -> None:
    """Delete noted objects now. Failures are logged; ``ObjectCleanup`` retries."""
    if tier is not None and heads:
        try:
            await tier.delete(heads)
        except SulinaError as error:
            _log.warning("deleting unreferenced objects failed; will retry: %s", error)


async def delete_orphans(entries: EntryStore, store: MetadataStore) -> int:
    """Delete ledgers that an interrupted creation or deletion left behind; returns how many.

    Call it before the broker serves anything. On a full disk they stay until the next start.
    """
    named: set[int] = set()
    for namespace in await namespaces.list_names(store):
        for topic in await topics.list_all(store, namespace):
            listed = (await ledgers.get(store, topic)).list.ledgers
            named.update(ledger.id for ledger in listed)
    orphans = [ledger for ledger in entries.ledgers() if ledger not in named]
    with suppress(StorageFull):
        for ledger in orphans:
            await entries.delete(ledger)
    return len(orphans)
