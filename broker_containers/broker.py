"""The broker: owns topics, opens them when they are first used, and keeps what surrounds them.

One object a process; the doors (binary, later gRPC and HTTP) call it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from broker_containers.cursors import CursorKeeper
from broker_containers.dead_letters import (
    dead_letter_frame,
    dead_letter_producer,
    publish_one,
)
from broker_containers.doomed import Undertaker, delete_now, may_have_objects
from broker_containers.gate import Gate, OpenGate, Place
from broker_containers.metrics.publish_latency import PublishLatency
from broker_containers.retention import Retention
from broker_containers.settings import BrokerSettings
from broker_containers.subscriptions.dispatcher import DeadLetter, Dispatcher
from broker_containers.subscriptions.ranges import RangeSet
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.subscriptions.window import Window
from broker_containers.tiering import Tiering
from broker_containers.topic_reader import FromStore, TopicReader
from broker_containers.topics.log import Log, VolatileLog
from broker_containers.topics.managed_ledger import ManagedLedger
from broker_containers.topics.tail_cache import CachedFrame, TailCache
from broker_containers.topics.topic import Topic
from broker_containers.unbroken import Unbroken
from storage_grpc.ledgers import Ledgers
from storage_grpc.tier.tier import Tier, head_of
from sulina.errors import AlreadyExists, NotFound, Overloaded, Refused, Retriable, SulinaError
from sulina.lake.summary import ObjectHead
from sulina.metadata.keys import (
    cursors,
    doomed_objects,
    ledgers,
    namespaces,
    subscriptions,
    topic_lifecycle,
    topics,
)
from sulina.metadata.keys.cursors import CursorRecord
from sulina.metadata.keys.ledgers import LedgerIds, LedgerRef
from sulina.metadata.keys.subscriptions import SubscriptionRecord
from sulina.metadata.keys.topics import TopicRecord, TopicState
from sulina.metadata.store import MetadataStore
from sulina.model import Delivery, FailurePolicy, Poison, Start, SubscriptionType
from sulina.names import TopicName
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)


_CLOSED_AT_ONCE = 64


class Broker:
    """Use as ``async with``: it starts its background work and ends it."""

    def __init__(
        self,
        storage: Ledgers,
        store: MetadataStore,
        clock: Clock,
        settings: BrokerSettings,
        gate: Gate | None = None,
        reader: TopicReader | None = None,
        tier: Tier | None = None,
    ) -> None:
        self.settings = settings
        self.tier = tier
        self._reader = reader or FromStore(store)
        self._gate = gate or OpenGate()
        self.store = store
        self.ledgers = storage
        self.clock = clock
        self.cache = TailCache(settings.cache_bytes)
        self.publish_latency = PublishLatency(clock)
        self._ids = LedgerIds(store)
        self._topics: dict[TopicName, asyncio.Task[Topic]] = {}
        self._unloading: dict[TopicName, asyncio.Task[None]] = {}
        self._deleting: set[TopicName] = set()
        self._closing = False
        self._unbroken = Unbroken()
        self.cursors = CursorKeeper(
            store, clock, settings.cursor_flush_seconds, self._open_subscriptions
        )
        self.retention = Retention(clock, settings.retention_seconds, self.loaded)
        self.tiering = Tiering(tier, clock, settings.tier, self.loaded)
        self.undertaker = Undertaker(tier, store, clock)
        self._background: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Broker:
        await namespaces.create_first(self.store)
        self._background = [
            asyncio.create_task(self.cursors.run()),
            asyncio.create_task(self.retention.run()),
            asyncio.create_task(self.tiering.run()),
            asyncio.create_task(self.undertaker.run()),
        ]
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let everybody go, store all cursors, note the ends of all ledgers."""
        self._closing = True
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._unbroken.finished()
        reason = Retriable("the broker is shutting down")
        # Not one after the other: each waits for storage. Not all at once: there may be thousands.
        names = list(self._topics)
        for start in range(0, len(names), _CLOSED_AT_ONCE):
            batch = names[start : start + _CLOSED_AT_ONCE]
            await asyncio.gather(*(self.unload(name, reason) for name in batch))

    # ---- topics ----

    def loaded(self) -> Iterator[Topic]:
        """The topics that are open here."""
        for task in self._topics.values():
            if task.done() and not task.cancelled() and task.exception() is None:
                yield task.result()

    def _open_subscriptions(self) -> Iterator[Subscription]:
        for topic in self.loaded():
            yield from topic.subscriptions.values()

    async def describe(
        self, name: TopicName, *, create: bool, delivery: Delivery | None
    ) -> TopicRecord:
        """A topic's record. With ``create`` it is made when absent, as reliable unless told."""
        found = await self._reader.describe(name)
        if found is None:
            if not create:
                raise topics.missing(name)
            if not self.settings.auto_create_topics:
                raise NotFound(f"there is no topic {name}: `sulina topic create {name}` makes it")
            await self.create_topic(name, delivery or Delivery.RELIABLE, 0, exist_ok=True)
            found = await topics.get(self.store, name)
        if found is None or found.state is not TopicState.READY:
            raise Retriable(f"{name} is being made or deleted: try again")
        if delivery is not None and found.delivery is not delivery:
            raise Refused(f"{name} is {found.delivery}, not {delivery}")
        return found

    async def serves(self, name: TopicName) -> bool:
        """Whether this broker serves a topic; waits for it to have an owner."""
        return await self._gate.serves(name)

    async def place_of(self, name: TopicName) -> Place:
        """Where clients find the broker that serves a topic; waits for it to have an owner."""
        return await self._gate.place_of(name)

    async def create_topic(
        self,
        name: TopicName,
        delivery: Delivery,
        partitions: int,
        *,
        exist_ok: bool = False,
        expected_records: int = 0,
        expected_bytes: int = 0,
    ) -> None:
        """Make a topic. Raises ``AlreadyExists`` unless ``exist_ok``.

        What is expected of it, a second, in and out, helps to find a broker for it.
        """
        wanted = TopicRecord(
            delivery,
            partitions,
            created_us=self.clock.wall_us(),
            expected_records=expected_records,
            expected_bytes=expected_bytes,
        )
        try:
            await self._unbroken.run(topic_lifecycle.create(self.store, name, wanted))
        except AlreadyExists:
            if not exist_ok:
                raise

    async def topic(
        self, name: TopicName, *, create: bool = True, delivery: Delivery | None = None
    ) -> Topic:
        """The topic, open. Opening recovers its log and restores its subscriptions."""
        while (unloading := self._unloading.get(name)) is not None:
            await asyncio.shield(unloading)
        self._check_stays(name)
        opening = self._topics.get(name)
        if opening is None or (opening.done() and opening.exception() is not None):
            record = await self.describe(name, create=create, delivery=delivery)
            if record.partitions:
                raise Refused(
                    f"{name} has {record.partitions} partitions: use those, {name.partition(0)} on"
                )
            self._check_stays(name)  # a deletion, or a stop, may have begun meanwhile
            opening = self._topics.get(name)
            if opening is None or (opening.done() and opening.exception() is not None):
                opening = asyncio.create_task(self._open(name, record))
                self._topics[name] = opening
        # Shielded: one caller that gives up must not stop the others who wait for the same topic.
        topic = await asyncio.shield(opening)
        if delivery is not None and topic.delivery is not delivery:
            raise Refused(f"{name} is {topic.delivery}, not {delivery}")
        return topic

    def _check_stays(self, name: TopicName) -> None:
        if self._closing:
            raise Retriable("the broker is shutting down")
        if name in self._deleting:
            raise Retriable(f"{name} is being deleted: try again")
        self._gate.check(name)

    async def _open(self, name: TopicName, record: TopicRecord) -> Topic:
        policy, log = await asyncio.gather(self._reader.policy(name), self._open_log(name, record))
        tail, latency = self.cache.tail(), self.publish_latency
        topic = Topic(name, record.delivery, policy, log, tail, latency)
        # Only now: an owner before us may have changed them until its log was fenced.
        stored, places = await asyncio.gather(
            subscriptions.list_all(self.store, name), cursors.list_all(self.store, name)
        )
        for label, wanted in stored.items():
            place = places.get(label, CursorRecord(log.start))
            self._add_subscription(topic, label, wanted, place)
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
            partial(self._gate.guards, name),
            self.tier,
        )
        log.settings = self.settings.ledger  # they may have changed meanwhile
        return log

    def names(self) -> list[TopicName]:
        """The topics that are open here, or being opened."""
        return list(self._topics)

    def is_loaded(self, name: TopicName) -> bool:
        """Whether a topic is open here, or being opened."""
        return name in self._topics

    async def unload(self, name: TopicName, reason: SulinaError) -> None:
        """Let a topic go, with its producers and consumers; nothing if it is not open here.

        What was taken is finished, cursors are stored, the end of the log is noted. Goes on when
        the caller is cancelled. Never raises: what fails is left to the next owner to recover.
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
            # When no ledger begins or ends any more: then the guard of the cursors stays as it is.
            await self.cursors.flush(topic.subscriptions.values())
        except SulinaError as error:
            _log.warning("%s was not closed cleanly; it will recover: %s", name, error)
        finally:
            # Here, and not when the task is seen to be done: who waits for a task that is done
            # already does not let others run.
            self._unloading.pop(name, None)

    async def delete_topic(self, name: TopicName) -> None:
        """Delete a topic with its partitions, data, subscriptions and cursors."""
        record = await topics.get(self.store, name)
        if record is None:
            raise topics.missing(name)
        if record.partition_of:
            raise Refused(f"{name} is a partition: delete {record.partition_of} instead")
        parts = [name.partition(n) for n in range(record.partitions)] or [name]
        await self._unbroken.run(self._delete_topic(name, parts))

    async def _delete_topic(self, name: TopicName, parts: list[TopicName]) -> None:
        self._deleting.update(parts)  # so that nobody opens it again meanwhile
        try:
            await topic_lifecycle.mark_deleting(self.store, name)
            doomed: list[LedgerRef] = []
            objects: list[ObjectHead] = []
            for part in parts:
                await self._gate.release(part)
                await self.unload(part, NotFound(f"{name} was deleted"))
                refs = (await ledgers.get(self.store, part)).list.ledgers
                await self._note_objects(part, refs)
                objects += [head_of(part, ref) for ref in may_have_objects(self.tier, refs)]
                doomed += refs
            # The metadata goes first: ledgers that nobody names are garbage, but a topic that
            # names ledgers which are gone could not be opened again.
            await topic_lifecycle.delete(self.store, name)
            for ref in doomed:
                if ref.is_local:
                    await self.ledgers.delete(ref.id)
            await delete_now(self.tier, objects)
            await self._reader.gone(name)
        finally:
            self._deleting.difference_update(parts)

    async def _note_objects(self, topic: TopicName, refs: Sequence[LedgerRef]) -> None:
        """Before a topic goes: so that its objects go, though this broker may not live to do it."""
        objects = may_have_objects(self.tier, refs)
        for put in doomed_objects.puts(topic, objects, self.clock.wall_us()):
            await self.store.put(put.key, put.value)

    # ---- subscriptions ----

    async def subscribe(
        self,
        topic: Topic,
        name: str,
        type_: SubscriptionType,
        start: Start,
        policy: FailurePolicy | None,
    ) -> Subscription:
        """The subscription, made durable with its start position if it is new.

        Raises ``Refused`` if it exists with another type and has consumers; without consumers the
        type changes.
        """
        return await self._unbroken.run(self._subscribe(topic, name, type_, start, policy))

    async def _subscribe(
        self,
        topic: Topic,
        name: str,
        type_: SubscriptionType,
        start: Start,
        policy: FailurePolicy | None,
    ) -> Subscription:
        found = topic.subscriptions.get(name)
        if found is None:
            found = await self._create_subscription(topic, name, type_, start, policy)
        if found.dispatcher.type is not type_:
            if found.dispatcher.members:
                raise Refused(
                    f"the subscription {name!r} of {topic.name} is {found.dispatcher.type}, not "
                    f"{type_}: close its consumers first, or use another subscription"
                )
            found = await self._change_type(topic, found, type_)
        return found

    async def _create_subscription(
        self,
        topic: Topic,
        name: str,
        type_: SubscriptionType,
        start: Start,
        policy: FailurePolicy | None,
    ) -> Subscription:
        limit = topic.policy.max_subscriptions_per_topic
        if limit and len(topic.subscriptions) >= limit:
            raise Overloaded(f"{topic.name} has {limit} subscriptions, its policy's limit")
        policy = _checked(policy or FailurePolicy())
        wanted = SubscriptionRecord(type_, self.clock.wall_us(), policy)
        place = CursorRecord(await topic.resolve(start))
        try:
            await subscriptions.create(self.store, topic.name, name, wanted, place)
        except AlreadyExists:
            if name not in topic.subscriptions:
                # Made a moment ago, here for another consumer or by an owner before us.
                found = await subscriptions.get(self.store, topic.name, name)
                at = await cursors.get(self.store, topic.name, name)
                if found is None or at is None:
                    raise Retriable(f"{name!r} is being deleted: try again") from None
                wanted, place = found, at
        if name not in topic.subscriptions:
            self._add_subscription(topic, name, wanted, place)
        return topic.subscriptions[name]

    def _add_subscription(
        self, topic: Topic, name: str, wanted: SubscriptionRecord, place: CursorRecord
    ) -> Subscription:
        # A cursor can't be ahead of the log; if a NonReliable topic restarted, its offsets did.
        position = min(max(place.position, topic.log.start), topic.log.end)
        dispatcher = Dispatcher(
            wanted.type,
            wanted.failure,
            Window(position, RangeSet(place.acked)),
            reliable=topic.delivery is Delivery.RELIABLE,
            limits=self.settings.subscription,
            max_unacked=wanted.max_unacked,
        )
        subscription = Subscription(topic, name, dispatcher, self.clock, self._bury)
        topic.subscriptions[name] = subscription
        return subscription

    async def _change_type(
        self, topic: Topic, subscription: Subscription, type_: SubscriptionType
    ) -> Subscription:
        changed = await subscriptions.change(
            self.store, topic.name, subscription.name, lambda record: replace(record, type=type_)
        )
        place = subscription.cursor(self.clock.wall_us())
        await subscription.close(Retriable("the subscription's type changes"))
        successor = self._add_subscription(topic, subscription.name, changed, place)
        successor.dirty = True  # what was acknowledged before may not be stored yet
        return successor

    async def set_failure_policy(self, topic: Topic, name: str, policy: FailurePolicy) -> None:
        """Change what happens to records that fail; holds for what fails from now on."""
        subscription = topic.subscription(name)
        await subscriptions.set_failure_policy(self.store, topic.name, name, _checked(policy))
        subscription.dispatcher.policy = policy
        subscription.wake()

    async def set_max_unacked(self, topic: Topic, name: str, wanted: int) -> None:
        """Change how many records may be unacknowledged at once; what is beyond stays out."""
        if topic.delivery is not Delivery.RELIABLE:
            raise Refused(f"{topic.name} is not reliable: nothing is acknowledged there")
        topic.subscription(name)  # raises if it is not there
        await subscriptions.set_max_unacked(self.store, topic.name, name, wanted)
        found = topic.subscriptions.get(name)  # perhaps another since: its type was changed
        if found is not None:
            found.dispatcher.max_unacked = wanted
            found.wake()

    async def unsubscribe(self, topic: Topic, name: str) -> None:
        """Delete a subscription and its cursor; its consumers are let go."""
        await self._unbroken.run(self._unsubscribe(topic, topic.subscription(name)))

    async def _unsubscribe(self, topic: Topic, subscription: Subscription) -> None:
        name = subscription.name
        del topic.subscriptions[name]
        await subscription.close(NotFound(f"the subscription {name!r} was deleted"))
        await subscriptions.delete(self.store, topic.name, name)

    async def seek(self, topic: Topic, subscription: Subscription, start: Start) -> None:
        """Move a subscription; durable when this returns. Call its ``resume`` afterwards.

        After an error it goes on by itself, from the new place or the one before.
        """
        subscription.seek(await topic.resolve(start))
        try:
            await self.cursors.flush([subscription])
        except BaseException:
            subscription.resume()  # also when the caller is gone: others consume it too
            raise

    async def _bury(
        self, subscription: Subscription, letter: DeadLetter, frame: CachedFrame
    ) -> None:
        source = str(subscription.source.name)
        target = TopicName.parse(subscription.dispatcher.policy.dead_letter_topic)
        producer = dead_letter_producer(source, subscription.name)
        make = partial(
            dead_letter_frame, letter, frame, source, subscription.name, self.settings.broker_id
        )
        record = await self.describe(target, create=True, delivery=None)
        if not await self._gate.publish_elsewhere(target, record.partitions, producer, make):
            await publish_one(await self.topic(target), producer, make)


def _checked(policy: FailurePolicy) -> FailurePolicy:
    """``policy`` if dead letters could be published by it; raises ``Refused`` otherwise."""
    if policy.poison is Poison.DEAD_LETTER:
        TopicName.parse(policy.dead_letter_topic)
    return policy
