"""Deletes topics with their partitions, data, subscriptions and cursors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from broker_containers.broker.topic_metadata import TopicMetadata
from broker_containers.broker.topic_owners import TopicOwners
from broker_containers.topic_log.cleanup import delete_objects, note_given_up, objects_to_delete
from broker_containers.topics.shielded_tasks import ShieldedTasks
from storage_grpc.ledgers import Ledgers
from storage_grpc.tier.tier import Tier, place_of
from sulina.errors import NotFound, Refused, Retriable, SulinaError
from sulina.lake.summary import ObjectHead
from sulina.metadata.keys import ledgers, topic_lifecycle, topics, unreferenced_objects
from sulina.metadata.keys.ledger_list import Replacement
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.seam import Clock


class TopicDeletion:
    """Once begun, a deletion continues when its caller is cancelled."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        stored: Ledgers,
        tier: Tier | None,
        owners: TopicOwners,
        metadata: TopicMetadata,
        shielded: ShieldedTasks,
        unload: Callable[[TopicName, SulinaError], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ledgers = stored
        self._tier = tier
        self._owners = owners
        self._metadata = metadata
        self._shielded = shielded
        self._unload = unload
        self._under_way: set[TopicName] = set()

    def check(self, name: TopicName) -> None:
        """Raises ``Retriable`` while the topic is being deleted."""
        if name in self._under_way:
            raise Retriable(f"{name} is being deleted: try again")

    async def delete(self, name: TopicName) -> None:
        """Delete a topic. Raises ``NotFound``, and ``Refused`` for a single partition."""
        record = await topics.get(self._store, name)
        if record is None:
            raise topics.missing(name)
        if record.partition_of:
            raise Refused(
                f"Cannot delete individual partition {name}: delete {record.partition_of} instead"
            )
        parts = [name.partition(n) for n in range(record.partitions)] or [name]
        await self._shielded.run(self._delete(name, parts))

    async def _delete(self, name: TopicName, parts: list[TopicName]) -> None:
        self._under_way.update(parts)  # so that it is not opened again meanwhile
        try:
            await topic_lifecycle.mark_deleting(self._store, name)
            doomed: list[LedgerRef] = []
            objects: list[ObjectHead] = []
            for part in parts:
                await self._owners.release(part)
                await self._unload(part, NotFound(f"{name} was deleted"))
                stored = (await ledgers.get(self._store, part)).list
                found = objects_to_delete(self._tier, part, stored.ledgers)
                await self._note_objects(part, found, stored.replacing)
                objects += found
                doomed += stored.ledgers
            # Metadata first: unreferenced ledgers are only garbage, but a topic that refers to
            # deleted ledgers could not be opened again.
            await topic_lifecycle.delete(self._store, name)
            for ref in doomed:
                if ref.is_local:
                    await self._ledgers.delete(ref.id)
            await delete_objects(self._tier, objects)
            await self._metadata.gone(name)
        finally:
            self._under_way.difference_update(parts)

    async def _note_objects(
        self, topic: TopicName, objects: Sequence[ObjectHead], under_way: Replacement | None
    ) -> None:
        """Note a topic's objects for deletion, in case this broker stops before it deletes them."""
        now = self._clock.wall_us()
        puts = unreferenced_objects.puts(topic, [place_of(head) for head in objects], now)
        if under_way is not None:
            puts.append(note_given_up(topic, under_way, now))
        for put in puts:
            await self._store.put(put.key, put.value)
