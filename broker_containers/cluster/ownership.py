"""This broker's topics: watches the owners' records, opens its own topics, closes the others.

In a planned move, the leader writes the next owner into the record; the owner closes the topic,
tells its clients to look it up again, and writes the next owner's name itself, so that the move
takes no longer than that. If the owner does not respond, the leader reassigns the topic. The next
owner fences the log in any case.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from broker_containers.broker.broker import Broker
from broker_containers.broker.topic_owners import HERE, TopicAddress
from broker_containers.cluster.peers import Peers
from broker_containers.cluster.settings import ClusterSettings
from broker_containers.cluster.tables import ClusterTables
from broker_containers.topics.single_publish import MakeFrame
from sulina.errors import NotFound, Refused, Retriable, SulinaError, UnknownOutcome
from sulina.metadata.keys import assignments, topics
from sulina.metadata.keys.assignments import Change, Owner, UnassignedTopic
from sulina.metadata.keys.members import BrokerRecord
from sulina.metadata.store import Compare, MetadataStore, ModRevisionIs
from sulina.names import TopicName
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock
from sulina.runtime.tasks import stop_tasks
from sulina.wire.decode import Frame

_log = logging.getLogger(__name__)
_PAUSE = 0.2
_IDLE_OPEN_SECONDS = 0.05


class Ownership:
    """Use as ``async with``, inside the tables and the broker."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        tables: ClusterTables,
        me: str,
        settings: ClusterSettings,
        peers: Peers | None = None,
    ) -> None:
        self._peers = peers
        self._store = store
        self._clock = clock
        self._tables = tables
        self._me = me
        self.settings = settings
        self._broker: Broker | None = None
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}
        self._busy: dict[TopicName, asyncio.Task[None]] = {}
        self._again: set[TopicName] = set()
        self._opening = asyncio.Lock()
        self._closed = False
        self._suspended = ""
        self.moved_away = 0
        """Topics handed over so far."""

    # ---- implements TopicOwners ----

    def check(self, topic: TopicName) -> None:
        """Raise ``Retriable`` unless this broker owns ``topic``."""
        if self._suspended:
            raise Retriable(self._suspended)
        owner = self._tables.owner(topic)
        if owner is None or owner.broker != self._me:
            other = "another broker" if owner is None else owner.broker
            raise Retriable(f"{topic} is served by {other}: look it up again")
        if owner.to:
            raise Retriable(f"{topic} is moving to {owner.to}: look it up again")

    def guards(self, topic: TopicName) -> Sequence[Compare]:
        """The condition that this broker owns ``topic``: without it, an outdated cache could make
        it take the topic from its owner."""
        self.check(topic)
        _, revision = self._tables.owner_at(topic)
        return (ModRevisionIs(assignments.owner_key(topic), revision),)

    async def where(self, topic: TopicName) -> tuple[str, BrokerRecord] | None:
        """The broker that serves ``topic``, None if it is this one; waits until there is one.

        Raises ``Retriable`` if that takes too long, ``NotFound`` if the topic does not exist.
        """
        if self._suspended:
            raise Retriable(self._suspended)
        wished = False
        end = self._clock.now() + self.settings.lookup_seconds
        while (left := end - self._clock.now()) > 0:
            with self._change_of(topic) as change:
                owner = self._tables.owner(topic)
                if owner is not None and not owner.to:
                    if owner.broker == self._me:
                        return None
                    found = self._tables.broker(owner.broker)
                    if found is not None:
                        return owner.broker, found
                elif owner is None and not wished:
                    await self._wish(topic)
                    wished = True
                try:
                    await within(self._clock, left, change)
                except TimeoutError:
                    break
        raise Retriable(f"{topic} has no owner yet: does the cluster have a leader?")

    async def partitions_of(self, topic: TopicName) -> int:
        """How many partitions have owners in its place; 0 if the topic itself has an owner."""
        if self._tables.owner(topic) is not None:
            return 0
        found = await topics.get(self._store, topic)
        return 0 if found is None else found.partitions

    async def serves(self, topic: TopicName) -> bool:
        """Whether this broker is the owner; see :meth:`where`."""
        return await self.where(topic) is None

    async def address_of(self, topic: TopicName, *, direct: bool = False) -> TopicAddress:
        """Where clients find the owner; see :meth:`where`."""
        found = await self.where(topic)
        proxied = bool(self.settings.proxy_url) and not direct
        if found is None and not proxied:
            return HERE
        if proxied:
            owner, grpc = (self._me, "") if found is None else (found[0], found[1].grpc)
            return TopicAddress(self.settings.proxy_url, owner, grpc)
        assert found is not None
        return TopicAddress(found[1].url, grpc=found[1].grpc)

    async def _wish(self, topic: TopicName) -> None:
        wanted = UnassignedTopic(self._clock.wall_us())
        if not await assignments.request_owner(self._store, topic, wanted):
            raise topics.missing(topic)

    @contextmanager
    def _change_of(self, topic: TopicName) -> Iterator[asyncio.Future[None]]:
        """Resolves when the owner's record of ``topic``, or the set of brokers, changes."""
        path = assignments.path_of(topic)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(path, {})[waiter] = None
        try:
            yield waiter
        finally:
            waiters = self._waiting.get(path)
            if waiters is not None:
                waiters.pop(waiter, None)
                if not waiters:
                    del self._waiting[path]

    def _wake(self, path: str) -> None:
        for waiter in self._waiting.get(path, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def publish_elsewhere(
        self, topic: TopicName, partitions: int, producer: str, make: MakeFrame
    ) -> bool:
        """Publish a frame's records to a topic that this broker does not serve, or only in part.

        Durable when it returns True. False if this broker serves ``topic``.
        """
        owner = None if partitions else await self.where(topic)
        if (owner is None and not partitions) or self._peers is None:
            return False
        records = Frame(make(0))
        client = await self._peers.client(self._me if owner is None else owner[0])
        async with client.producer(str(topic), name=producer) as sender:
            ticket = await sender.send_many(
                records.payloads,
                keys=records.keys,
                attributes=records.attributes,
                publish_time_us=records.times[0],
            )
            await ticket
        return True

    async def release(self, topic: TopicName) -> None:
        """Delete the owner's record of a topic that is being deleted."""
        await assignments.forget(self._store, topic)

    async def suspend(self, reason: str) -> None:
        """Serve nothing until :meth:`resume`: other brokers own the topics by now."""
        self._suspended = reason
        assert self._broker is not None
        names = self._broker.names()
        await asyncio.gather(*(self._broker.unload(name, Retriable(reason)) for name in names))

    def resume(self) -> None:
        """Serve again what the records say."""
        assert self._broker is not None
        self._suspended = ""
        mine = [topic for topic, _, _ in self._tables.topics_of(self._me)]
        for topic in dict.fromkeys([*mine, *self._broker.names()]):
            self._settle(topic)

    # ---- watching the records ----

    async def start(self, broker: Broker) -> None:
        """Start watching; open the topics that this broker already owns."""
        self._broker = broker
        self._tables.owners.on_change(self._owner_changed)
        self._tables.brokers.on_change(self._broker_changed)
        for topic, _, _ in list(self._tables.topics_of(self._me)):
            self._settle(topic)

    async def stop(self) -> None:
        """Stop watching. Open topics stay open."""
        self._closed = True
        await stop_tasks(*self._busy.values())

    def _owner_changed(self, rest: str, owner: Owner | None) -> None:
        self._wake(rest)
        topic = assignments.topic_of(rest)
        mine = owner is not None and owner.broker == self._me
        if mine or (self._broker is not None and self._broker.is_loaded(topic)):
            self._settle(topic)

    def _broker_changed(self, rest: str, found: BrokerRecord | None) -> None:
        if found is not None:
            for path in list(self._waiting):
                self._wake(path)

    def _settle(self, topic: TopicName) -> None:
        """Open or close the topic as its record says, one step at a time per topic."""
        if self._closed or self._suspended:
            return
        if topic in self._busy:
            self._again.add(topic)
            return
        task = asyncio.create_task(self._bring_in_line(topic), name=f"settle {topic}")
        self._busy[topic] = task
        task.add_done_callback(lambda _: self._settled(topic))

    def _settled(self, topic: TopicName) -> None:
        del self._busy[topic]
        if topic in self._again:
            self._again.discard(topic)
            self._settle(topic)

    async def _bring_in_line(self, topic: TopicName) -> None:
        assert self._broker is not None
        while True:
            owner, revision = self._tables.owner_at(topic)
            try:
                if owner is None or owner.broker != self._me:
                    other = "nobody" if owner is None else owner.broker
                    await self._broker.unload(topic, Retriable(f"{topic} moved to {other}"))
                elif owner.to:
                    await self._hand_over(topic, owner, revision)
                else:
                    await self._open_some_time(topic)
            except NotFound:
                return  # deleted meanwhile
            except Refused as error:
                _log.error("cannot open %s: %s", topic, error)
                return
            except SulinaError as error:
                _log.warning("%s: %s", topic, error)
                await self._clock.sleep(_PAUSE)
                continue
            return

    async def _open_some_time(self, topic: TopicName) -> None:
        """Open a topic before it is used, so that retention applies to it.

        One at a time: a topic that is used is opened immediately, and must not wait for thousands
        of idle ones after the loss of a broker.
        """
        assert self._broker is not None
        async with self._opening:
            if not self._broker.is_loaded(topic):
                await self._clock.sleep(_IDLE_OPEN_SECONDS)
                await self._broker.topic(topic, create=False)

    async def _hand_over(self, topic: TopicName, owner: Owner, revision: int) -> None:
        assert self._broker is not None
        await self._broker.unload(topic, Retriable(f"{topic} moves to {owner.to}"))
        after = replace(
            owner,
            broker=owner.to,
            epoch=owner.epoch + 1,
            to="",
            since_us=self._clock.wall_us(),
        )
        change = Change(topic, owner, revision, after)
        try:
            if await assignments.change_all(self._store, (), [change]) is not None:
                self.moved_away += 1
        except UnknownOutcome as error:
            _log.info("the outcome of handing over %s is unknown: %s", topic, error)
