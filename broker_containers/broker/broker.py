"""The broker: opens topics when they are first used and runs their background work.

One object per process; all doors call it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial

from broker_containers.broker.settings import BrokerSettings
from broker_containers.broker.topic_creation import TopicCreation
from broker_containers.broker.topic_deletion import TopicDeletion
from broker_containers.broker.topic_metadata import StoredTopicMetadata, TopicMetadata
from broker_containers.broker.topic_owners import OwnsEveryTopic, TopicAddress, TopicOwners
from broker_containers.quotas.quotas import Quotas
from broker_containers.security.access import CREATING_FOR
from broker_containers.subscriptions.cursors import CursorWriter
from broker_containers.subscriptions.dead_letters import (
    DeadLetter,
    dead_letter_frame,
    dead_letter_producer,
)
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topic_log.cleanup import (
    ObjectCleanup,
)
from broker_containers.topic_log.log import Log, VolatileLog
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topic_log.tail_cache import CachedFrame, TailCache
from broker_containers.topics.compacting import Compacting
from broker_containers.topics.erasing import Erasing
from broker_containers.topics.erasure_work import ErasureWork
from broker_containers.topics.histogram import PublishLatency
from broker_containers.topics.merging import Merging
from broker_containers.topics.replacing import Replacing
from broker_containers.topics.retention import Retention
from broker_containers.topics.shielded_tasks import ShieldedTasks
from broker_containers.topics.single_publish import publish_one
from broker_containers.topics.storage_quotas import StorageQuotas
from broker_containers.topics.subscription_manager import SubscriptionManager
from broker_containers.topics.tiering import Tiering
from broker_containers.topics.topic import Topic
from broker_containers.topics.unused_topics import UnusedTopics
from storage_grpc.ledgers import Ledgers
from storage_grpc.tier.tier import Tier
from sulina.errors import NotFound, Refused, Retriable, SulinaError
from sulina.metadata.keys import (
    namespaces,
    requests,
    topics,
)
from sulina.metadata.keys.ledgers import LedgerIds
from sulina.metadata.keys.policy import Policy
from sulina.metadata.keys.topics import TopicRecord, TopicState
from sulina.metadata.store import MetadataStore
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.runtime.seam import Clock
from sulina.runtime.tasks import keep_running, stop_tasks

_log = logging.getLogger(__name__)

_IDLE_AT_ONCE = 64
_CLOSED_AT_ONCE = 64


class Broker:
    """Use as ``async with``: it starts its background tasks and stops them."""

    def __init__(
        self,
        storage: Ledgers,
        store: MetadataStore,
        clock: Clock,
        settings: BrokerSettings,
        owners: TopicOwners | None = None,
        metadata: TopicMetadata | None = None,
        tier: Tier | None = None,
    ) -> None:
        self.settings = settings
        self.tier = tier
        self._metadata = metadata or StoredTopicMetadata(store, self.policy_defaults)
        self._owners = owners or OwnsEveryTopic()
        self.store = store
        self.ledgers = storage
        self.clock = clock
        self.cache = TailCache(settings.cache_bytes)
        self.publish_latency = PublishLatency(clock)
        self.quotas = Quotas(store, clock, settings.broker_id, follow_topics=metadata is None)
        self._ids = LedgerIds(store)
        self._topics: dict[TopicName, asyncio.Task[Topic]] = {}
        self._unloading: dict[TopicName, asyncio.Task[None]] = {}
        self._closing = False
        self._shielded = ShieldedTasks()
        self.creation = TopicCreation(store, clock, self.quotas, self._shielded)
        self.deletion = TopicDeletion(
            store,
            clock,
            storage,
            tier,
            self._owners,
            self._metadata,
            self._shielded,
            self.unload,
        )
        self.cursors = CursorWriter(
            store, clock, settings.cursor_flush_seconds, self._open_subscriptions
        )
        self.subscriptions = SubscriptionManager(
            store,
            clock,
            settings.subscription,
            self.cursors,
            self._shielded,
            self._send_dead_letter,
            self.quotas,
        )
        self.unused_topics = UnusedTopics(store, clock, self.deletion.delete)
        self.retention = Retention(
            clock,
            settings.retention_seconds,
            self.loaded,
            StorageQuotas(store, self.quotas),
            self._grace,
            self.unused_topics,
            # In a cluster, owners open their topics when they get them.
            self._open_idle if metadata is None else None,
            self.refresh_policies,
            lambda: self.tiering.settings.tables_seconds,
        )
        self.tiering = Tiering(tier, clock, settings.tier, self.loaded)
        self.replacing = Replacing(tier, clock)
        self.merging = Merging(
            self.replacing,
            clock,
            lambda: self.tiering.settings,
            self.loaded,
            lambda: self.tiering.schemas_of,
        )
        self.compacting = Compacting(
            self.replacing,
            clock,
            lambda: self.tiering.settings,
            self.loaded,
            lambda: self.tiering.schemas_of,
        )
        work = ErasureWork(tier, store, self.replacing, self.tiering, clock)
        self.erasing = Erasing(work, store, clock, self.loaded)
        self.object_cleanup = ObjectCleanup(tier, store, clock)
        self._background: list[asyncio.Task[None]] = []

    async def _open_idle(self) -> None:
        """Open topics that nobody uses, a few at a time, if their policy deletes something, or they
        have a request to finish."""
        for name in (await requests.topics(self.store))[:_IDLE_AT_ONCE]:
            if name not in self._topics:
                with suppress(Refused, Retriable):  # the next round tries again
                    await self.topic(name, create=False)
        opened = 0
        for namespace in await namespaces.list_names(self.store):
            for name, found in (await topics.list_all(self.store, namespace)).items():
                if found.partitions or found.delivery is not Delivery.RELIABLE:
                    continue
                if name in self._topics or found.state is not TopicState.READY:
                    continue
                if (await self._metadata.policy(name)).deletes:
                    await self.topic(name, create=False)
                    opened += 1
                if opened == _IDLE_AT_ONCE:
                    return

    def policy_defaults(self) -> Policy:
        """The limits of topics for which neither they nor their namespace set any."""
        return Policy(**asdict(self.settings.policy))

    async def refresh_policies(self) -> None:
        """Apply changed policies to open topics."""
        for topic in list(self.loaded()):
            with suppress(NotFound):  # it is being deleted
                topic.policy = await self._metadata.policy(topic.name)

    def _grace(self, in_objects: bool) -> float:
        return self.settings.tier.grace_seconds if in_objects else self.settings.grace_seconds

    async def __aenter__(self) -> Broker:
        await namespaces.create_first(self.store)
        await self.quotas.__aenter__()
        work = {
            "storing cursors": self.cursors.run,
            "retention": self.retention.run,
            "tiering": self.tiering.run,
            "merging objects": self.merging.run,
            "compaction": self.compacting.run,
            "erasure": self.erasing.run,
            "deleting objects": self.object_cleanup.run,
        }
        self._background = [
            asyncio.create_task(keep_running(name, run, self.clock), name=name)
            for name, run in work.items()
        ]
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect all producers and consumers, store all cursors, close all ledgers."""
        self._closing = True
        await stop_tasks(*self._background)
        await self._shielded.finished()
        reason = Retriable("the broker is shutting down")
        # In batches: closing one by one would add up their waits, and there may be thousands.
        names = list(self._topics)
        for start in range(0, len(names), _CLOSED_AT_ONCE):
            batch = names[start : start + _CLOSED_AT_ONCE]
            await asyncio.gather(*(self.unload(name, reason) for name in batch))
        await self.quotas.__aexit__()

    # ---- topics ----

    def loaded(self) -> Iterator[Topic]:
        """The open topics. Others may be opened and closed before the next one is taken."""
        for task in list(self._topics.values()):
            if task.done() and not task.cancelled() and task.exception() is None:
                yield task.result()

    def _open_subscriptions(self) -> Iterator[Subscription]:
        for topic in self.loaded():
            yield from topic.subscriptions.values()

    async def describe(
        self, name: TopicName, *, create: bool, delivery: Delivery | None
    ) -> TopicRecord:
        """A topic's record. With ``create`` a missing topic is created, by default as reliable."""
        found = await self._metadata.describe(name)
        if found is None:
            if not create:
                raise topics.missing(name)
            if not self.settings.auto_create_topics:
                raise NotFound(f"no topic {name}: create it with `sulina topic create {name}`")
            found = await self.creation.by_first_use(name, delivery or Delivery.RELIABLE)
        if found is None or found.state is not TopicState.READY:
            raise Retriable(f"{name} is being created or deleted: try again")
        if delivery is not None and found.delivery is not delivery:
            raise Refused(f"{name} is {found.delivery}, not {delivery}")
        return found

    async def serves(self, name: TopicName) -> bool:
        """Whether this broker serves a topic; waits until the topic has an owner."""
        return await self._owners.serves(name)

    async def address_of(self, name: TopicName, *, direct: bool = False) -> TopicAddress:
        """Where clients find the broker that serves a topic; see ``TopicOwners.address_of``."""
        return await self._owners.address_of(name, direct=direct)

    async def topic(
        self, name: TopicName, *, create: bool = True, delivery: Delivery | None = None
    ) -> Topic:
        """The open topic. Opening recovers its log and restores its subscriptions."""
        while (unloading := self._unloading.get(name)) is not None:
            await asyncio.shield(unloading)
        self._check_stays(name)
        opening = self._topics.get(name)
        if opening is None or (opening.done() and opening.exception() is not None):
            record = await self.describe(name, create=create, delivery=delivery)
            if record.partitions:
                raise Refused(
                    f"{name} has {record.partitions} partitions: use them, starting with "
                    f"{name.partition(0)}"
                )
            self._check_stays(name)  # a deletion or shutdown may have begun meanwhile
            opening = self._topics.get(name)
            if opening is None or (opening.done() and opening.exception() is not None):
                opening = asyncio.create_task(self._open(name, record))
                self._topics[name] = opening
        # Shielded: a caller that gives up must not cancel the opening for other callers.
        topic = await asyncio.shield(opening)
        if delivery is not None and topic.delivery is not delivery:
            raise Refused(f"{name} is {topic.delivery}, not {delivery}")
        return topic

    def opened(self, name: TopicName) -> Topic | None:
        """A topic that is open here and stays; never waits."""
        opening = self._topics.get(name)
        if opening is None or not opening.done() or name in self._unloading:
            return None
        try:
            self._check_stays(name)
            return opening.result()
        except SulinaError:
            return None

    def _check_stays(self, name: TopicName) -> None:
        if self._closing:
            raise Retriable("the broker is shutting down")
        self.deletion.check(name)
        self._owners.check(name)

    async def _open(self, name: TopicName, record: TopicRecord) -> Topic:
        policy, log = await asyncio.gather(
            self._metadata.policy(name), self._open_log(name, record)
        )
        tail, latency = self.cache.tail(), self.publish_latency
        topic = Topic(name, record.delivery, policy, log, tail, latency, self.quotas)
        await self.subscriptions.restore(topic)
        return topic

    async def _open_log(self, name: TopicName, record: TopicRecord) -> Log:
        if record.delivery is not Delivery.RELIABLE:
            return VolatileLog()
        log = await ManagedLedger.open(
            name,
            self.ledgers,
            self.store,
            self._ids,
            self.clock,
            self.settings.ledger,
            partial(self._owners.guards, name),
            self.tier,
        )
        log.settings = self.settings.ledger  # may have changed meanwhile
        return log

    def names(self) -> list[TopicName]:
        """The topics that are open or being opened."""
        return list(self._topics)

    def is_loaded(self, name: TopicName) -> bool:
        """Whether a topic is open or being opened."""
        return name in self._topics

    async def unload(self, name: TopicName, reason: SulinaError) -> None:
        """Close a topic and disconnect its producers and consumers. Does nothing if it is not open.

        Finishes accepted publishes, stores cursors and closes the ledger. Continues when the caller
        is cancelled. Never raises: what fails is left to the next owner to recover.
        """
        opening = self._topics.pop(name, None)
        if opening is not None:
            self._unloading[name] = asyncio.create_task(self._unload(name, opening, reason))
        if (unloading := self._unloading.get(name)) is not None:
            await asyncio.shield(unloading)

    async def _unload(
        self, name: TopicName, opening: asyncio.Task[Topic], reason: SulinaError
    ) -> None:
        try:
            topic = await opening
            await topic.close(reason)
            # After the last ledger is closed: closing it changes the guard of the cursors.
            await self.cursors.flush(topic.subscriptions.values())
        except SulinaError as error:
            _log.warning("%s was not closed cleanly; opening it will recover: %s", name, error)
        finally:
            # Here and not in a done callback: waiting for a finished task does not yield to the
            # event loop, so the callback might not have run yet.
            self._unloading.pop(name, None)

    async def _send_dead_letter(
        self, subscription: Subscription, letter: DeadLetter, frame: CachedFrame
    ) -> None:
        CREATING_FOR.set("")  # not for whoever's request began the task of these letters
        source = str(subscription.source.name)
        target = TopicName.parse(subscription.failure_policy.dead_letter_topic)
        producer = dead_letter_producer(source, subscription.name)
        make = partial(
            dead_letter_frame,
            letter,
            frame,
            source,
            subscription.name,
            self.settings.broker_id,
            now_us=self.clock.wall_us(),
        )
        record = await self.describe(target, create=True, delivery=None)
        if not await self._owners.publish_elsewhere(target, record.partitions, producer, make):
            await publish_one(await self.topic(target), producer, make)
