"""A simulated cluster: storage nodes, brokers, metadata, clients, all drawn from one seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from broker_containers.broker.settings import BrokerSettings
from broker_containers.topic_log.ledger_settings import LedgerSettings
from storage_grpc.quorum.settings import QuorumSettings
from sulina.errors import SulinaError
from sulina.model import SubscriptionType
from sulina.names import TopicName
from tests.simulation.brokers import SimBroker
from tests.simulation.checker import Checker
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, SimMachine
from tests.simulation.metadata import MetadataService, WatchedStore
from tests.simulation.network import SimEndpoint, SimNetwork
from tests.simulation.storage import SimStorage
from tests.simulation.switches import Switches
from tests.simulation.trace import Trace, Violation
from tests.simulation.workload import SimConsumer, SimProducer

_Parts = tuple[
    str,
    SimLoop,
    SimNetwork,
    SimEndpoint,
    list[SimStorage],
    Random,
    Checker,
    QuorumSettings,
    BrokerSettings,
]
"""The arguments of a broker."""


@dataclass(frozen=True, slots=True)
class SimShape:
    """Size of a cluster and duration of its faults; drawn from the seed."""

    storages: int
    brokers: int
    topics: int
    producers: int
    frames: int
    write_quorum: int
    ack_quorum: int
    latency: float
    roll_bytes: int
    seconds: float
    cache_bytes: int

    @classmethod
    def drawn(cls, chance: Random) -> SimShape:
        write, ack = chance.choice(((3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (3, 3), (4, 3), (5, 3)))
        return cls(
            storages=max(write, chance.choice((3, 4, 4, 5))),
            brokers=chance.choice((2, 3)),
            topics=chance.choice((1, 1, 2)),
            producers=chance.choice((1, 2, 2, 3)),
            frames=chance.choice((40, 70, 100)),
            write_quorum=write,
            ack_quorum=ack,
            latency=chance.choice((0.0005, 0.002, 0.008)),
            roll_bytes=chance.choice((2_000, 8_000, 1 << 20)),
            seconds=chance.choice((6.0, 12.0, 20.0)),
            cache_bytes=chance.choice((3_000, 1 << 20)),
        )


class SimCluster:
    """All machines of one run."""

    consumer = SimConsumer

    def __init__(self, seed: int, loop: SimLoop, trace: Trace, switches: Switches) -> None:
        self.loop = loop
        self.trace = trace
        self.switches = switches
        self._seed = seed
        self.chance = Random(f"{seed}/cluster")
        self.shape = shape = self._drawn()
        trace.note(f"seed {seed} {shape}")
        self.network = SimNetwork(loop, Random(f"{seed}/network"), shape.latency)
        self.topics = [TopicName.parse(f"/default/t{n}") for n in range(shape.topics)]
        self.checker = self._checker()
        self.metadata = SimEndpoint("metadata")
        self.metadata_machine = SimMachine(loop, "metadata")
        self.store: WatchedStore
        self.storages = [self._storage(n) for n in range(shape.storages)]
        self._quorum = QuorumSettings(write_quorum=shape.write_quorum, ack_quorum=shape.ack_quorum)
        self.brokers = [self.broker(f"broker-{n}") for n in range(shape.brokers)]
        self.owners = dict.fromkeys(self.topics, self.brokers[0])
        """The supposed owner of each topic: where clients go."""
        self.confusion = 0.0
        """How often clients go to a random broker instead."""
        self.clients = SimMachine(loop, "clients")
        self.producers: list[SimProducer] = []
        self.consumers: list[SimConsumer] = []
        self._add_clients()

    def _drawn(self) -> SimShape:
        return SimShape.drawn(self.chance)

    def _checker(self) -> Checker:
        return Checker(self.trace, self.topics)

    def _storage(self, number: int) -> SimStorage:
        name = f"storage-{number}"
        chance = Random(f"{self._seed}/{name}")
        return SimStorage(
            name, self.loop, self.network, chance, self.switches, self.checker.node_stored
        )

    def broker(self, name: str) -> SimBroker:
        """A broker, not started."""
        return self.lone_broker(name)

    def _settings(self, name: str) -> BrokerSettings:
        return BrokerSettings(
            broker_id=name,
            cache_bytes=self.shape.cache_bytes,
            cursor_flush_seconds=0.25,
            ledger=LedgerSettings(roll_bytes=self.shape.roll_bytes, roll_seconds=8.0),
        )

    def lone_broker(self, name: str) -> SimBroker:
        """A broker that takes over every requested topic."""
        return SimBroker(*self._parts(name))

    def _parts(self, name: str) -> _Parts:
        return (
            name,
            self.loop,
            self.network,
            self.metadata,
            self.storages,
            Random(f"{self._seed}/{name}"),
            self.checker,
            self._quorum,
            self._settings(name),
        )

    def _add_clients(self) -> None:
        kinds = list(SubscriptionType)
        for topic in self.topics:
            for number in range(self.shape.producers):
                name = f"p{number}"
                chance = Random(f"{self._seed}/{topic}/{name}")
                self.producers.append(
                    SimProducer(
                        name, topic, self.clients, self.network, self.find, chance, self.checker
                    )
                )
            type_ = self.chance.choice(kinds)
            count = 1 if type_ is SubscriptionType.EXCLUSIVE else 2
            for number in range(count):
                name = f"c{number}"
                chance = Random(f"{self._seed}/{topic}/{name}")
                self.consumers.append(
                    self.consumer(
                        name,
                        topic,
                        "s",
                        type_,
                        self.clients,
                        self.network,
                        self.find,
                        chance,
                        self.checker,
                    )
                )

    async def find(self, topic: TopicName) -> SimEndpoint:
        """The supposed owner."""
        if self.confusion and self.chance.random() < self.confusion:
            return self.chance.choice(self.brokers).endpoint
        return self.owners[topic].endpoint

    async def start(self) -> None:
        """Start all machines and clients."""
        await self._open_store()
        for storage in self.storages:
            storage.start()
        for broker in self.brokers:
            broker.start()
        clock = SimClock(self.loop)
        while not all(s.up for s in self.storages) or not all(b.broker for b in self.brokers):
            await clock.sleep(0.01)
            for error in self.loop.errors:
                raise Violation(f"the cluster does not start: {error}")
        for producer in self.producers:
            producer.plan(self.shape.frames, clock.now(), clock.now() + self.shape.seconds)
            self.clients.spawn(producer.run(), producer.name)
        for consumer in self.consumers:
            self.clients.spawn(consumer.run(), consumer.name)

    async def _open_store(self) -> None:
        self.store = await WatchedStore.open(SimClock(self.loop))
        self.store.changed = self.checker.metadata_changed
        self._offer(self.store)

    def _offer(self, store: WatchedStore) -> None:
        chance = Random(f"{self._seed}/metadata")
        service = MetadataService(store, self.switches, chance)
        self.metadata.up(self.metadata_machine, service)

    def look(self) -> None:
        """Check internal state; called at every step."""

    # ---- the end ----

    @property
    def settled(self) -> bool:
        """Whether everything is published, and durably acknowledged by consumers."""
        if not all(producer.done for producer in self.producers):
            return False
        for topic in self.topics:
            model = self.checker.topics[topic]
            end = max(model.content, default=-1) + 1
            if end and ("s" not in model.cursors or model.cursors["s"].position < end):
                return False
        return True

    def unsettled(self) -> str:
        """What is missing, as text."""
        missing = [
            f"{p.topic.local}/{p.name} has unpublished frames" for p in self.producers if not p.done
        ]
        for topic in self.topics:
            model = self.checker.topics[topic]
            cursor = model.cursors.get("s")
            missing.append(
                f"{topic.local} ends at {max(model.content, default=-1) + 1}, cursor {cursor}"
            )
        return "; ".join(missing)

    async def audit(self) -> None:
        """Have a new broker take over every topic and read all of it."""
        auditor = self.lone_broker("auditor")
        auditor.start()
        clock = SimClock(self.loop)
        while auditor.broker is None:
            await clock.sleep(0.05)
        assert auditor.machine is not None
        for topic in self.topics:
            await auditor.machine.spawn(self._audit(auditor, topic), "audit")

    async def _audit(self, auditor: SimBroker, topic: TopicName) -> None:
        assert auditor.broker is not None
        frames: list[bytes] = []
        for _ in range(30):
            try:
                log = (await auditor.broker.topic(topic)).log
                frames = []
                reader = log.reader(0)
                while found := await reader.read(1 << 20):
                    frames += [bytes(frame.data) for frame in found]
                break
            except SulinaError as error:
                problem = error
                await auditor.clock.sleep(0.5)
        else:
            self.checker.fail(f"{topic} can't be read at the end: {problem}")
            return
        self.checker.final(topic, frames)
