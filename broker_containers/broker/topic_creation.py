"""Creates topics: by request, or because somebody uses one that is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from weakref import WeakValueDictionary

from broker_containers.quotas.quotas import SYSTEM, Quotas
from broker_containers.quotas.stored_counts import topic_keys
from broker_containers.security.access import creator
from broker_containers.topics.shielded_tasks import ShieldedTasks
from sulina.errors import AlreadyExists
from sulina.metadata.keys import namespaces, topic_lifecycle, topics
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.runtime.seam import Clock


class TopicCreation:
    """Once begun, a creation continues when its caller is cancelled."""

    def __init__(
        self, store: MetadataStore, clock: Clock, quotas: Quotas, shielded: ShieldedTasks
    ) -> None:
        self._store = store
        self._clock = clock
        self._quotas = quotas
        self._shielded = shielded
        self.around_first_use: Callable[
            [TopicName, Callable[[], Awaitable[None]]], Awaitable[None]
        ] = lambda _, create: create()
        """Called to create a topic because somebody uses it, with what creates it."""
        self._first_uses: WeakValueDictionary[TopicName, asyncio.Lock] = WeakValueDictionary()

    async def create(
        self,
        name: TopicName,
        delivery: Delivery,
        partitions: int,
        *,
        expected_records: int = 0,
        expected_bytes: int = 0,
    ) -> None:
        """Create a topic. Raises ``AlreadyExists`` and ``QuotaExceeded``.

        The expected records and bytes per second, in plus out, help to choose a broker for it.
        """
        wanted = replace(
            self._record(name, delivery, partitions),
            expected_records=expected_records,
            expected_bytes=expected_bytes,
        )
        with self._room_for(name, wanted):
            await self._create(name, wanted)

    async def by_first_use(self, name: TopicName, delivery: Delivery) -> TopicRecord | None:
        """Create a topic because somebody uses it. What can't succeed is not recorded: whoever may
        produce could fill the audit trail with it."""
        # One at a time for each topic, so that a creation is recorded once.
        turn = self._first_uses.setdefault(name, asyncio.Lock())
        async with turn:
            found = await topics.get(self._store, name)
            if found is None:
                await namespaces.get_policy(self._store, name.namespace)
                wanted = self._record(name, delivery, 0)
                with suppress(AlreadyExists), self._room_for(name, wanted):
                    await self.around_first_use(name, partial(self._create, name, wanted))
                found = await topics.get(self._store, name)
        return found

    async def grow(self, name: TopicName, partitions: int) -> None:
        """Let a partitioned topic have at least this many partitions.

        Raises as ``topic_lifecycle.grow``, and ``QuotaExceeded``.
        """
        who = creator()
        with self._quotas.creating(name.namespace, topic_keys(name, partitions), who):
            await self._shielded.run(topic_lifecycle.grow(self._store, name, partitions, who))

    def _record(self, name: TopicName, delivery: Delivery, partitions: int) -> TopicRecord:
        by = None if name.namespace == SYSTEM else creator()
        return TopicRecord(delivery, partitions, created_us=self._clock.wall_us(), created_by=by)

    def _room_for(self, name: TopicName, wanted: TopicRecord) -> AbstractContextManager[None]:
        """Counts a topic in the quotas while it is created. Raises ``QuotaExceeded``."""
        keys = topic_keys(name, wanted.partitions)
        return self._quotas.creating(name.namespace, keys, wanted.created_by)

    async def _create(self, name: TopicName, wanted: TopicRecord) -> None:
        await self._shielded.run(topic_lifecycle.create(self._store, name, wanted))
