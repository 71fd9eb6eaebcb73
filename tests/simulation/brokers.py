"""Simulated brokers: the real broker, and a door for simulated clients.

A broker takes over every topic that a client requests, whoever owned it before, and considers
itself the owner until its log fails. Then the door unloads the topic and opens it again at the next
request.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from random import Random
from zlib import crc32

from broker_containers.broker.broker import Broker
from broker_containers.broker.settings import BrokerSettings
from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topic_log.tail_cache import CachedFrame
from broker_containers.topics.producers import TopicProducer
from broker_containers.topics.topic import Topic
from storage_grpc.ledgers import LedgerWriter
from storage_grpc.outcomes import Done, future_of
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.settings import QuorumSettings, QuorumTimeouts
from storage_grpc.tier.tier import Tier
from sulina.errors import Refused, Retriable, SulinaError
from sulina.metadata.keys import ledgers
from sulina.model import FailurePolicy, Start, SubscriptionType
from sulina.names import TopicName
from sulina.runtime.seam import Buffer, Clock
from sulina.wire.header import check_frame
from tests.simulation.checker import Checker
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, SimMachine
from tests.simulation.metadata import SimMetadata
from tests.simulation.network import SimConnection, SimEndpoint, SimNetwork
from tests.simulation.storage import SimNodes, SimStorage

_TIMEOUTS = QuorumTimeouts(append=0.5, call=0.5, hedge=0.05, stall=3.0, retry=0.1)


class WatchedLedgers(QuorumLedgers):
    """The real ledgers; they report confirmed entries to the checker."""

    checker: Checker
    owner: str

    async def create(self, ledger: int) -> LedgerWriter:  # type: ignore[override]
        return WatchedWriter(await super().create(ledger), self)


class WatchedWriter:
    """A ``LedgerWriter`` that reports confirmed entries to the checker."""

    def __init__(self, writer: LedgerWriter, ledgers: WatchedLedgers) -> None:
        self._writer = writer
        self._ledgers = ledgers
        self._next = 0

    @property
    def ledger(self) -> int:
        return self._writer.ledger

    @property
    def lac(self) -> int:
        return self._writer.lac

    @property
    def wants_roll(self) -> bool:
        return self._writer.wants_roll

    def append(self, payload: Buffer) -> asyncio.Future[None]:
        return future_of(partial(self.submit, payload))

    def submit(self, payload: Buffer, done: Done) -> None:
        entry = self._next
        self._next += 1
        watching = self._ledgers
        newest = watching.checker.appending(self.ledger)
        watching.checker.sent(self.ledger, entry, payload)

        def confirmed(error: SulinaError | None) -> None:
            if error is None:
                watching.checker.in_time(watching.owner, self.ledger, payload, newest)
                watching.checker.confirmed(watching.owner, self.ledger, entry, payload)
            done(error)

        self._writer.submit(payload, confirmed)

    async def close(self) -> int:
        return await self._writer.close()


class SimBroker:
    """One broker: a name, and its process while it runs."""

    def __init__(
        self,
        name: str,
        loop: SimLoop,
        network: SimNetwork,
        metadata: SimEndpoint,
        storages: list[SimStorage],
        chance: Random,
        checker: Checker,
        quorum: QuorumSettings,
        settings: BrokerSettings,
    ) -> None:
        self.name = name
        self.endpoint = SimEndpoint(name)
        self.machine: SimMachine | None = None
        self.clock = SimClock(loop)
        self.broker: Broker | None = None
        self._loop = loop
        self._network = network
        self._metadata = metadata
        self._storages = storages
        self._chance = chance
        self._checker = checker
        self._quorum = quorum
        self._settings = settings
        self._starts = 0

    def start(self) -> None:
        assert self.machine is None
        self._starts += 1
        self.clock.forget()
        self.machine = machine = SimMachine(self._loop, self.name, self.clock.rate)
        machine.spawn(self._serve(machine), "start")

    @property
    def process(self) -> str:
        """A name that no earlier or later process has."""
        return f"{self.name}.{self._starts}"

    def _store(self, machine: SimMachine, *, watches_resume: bool = True) -> SimMetadata:
        return SimMetadata(
            self._network,
            machine,
            self._metadata,
            self._checker.fail,
            self.clock,
            self.process,
            watches_resume=watches_resume,
        )

    def _ledgers(self, machine: SimMachine, store: SimMetadata) -> WatchedLedgers:
        nodes = SimNodes(self._network, machine, self._storages, self._chance)
        # One node is in this broker's zone, and is asked first, whatever happens to it.
        own = self._storages[crc32(self.name.encode()) % len(self._storages)]
        watched = WatchedLedgers(
            nodes, store, self.clock, self._quorum, _TIMEOUTS, lambda member: member == own.member
        )
        watched.checker = self._checker
        watched.owner = self.process
        return watched

    def _tier(self, machine: SimMachine, ledgers: WatchedLedgers) -> Tier | None:
        """The cold tier of a process, if it has one."""
        return None

    async def _serve(self, machine: SimMachine) -> None:
        store = self._store(machine)
        ledgers = self._ledgers(machine, store)
        tier = self._tier(machine, ledgers)
        broker = Broker(ledgers, store, self.clock, self._settings, tier=tier)
        while True:
            try:
                await broker.__aenter__()
                break
            except SulinaError:
                await self.clock.sleep(0.2)
        self.broker = broker
        door = self._door(broker)
        self.endpoint.up(machine, door)
        await door.unload_lost(self._chance.choice((0.3, 1.0, 3.0)))

    def _door(self, broker: Broker) -> SimDoor:
        """What clients of a process call."""
        return SimDoor(broker)

    def kill(self) -> None:
        """Kill the process."""
        if self.machine is not None:
            self.machine.kill()
            self.endpoint.down()
            self._network.machine_died(self.machine)
            self.machine = self.broker = None


class SimDoor:
    """The calls of clients to a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._opening: dict[TopicName, asyncio.Lock] = {}

    async def _topic(self, name: TopicName) -> Topic:
        async with self._opening.setdefault(name, asyncio.Lock()):
            topic = await self._broker.topic(name)
            if not topic.log.usable:
                await self._unload(name)
                topic = await self._broker.topic(name)
            return topic

    async def open(self, name: TopicName) -> None:
        """Take over a topic without a request, even if it is open here."""
        async with self._opening.setdefault(name, asyncio.Lock()):
            await self._unload(name)
            await self._broker.topic(name)

    async def _unload(self, name: TopicName) -> None:
        await self._broker.unload(name, Retriable(f"{name} is no longer served here"))

    async def unload_lost(self, seconds: float) -> None:
        """Unload topics that other brokers took over, which a broker detects late."""
        while True:
            await self._broker.clock.sleep(seconds)
            for topic in list(self._broker.loaded()):
                log = topic.log
                assert isinstance(log, ManagedLedger)
                with suppress(SulinaError):
                    current = await ledgers.get(self._broker.store, topic.name)
                    if current.list.epoch != log.epoch and topic in self._broker.loaded():
                        async with self._opening.setdefault(topic.name, asyncio.Lock()):
                            await self._unload(topic.name)

    async def attach(self, name: TopicName, producer: str, connection: SimConnection) -> SimSession:
        topic = await self._topic(name)
        session = SimSession(topic)
        session.producer = await topic.attach(producer, session, exclusive=False)
        connection.on_server_side_end.append(session.detach)
        return session

    def publish(self, session: SimSession, number: int, frame: bytes) -> asyncio.Future[int]:
        return session.publish(number, frame)

    async def subscribe(
        self,
        name: TopicName,
        subscription: str,
        type_: SubscriptionType,
        consumer: SimConsumerEnd,
    ) -> SimConsumerEnd:
        topic = await self._topic(name)
        policy = FailurePolicy(
            ack_timeout_ms=1500,
            base_redelivery_delay_ms=100,
            max_redelivery_delay_ms=500,
        )
        found = await self._broker.subscriptions.subscribe(
            topic, subscription, type_, Start.earliest(), policy
        )
        if topic not in self._broker.loaded():
            raise Retriable(f"{name} was unloaded while the consumer subscribed")
        consumer.subscription = found
        consumer.clock = self._broker.clock
        consumer.member = found.join(consumer.name, consumer, (), 0)
        found.grant(consumer.member, 50, 1 << 20)
        consumer.connection.on_server_side_end.append(consumer.leave)
        return consumer

    async def took(self, consumer: SimConsumerEnd, records: int, size: int) -> None:
        if consumer.member is not None and consumer.subscription is not None:
            consumer.subscription.grant(consumer.member, records, size)

    async def ack(self, consumer: SimConsumerEnd, offsets: list[int]) -> None:
        if consumer.member is not None and consumer.subscription is not None:
            for offset in offsets:
                consumer.subscription.ack(consumer.member, offset, offset, None)


class SimSession:
    """The broker's end of a producer's connection."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.producer: TopicProducer | None = None
        self._open = True
        self._waiting: dict[int, asyncio.Future[int]] = {}

    def publish(self, number: int, frame: bytes) -> asyncio.Future[int]:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self.producer is None or not self._open:
            done.set_exception(Refused("the producer was closed"))
            return done
        self._waiting[number] = done
        data = memoryview(bytearray(frame))
        self._topic.publish(self.producer, number, data, check_frame(data))
        return done

    def published(self, first_number: int, base_offsets: list[int]) -> None:
        for step, offset in enumerate(base_offsets):
            waiting = self._waiting.pop(first_number + step)
            if not waiting.done():
                waiting.set_result(offset)

    def publish_failed(self, number: int, error: SulinaError) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)

    def closed(self, reason: SulinaError) -> None:
        self._open = False

    def detach(self) -> None:
        self._open = False
        if self.producer is not None:
            self._topic.detach(self.producer)


class SimConsumerEnd:
    """The broker's end of a consumer's connection."""

    def __init__(self, name: str, connection: SimConnection, client: ConsumerClient) -> None:
        self.name = name
        self.connection = connection
        self.subscription: Subscription | None = None
        self.member: AttachedConsumer | None = None
        self.clock: Clock | None = None
        self._client = client

    def deliver(self, frame: CachedFrame, chosen: int | None, attempt: int) -> bool:
        assert isinstance(self.clock, SimClock)
        self._client.handed_over(frame.data, self.clock.latest_us)
        self._client.sending(self, frame, chosen)
        self.connection.push(self._client.got, self, bytes(frame.data), chosen)
        return True

    def active_changed(self, active: bool) -> None:
        """Nothing to do."""

    def closed(self, reason: Exception) -> None:
        self.member = None
        self.connection.push(self._client.ended, self)

    def leave(self) -> None:
        if self.subscription is not None and self.member is not None:
            member, self.member = self.member, None
            self.subscription.leave(member)


class ConsumerClient:
    """What a client receives over a consumer's connection."""

    def handed_over(self, frame: Buffer, latest_us: int) -> None:
        """A broker sends a delivery; its clock has shown at most ``latest_us``."""

    def sending(self, end: SimConsumerEnd, frame: CachedFrame, chosen: int | None) -> None:
        """A broker sends a delivery; called at its end, before the network."""

    def got(self, end: SimConsumerEnd, frame: bytes, chosen: int | None) -> None:
        """A delivery."""

    def ended(self, end: SimConsumerEnd) -> None:
        """The broker closed the consumer."""
