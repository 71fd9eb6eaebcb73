"""A simulated cluster in which a second takes days: records expire, are removed, compacted, erased.

Clocks on the wall run fast, everything else as always: so years pass within the run of a seed, with
the faults of the other modes. A topic has policies that operators change, undo and erase; readers
read it from the start all the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from random import Random

from broker_containers.broker.broker import Broker
from broker_containers.broker.settings import BrokerSettings
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.tiering import untiered
from sulina.errors import NotFound, SulinaError
from sulina.metadata.keys import topics
from sulina.metadata.keys.policy import Policy
from sulina.model import SubscriptionType
from sulina.names import TopicName
from tests.simulation.brokers import SimBroker, SimDoor
from tests.simulation.clock import EPOCH_US, SimClock
from tests.simulation.cluster import SimCluster, SimShape
from tests.simulation.life_checker import LifeChecker
from tests.simulation.life_model import CLOCK_SKEW
from tests.simulation.life_workload import (
    LifeConsumer,
    LifeOperator,
    LifeProducer,
    LifeReader,
    ReadAnswer,
)
from tests.simulation.loop import SimLoop
from tests.simulation.switches import Switches
from tests.simulation.tier_world import TierBroker, TierFaults, TierWorld
from tests.simulation.trace import Trace

DAY = 86_400
_REFRESH_SECONDS = 0.2
_UPLOAD_SECONDS = 40.0
"""Longer than any upload takes, of the machine: its wall clock is much faster than uploads are."""
_LAST_SECONDS = 16.0
"""At the end, how long to wait until everything that is to go has gone."""


class LifeDoor(SimDoor):
    """Also what operators and readers ask for."""

    async def set_policy(self, name: TopicName, policy: Policy) -> None:
        topic = await self._topic(name)
        await topics.update_policy(self._broker.store, name, asdict(policy))
        topic.policy = policy

    async def undo(self, name: TopicName) -> int:
        return await self._broker.retention.restore(await self._topic(name))

    async def erase(self, name: TopicName, digests: Sequence[str]) -> int:
        return (await self._broker.erasing.request(await self._topic(name), digests)).id

    async def erasure(self, name: TopicName, number: int) -> tuple[str, int, int]:
        log = (await self._topic(name)).log
        assert isinstance(log, ManagedLedger)
        for found in await self._broker.erasing.known(name):
            if found.id == number:
                return str(found.state), found.until, log.epoch
        raise NotFound(f"there is no erasure {number}")

    async def read(self, name: TopicName, offset: int, size: int) -> ReadAnswer:
        log = (await self._topic(name)).log
        assert isinstance(log, ManagedLedger)
        frames = await log.reader(offset).read(size)
        following = frames[-1].header.next_offset if frames else log.end
        data = [bytes(frame.data) for frame in frames]
        return ReadAnswer(data, log.start, following, log.epoch, following >= log.end)

    async def refresh(self) -> None:
        """Bring policies up to date, as the metadata caches of a cluster do."""
        while True:
            await self._broker.clock.sleep(_REFRESH_SECONDS)
            with suppress(SulinaError):
                await self._broker.refresh_policies()


class LifeBroker(TierBroker):
    """A broker whose clock the checker knows."""

    days: int
    _checker: LifeChecker

    def start(self) -> None:
        self._checker.latest()  # before the new process forgets what the clock has shown
        super().start()

    def _door(self, broker: Broker) -> SimDoor:
        door = LifeDoor(broker)
        broker.object_cleanup.grace_seconds = _UPLOAD_SECONDS * self.days * DAY
        assert self.machine is not None
        self.machine.spawn(door.refresh(), "refresh")
        return door


class LifeWorld(TierWorld):
    """All machines of one run in which time flies."""

    checker: LifeChecker
    consumer = LifeConsumer

    def __init__(self, seed: int, loop: SimLoop, trace: Trace, switches: Switches) -> None:
        self._life_chance = chance = Random(f"{seed}/life")
        self.days = chance.choice((5, 20, 60))
        """How many days pass in a second."""
        loop.calendar = float(self.days * DAY)
        self._loop = loop
        self._seen_us = 0
        self._grace = self._wall((0.0, 1.0, 5.0))
        self._replaced = self._wall((0.3, 1.5))
        self._local = self._wall((0.0, 0.5, 2.0))
        self._hot_grace = self._wall((0.0, 0.0, 1.0))
        self._look_seconds = chance.choice((0.2, 1.5))
        self._policies = [self._policy() for _ in range(3)]
        super().__init__(seed, loop, trace, switches)
        self._tiering = replace(
            self._tiering,
            after_seconds=chance.choice((0.5, 2.0)),
            compact_percent=chance.choice((1, 50)),
            compact_bytes=chance.choice((1_500, 1 << 20)),
            grace_seconds=self._grace,
            tables_seconds=0.0,  # of the machine, which is not as fast as its wall clock
            replaced_seconds=self._replaced,
            local_seconds=self._local,
        )
        for broker in self.brokers:
            broker._settings = self._settings(broker.name)
        self.checker.now = loop.time
        self.checker.latest = self._latest_us
        self.checker.grace = self._hot_grace, self._grace
        self.operators = [self._operator(topic) for topic in self.topics]
        self.readers = [self._reader(topic) for topic in self.topics]

    def _wall(self, seconds: Sequence[float]) -> float:
        return self._life_chance.choice(seconds) * self.days * DAY

    def _policy(self) -> Policy:
        chance = self._life_chance

        def some(ms: Sequence[float]) -> int:
            return int(chance.choice(ms) * self.days * DAY * 1000)

        retention_ms = some((0, 2, 5))
        ttl_ms, local_ms = some((0, 0, 1, 3)), some((0, 0.3, 1.5))
        size = chance.choice((0, 0, 6_000, 15_000))
        return Policy(
            retention_ms=retention_ms,
            retention_bytes=size,
            delete_consumed=chance.random() < 0.3,
            ttl_ms=min(ttl_ms, retention_ms) if retention_ms else ttl_ms,
            local_retention_ms=min(local_ms, retention_ms) if retention_ms else local_ms,
            local_retention_bytes=chance.choice((0, 2_000)),
            local_delete_consumed=chance.random() < 0.3,
            compact=chance.random() < 0.7,
            tombstone_retention_ms=some((0.6, 3.0)),
        )

    def _drawn(self) -> SimShape:
        shape = super()._drawn()
        return replace(shape, roll_bytes=self.chance.choice((1_000, 3_000)), frames=40, producers=2)

    def _checker(self) -> LifeChecker:
        skew_us = int(CLOCK_SKEW * self.days * DAY * 1e6)
        return LifeChecker(self.trace, self.topics, self._local, skew_us)

    def _settings(self, name: str) -> BrokerSettings:
        settings = super()._settings(name)
        return replace(
            settings,
            retention_seconds=self._look_seconds,
            grace_seconds=self._hot_grace,
            ledger=replace(settings.ledger, roll_seconds=2.0),
        )

    def lone_broker(self, name: str) -> SimBroker:
        broker = LifeBroker(*self._parts(name))
        broker.days = self.days
        broker.objects = self.objects
        broker.row_group_bytes = self._row_group_bytes
        return broker

    def _latest_us(self) -> int:
        true_us = EPOCH_US + int(self._loop.time() * self._loop.calendar * 1e6)
        shown = (broker.clock.latest_us for broker in self.brokers)
        self._seen_us = max(self._seen_us, true_us, *shown)
        return self._seen_us

    # ---- clients ----

    def _add_clients(self) -> None:
        for topic in self.topics:
            for number in range(self.shape.producers):
                chance = Random(f"{self._seed}/{topic}/p{number}")
                parts = topic, self.clients, self.network, self.find, chance, self.checker
                self.producers.append(LifeProducer(f"p{number}", *parts))
            for subscription in ("s", "other")[: self.chance.choice((1, 2))]:
                chance = Random(f"{self._seed}/{topic}/{subscription}")
                type_ = self.chance.choice(list(SubscriptionType))
                self.consumers.append(
                    LifeConsumer(
                        f"c-{subscription}",
                        topic,
                        subscription,
                        type_,
                        self.clients,
                        self.network,
                        self.find,
                        chance,
                        self.checker,
                    )
                )

    def _operator(self, topic: TopicName) -> LifeOperator:
        chance = Random(f"{self._seed}/{topic}/operator")
        parts = topic, self.clients, self.network, self.find, chance, self.checker
        return LifeOperator(*parts, policies=self._policies)

    def _reader(self, topic: TopicName) -> LifeReader:
        chance = Random(f"{self._seed}/{topic}/reader")
        return LifeReader(topic, self.clients, self.network, self.find, chance, self.checker)

    async def start(self) -> None:
        for life in self.checker.lives.values():
            life.set_policy(Policy(), self.loop.time())
        await super().start()
        for operator, reader in zip(self.operators, self.readers, strict=True):
            self.clients.spawn(self._operate(operator), "operator")
            self.clients.spawn(reader.run(), "reader")

    async def _operate(self, operator: LifeOperator) -> None:
        await operator.start()
        await operator.run(self.loop.time() + self.shape.seconds)

    def look(self) -> None:
        super().look()
        self._latest_us()

    # ---- the end ----

    @property
    def settled(self) -> bool:
        if any(operator.busy for operator in self.operators):
            return False
        return super().settled

    async def audit(self) -> None:
        await SimClock(self.loop).sleep(_LAST_SECONDS)
        for topic in self.topics:
            await self._flush(topic)
        self.checker.left_behind()
        for broker in self.brokers:
            if broker.machine is not None and broker.broker is not None:
                await broker.machine.spawn(self._clean_up(broker.broker), "clean up")
        for topic in self.topics:
            self.checker.nowhere(topic)
        self.checker.check()
        await SimCluster.audit(self)

    async def _clean_up(self, broker: Broker) -> None:
        """Delete what was noted for deletion, as if the time for late uploads were over."""
        broker.object_cleanup.grace_seconds = 0
        await broker.object_cleanup.round()

    def _is_flushed(self, log: ManagedLedger) -> bool:
        """Policies may keep entries beside objects."""
        return not untiered(log.refs) and not log.replacement


class LifeFaults(TierFaults):
    """The same faults; clocks jump by days."""

    _world: LifeWorld

    async def _clock_jump(self) -> None:
        broker = self._broker()
        day_us = DAY * 1_000_000
        broker.clock.jump(int(self._chance.uniform(-0.2, 0.2) * self._world.days * day_us))
