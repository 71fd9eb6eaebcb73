"""A simulated cluster with all its services: membership, election, ownership, the leader's tasks.

Clients know only the names of the brokers: they look up topics and follow redirects. Topics are
created during the faults.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from broker_containers.cluster.settings import ClusterSettings
from broker_containers.load.settings import BalanceSettings, RankingName
from sulina.metadata.keys.members import BrokerMode
from sulina.names import TopicName
from tests.simulation.clock import SimClock
from tests.simulation.cluster import SimCluster, SimShape
from tests.simulation.cluster_brokers import LASTING, ClusterBroker
from tests.simulation.cluster_checker import ClusterChecker
from tests.simulation.loop import SimLoop, SimMachine
from tests.simulation.network import SimEndpoint
from tests.simulation.switches import Switches
from tests.simulation.trace import Trace
from tests.simulation.workload import SimConsumer, within


@dataclass(frozen=True, slots=True)
class ClusterShape(SimShape):
    """The shape of a cluster with services."""

    lease_seconds: int
    moves_at_once: int
    rates: tuple[float, ...]
    """The speed of each broker's clock."""

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


class RedirectedConsumer(SimConsumer):
    """Stays connected until the broker or the connection ends it."""

    async def _is_elsewhere(self, endpoint: SimEndpoint) -> bool:
        return False


class ClusterWorld(SimCluster):
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

    async def find(self, topic: TopicName) -> SimEndpoint:
        """Look up a topic at a random broker; sometimes use that broker without a lookup."""
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
        """Kill the store's process; its data is kept."""
        self.metadata_machine.kill()
        self.metadata.down()
        self.network.machine_died(self.metadata_machine)

    def start_store(self) -> None:
        """Start the store again, unless it runs."""
        if self.metadata.machine is None:
            self.metadata_machine = SimMachine(self.loop, "metadata")
            self.metadata_machine.spawn(self._restart_store(), "restart")

    async def _restart_store(self) -> None:
        self.store = self.store.restarted()
        self._offer(self.store)

    # ---- checks ----

    def look(self) -> None:
        """Check at every step what brokers believe."""
        self.checker.check_paths()
        for broker in self.brokers:
            broker.look(self.store.leases)

    @property
    def settled(self) -> bool:
        return super().settled and not self._problems()

    def unsettled(self) -> str:
        return "; ".join([*self._problems(), super().unsettled()])

    def _problems(self) -> list[str]:
        """What is wrong after all faults have ended."""
        leading = [broker for broker in self.brokers if broker.term]
        problems = []
        if len(leading) != 1 or leading[0].process != self.checker.leader:
            problems.append(
                f"{[broker.process for broker in leading]} lead, the metadata says "
                f"{self.checker.leader or 'nobody'}"
            )
        for broker in self.brokers:
            registration = self.checker.registrations.get(broker.name)
            if not broker.running or registration is None or not registration.registered:
                problems.append(f"{broker.name} is not registered")
        missing = LASTING - self.loop.task_names()
        problems += [f"the task {name!r} does not run" for name in sorted(missing)]
        for topic in self.topics:
            problem = self._problem_of(topic)
            if problem:
                problems.append(f"{topic.local} {problem}")
        return problems

    def _problem_of(self, topic: TopicName) -> str:
        found = self.checker.assignments[topic]
        if found.owner is None:
            return "has no owner"
        if found.wished:
            return "is still marked as unassigned"
        if found.owner.to:
            return f"is still moving to {found.owner.to}"
        node = self._named[found.owner.broker].node
        if node is None:
            return f"is owned by {found.owner.broker}, which is down"
        if node.tables.mode(found.owner.broker) is not BrokerMode.ACTIVE:
            return f"is owned by {found.owner.broker}, which is being drained"
        for open_ in node.broker.loaded():
            if open_.name == topic:
                return "" if open_.log.usable else "has a failed log"
        return f"is not open at {found.owner.broker}"
