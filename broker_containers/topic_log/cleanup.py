"""Deletes objects that no list names any more, whoever began it, and nothing else.

What was taken off a list is noted in the metadata. It is deleted at once by whoever did that, once
more by every broker that learns of it, and a last time when no upload of it can be under way any
more; only then the note goes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from storage_grpc.tier.tier import Tier
from sulina.errors import SulinaError
from sulina.lake.summary import ObjectHead
from sulina.metadata.keys import doomed_objects, ledgers, topics
from sulina.metadata.keys.doomed_objects import StoredDoomed
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.metadata.keys.topics import TopicState
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_SECONDS: Final = 60.0
_GRACE_SECONDS: Final = 3600.0
"""No upload takes so long."""
_AT_ONCE: Final = 64


class ObjectCleanup:
    """Looks for doomed objects once in a while."""

    def __init__(self, tier: Tier | None, store: MetadataStore, clock: Clock) -> None:
        self.deleted = 0
        """Objects so far, some of them more than once."""
        self._tier = tier
        self._store = store
        self._clock = clock
        self._seen: set[str] = set()

    async def run(self) -> None:
        """Until cancelled."""
        while self._tier is not None:
            try:
                await self.round()
            except SulinaError as error:
                _log.warning("objects that nobody wants stay for now: %s", error)
            await self._clock.sleep(_SECONDS)

    async def round(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Delete what has not been deleted yet, and forget what has been for long enough."""
        if self._tier is None or not self._tier.ready:
            return
        there: set[str] = set()
        after: str | None = None
        while found := await doomed_objects.list_some(self._store, _AT_ONCE, after):
            for each in found:
                after = each.key
                there.add(each.key)
                age = (self._clock.wall_us() - each.value.since_us) / 1e6
                if age < grace_seconds and each.key in self._seen:
                    continue
                if await self._delete(self._tier, each):
                    self._seen.add(each.key)
                    if age >= grace_seconds:
                        await doomed_objects.forget(self._store, each)
        self._seen &= there

    async def _delete(self, tier: Tier, doomed: StoredDoomed) -> bool:
        """Delete what can go; returns whether that was everything."""
        topic = TopicName.parse(doomed.value.topic)
        listed = await self._listed(topic)
        heads = [
            ObjectHead(topic, ledger, first_offset)
            for ledger, first_offset in doomed.value.objects
            if ledger not in listed
        ]
        await tier.delete(heads)
        self.deleted += len(heads)
        return len(heads) == len(doomed.value.objects)

    async def _listed(self, topic: TopicName) -> set[int]:
        """The ledgers that a topic still has: none of them goes, whatever the note says."""
        found = await topics.get(self._store, topic)
        if found is None or found.state is TopicState.DELETING:
            return set()
        return {ref.id for ref in (await ledgers.get(self._store, topic)).list.ledgers}


def may_have_objects(tier: Tier | None, refs: Iterable[LedgerRef]) -> list[LedgerRef]:
    """Those whose objects have to go with them: also what may just be on its way to the store.

    Where no node has an object store there is nothing on its way, and nothing to be noted.
    """
    under_way = tier is not None and tier.ready
    return [ref for ref in refs if ref.tiered is not None or under_way]


async def delete_objects(tier: Tier | None, heads: Sequence[ObjectHead]) -> None:
    """Delete objects that are noted as doomed. What fails is told to the log, and done later."""
    if tier is not None and heads:
        try:
            await tier.delete(heads)
        except SulinaError as error:
            _log.warning("objects that nobody wants stay for now: %s", error)
