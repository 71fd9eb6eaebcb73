"""A simulated cluster with all its services: membership, election, ownership, the leader's tasks.

Clients know the names of the brokers and nothing else: they look topics up, and go where they are
sent. Topics are made while faults come and go.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from broker_containers.cluster.settings import ClusterSettings
from broker_containers.load.settings import BalanceSettings, RankingName
from sulina.metadata.keys.members import BrokerMode
from sulina.names import TopicName
from tests.simulation.clock import SimClock
from tests.simulation.cluster import Cluster, Shape
from tests.simulation.cluster_brokers import LASTING, ClusterBroker
from tests.simulation.cluster_checker import ClusterChecker
from tests.simulation.loop import Machine, SimLoop
from tests.simulation.network import Endpoint
from tests.simulation.switches import Switches
from tests.simulation.trace import Trace
from tests.simulation.workload import Consumer, within


@dataclass(frozen=True, slots=True)
class ClusterShape(Shape):
    """The same, and how the cluster's services are set."""

    lease_seconds: int
    moves_at_once: int
    rates: tuple[float, ...]
    """How fast each broker's clock goes."""

    @classmethod
    def of_cluster(cls, chance: Random) -> ClusterShape:
        brokers = chance.choice((3, 3, 4, 5))
        return cls(
            storages=chance.choice((3, 4)),
            brokers=brokers,
            topics=chance.choice((2, 3, 5)),
            producers=chance.choice((1, 1, 2)),
            frames=chance.choice((12, 20, 30)),
            write_quorum=3,
            ack_quorum=2,
            latency=chance.choice((0.0005, 0.002, 0.008)),
            roll_bytes=chance.choice((2_000, 1 << 20)),
            seconds=chance.choice((8.0, 12.0, 20.0)),
            cache_bytes=1 << 20,
            lease_seconds=chance.choice((2, 3)),
            moves_at_once=chance.choice((1, 64)),
            rates=tuple(chance.choice((1.0, 0.97, 1.03)) for _ in range(brokers)),
        )


class RedirectedConsumer(Consumer):
    """Stays where it is until the broker, or the connection, says otherwise."""

    async def _is_elsewhere(self, endpoint: Endpoint) -> bool:
        return False


class ClusterWorld(Cluster):
    """All machines of one run with cluster services."""

    shape: ClusterShape
    checker: ClusterChecker
    brokers: list[ClusterBroker]  # type: ignore[assignment]  # nobody adds others to it
    consumer = RedirectedConsumer

    def __init__(self, seed: int, loop: SimLoop, trace: Trace, switches: Switches) -> None:
        self._writers: dict[int, str] = {}
        loop.lasting = LASTING
        super().__init__(seed, loop, trace, switches)
        self._named = {broker.name: broker for broker in self.brokers}

    def _drawn(self) -> ClusterShape:
        return ClusterShape.of_cluster(self.chance)

    def _checker(self) -> ClusterChecker:
        return ClusterChecker(self.trace, self.topics, self._writers)

    def broker(self, name: str) -> ClusterBroker:
        broker = ClusterBroker(*self._parts(name))
        number = int(name.rpartition("-")[2])
        broker.clock = SimClock(self.loop, self.shape.rates[number])
        broker.find = lambda other: self._named[other].endpoint
        broker.cluster = ClusterSettings(
            lease_seconds=self.shape.lease_seconds,
            check_seconds=0.5,
            evaluate_seconds=0.5,
            report_seconds=1.0,
            rebalance_seconds=1.5,
            move_seconds=1.5,
            lookup_seconds=3.0,
            leave_seconds=3.0,
            moves_at_once=self.shape.moves_at_once,
            slow_seconds=0.7,
            abstain_seconds=2.0,
            balance=BalanceSettings(
                ranking=RankingName.SIMPLE,
                confirm_seconds=1.0,
                quiet=0.0,
                interval_seconds=2.0,
                load_per_interval=1.0,
                topic_cooldown_seconds=1.0,
                return_seconds=1.0,
                broker_cooldown_seconds=1.0,
                fresh_seconds=5.0,
                stale_seconds=10.0,
            ),
        )
        return broker

    async def _open_store(self) -> None:
        await super()._open_store()
        self.store.writers = self._writers

    async def find(self, topic: TopicName) -> Endpoint:
        """Ask any broker; sometimes a client goes by what it knew before."""
        asked = self.chance.choice(self.brokers)
        if self.confusion and self.chance.random() < self.confusion:
            return asked.endpoint
        connection = self.network.connect(self.clients, asked.endpoint)
        try:
            name: str = await within(
                6.0, connection, connection.request(lambda door: door.where(topic))
            )
        finally:
            connection.close()
        return self._named[name].endpoint

    # ---- the metadata store's process ----

    def kill_store(self) -> None:
        """It is gone; what it stored is not."""
        self.metadata_machine.kill()
        self.metadata.down()
        self.network.machine_died(self.metadata_machine)

    def start_store(self) -> None:
        """Start it again, unless it runs."""
        if self.metadata.machine is None:
            self.metadata_machine = Machine(self.loop, "metadata")
            self.metadata_machine.spawn(self._restart_store(), "restart")

    async def _restart_store(self) -> None:
        self.store = self.store.restarted()
        self._offer(self.store)

    # ---- checks ----

    def look(self) -> None:
        """What must hold at any moment of what brokers believe."""
        self.checker.check_paths()
        for broker in self.brokers:
            broker.look(self.store.leases)

    @property
    def settled(self) -> bool:
        return super().settled and not self._amiss()

    def unsettled(self) -> str:
        return "; ".join([*self._amiss(), super().unsettled()])

    def _amiss(self) -> list[str]:
        """What is not as it should be when all is healed and calm."""
        leading = [broker for broker in self.brokers if broker.term]
        amiss = []
        if len(leading) != 1 or leading[0].process != self.checker.leader:
            amiss.append(
                f"{[broker.process for broker in leading]} lead, the metadata says "
                f"{self.checker.leader or 'nobody'}"
            )
        for broker in self.brokers:
            life = self.checker.lives.get(broker.name)
            if not broker.running or life is None or not life.registered:
                amiss.append(f"{broker.name} is not there")
        for topic in self.topics:
            problem = self._amiss_with(topic)
            if problem:
                amiss.append(f"{topic.local} {problem}")
        return amiss

    def _amiss_with(self, topic: TopicName) -> str:
        found = self.checker.assignments[topic]
        if found.owner is None:
            return "has no owner"
        if found.wished:
            return "still wants an owner"
        if found.owner.to:
            return f"is on its way to {found.owner.to}"
        node = self._named[found.owner.broker].node
        if node is None:
            return f"is owned by {found.owner.broker}, which is not there"
        if node.tables.mode(found.owner.broker) is not BrokerMode.ACTIVE:
            return f"is owned by {found.owner.broker}, which is to be empty"
        for open_ in node.broker.loaded():
            if open_.name == topic:
                return "" if open_.log.usable else "has a log that can't be used"
        return f"is not open at {found.owner.broker}"
