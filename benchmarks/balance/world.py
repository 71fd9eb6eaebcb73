"""Simulated brokers: their true load, and what they report.

A broker's CPU use follows from the work of its topics and the slowness of its machine; its reports
are noisy, and may be lost or late. The simulation sets the time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from benchmarks.balance.workload import RECORD_BYTES, BalanceWorkload
from broker_containers.load.report import BYTES_A_RECORD, LoadReport, TopicLoad
from broker_containers.load.view import Balance, BrokerInfo, BrokerLoad, balance_of
from sulina.runtime.resources import Resources, Usage

CORES = 4.0
NETWORK = 1.25e9
MEMORY = Usage(2e9, 8e9)


@dataclass(frozen=True, slots=True)
class Trouble:
    """How unreliable reports are."""

    noise: float = 0.05
    """Standard deviation of a reported rate, relative to the true one."""
    lost: float = 0.0
    """Probability that a report is lost."""
    late: float = 0.0
    """Probability that it arrives one interval late."""


@dataclass(slots=True)
class SimulatedBroker:
    """A simulated broker."""

    id: str
    topics: list[str] = field(default_factory=list)
    slowness: float = 1.0
    """How many times more CPU the same work takes."""


class SimulatedCluster:
    """Brokers, topics and their owners."""

    def __init__(
        self,
        workload: BalanceWorkload,
        brokers: int,
        *,
        utilisation: float,
        trouble: Trouble,
        chance: random.Random,
    ) -> None:
        """Topics start on random brokers; their mean CPU use is ``utilisation``."""
        self.workload = workload
        self.trouble = trouble
        self._chance = chance
        self.brokers = {f"broker-{number:05d}": SimulatedBroker(f"broker-{number:05d}")
                        for number in range(brokers)}  # fmt: skip
        self._next = brokers
        names = list(self.brokers)
        for topic in workload.topics:
            self.brokers[chance.choice(names)].topics.append(topic)
        self.rates = workload.rates(0.0)
        # Work per published record, for each topic.
        self._work = {
            name: (1 + one.fan_out) * (1 + RECORD_BYTES / BYTES_A_RECORD)
            for name, one in workload.topics.items()
        }
        total = sum(self.rates[name] * work for name, work in self._work.items())
        self._cores_a_work = utilisation * CORES * brokers / total
        self._late: list[LoadReport] = []

    def infos(self) -> list[BrokerInfo]:
        """The registered brokers."""
        return [BrokerInfo(name) for name in self.brokers]

    def assignment(self) -> dict[str, list[str]]:
        """Each broker's topics."""
        return {name: broker.topics for name, broker in self.brokers.items()}

    def join(self) -> str:
        """A new, empty broker."""
        name = f"broker-{self._next:05d}"
        self._next += 1
        self.brokers[name] = SimulatedBroker(name)
        return name

    def die(self, name: str) -> list[str]:
        """Remove the broker; returns its topics."""
        return self.brokers.pop(name).topics

    def move(self, moves: list[tuple[str, str, str]]) -> None:
        """Carry out (topic, source, target)."""
        leaving: dict[str, set[str]] = {}
        for topic, source, target in moves:
            leaving.setdefault(source, set()).add(topic)
            self.brokers[target].topics.append(topic)
        for source, topics in leaving.items():
            broker = self.brokers[source]
            broker.topics = [topic for topic in broker.topics if topic not in topics]

    def step(self, now: float) -> None:
        """Set the load to that of ``now``."""
        self.rates = self.workload.rates(now)

    def cost(self, topic: str) -> float:
        """The true share of a healthy broker's capacity that ``topic`` uses."""
        return self.rates[topic] * self._work[topic] * self._cores_a_work / CORES

    def truth(self) -> Balance:
        """The balance of the true load."""
        rates, work = self.rates, self._work
        scale = self._cores_a_work / CORES
        return balance_of(
            BrokerLoad(
                one.id,
                one.topics,
                [scale * rates[name] * work[name] for name in one.topics],
                factor=one.slowness,
            )
            for one in self.brokers.values()
        )

    def reports(self, now: float) -> list[LoadReport]:
        """The reports that arrive at ``now``."""
        arrived, self._late = self._late, []
        for broker in self.brokers.values():
            fate = self._chance.random()
            if fate < self.trouble.lost:
                continue
            report = self._report(broker, now)
            if fate < self.trouble.lost + self.trouble.late:
                self._late.append(report)
            else:
                arrived.append(report)
        return arrived

    def _report(self, broker: SimulatedBroker, now: float) -> LoadReport:
        gauss, noise = self._chance.gauss, self.trouble.noise
        topics = self.workload.topics
        loads: list[TopicLoad] = []
        work = received = sent = 0.0
        for name in broker.topics:
            rate = self.rates[name] * max(0.0, gauss(1.0, noise)) if noise else self.rates[name]
            out = rate * topics[name].fan_out
            work += rate * self._work[name]
            received += rate
            sent += out
            fan_out = topics[name].fan_out
            loads.append(
                TopicLoad(name, rate, rate * RECORD_BYTES, out, out * RECORD_BYTES, 1, fan_out)
            )
        busy = work * self._cores_a_work * broker.slowness
        used = min(busy, CORES)
        # Like a queue: latency grows as capacity runs out, and with a slower machine.
        latency = 2.0 * broker.slowness / max(0.02, 1 - busy / CORES)
        return LoadReport(
            broker.id,
            int(now * 1e6),
            Resources(
                cpu=Usage(used, CORES),
                memory=MEMORY,
                network_in=Usage(received * RECORD_BYTES, NETWORK),
                network_out=Usage(sent * RECORD_BYTES, NETWORK),
            ),
            tuple(loads),
            connections=2 * len(loads),
            latency_ms=latency,
        )
