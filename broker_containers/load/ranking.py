"""Rankings: convert a load report into one number for the broker, and a cost for each topic.

A full broker's load is 1 (in the simple ranking: 1 per topic). It consists of a base that no move
changes (memory, disk space), and a part that the topics cause, which is split among them in
proportion to their traffic. So a broker's load is its base plus the costs of its topics, and the
effect of a move is known in advance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from broker_containers.load.report import BYTES_A_RECORD, LoadReport, TopicLoad, work
from broker_containers.load.settings import BalanceSettings, Full, RankingName, Weights

COMPOSITE = Weights(
    cpu=1, memory=1, topics=1, disk=0, network_in=0, network_out=0, connections=0, backlog=0
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A report in the unit of a ranking."""

    base: float
    """The part that no move changes."""
    costs: list[float]
    """Costs of the individually reported topics, in their order."""
    rest_cost: float
    """Mean cost of the other topics."""
    work: float
    """The topics' work, in records; with their cost it shows how fast the machine is."""

    def movable(self, rest_count: int) -> float:
        """The topics' total cost."""
        return sum(self.costs) + self.rest_cost * rest_count

    def load(self, rest_count: int) -> float:
        """The broker's total load."""
        return self.base + self.movable(rest_count)


class Ranking(Protocol):
    """How load is measured."""

    @property
    def quiet(self) -> float:
        """The load below which nothing is worth moving."""
        ...

    @property
    def measures_speed(self) -> bool:
        """Whether the cost of the same work shows how fast a machine is."""
        ...

    def measure(self, report: LoadReport) -> Measured:
        """``report`` in this ranking's unit."""
        ...


def ranking_of(settings: BalanceSettings) -> Ranking:
    """The ranking selected by the settings."""
    if settings.ranking is RankingName.SIMPLE:
        return SimpleRanking()
    weights = COMPOSITE if settings.ranking is RankingName.COMPOSITE else settings.weights
    return WeightedRanking(weights, settings.full, settings.quiet)


class SimpleRanking:
    """Every topic costs 1."""

    quiet = 1.5
    """At most one topic per broker cannot be improved."""
    measures_speed = False

    def measure(self, report: LoadReport) -> Measured:
        """Counts topics."""
        return Measured(0.0, [1.0] * len(report.topics), 1.0, 0.0)


class WeightedRanking:
    """A weighted mean of the usage of each resource."""

    measures_speed = True

    def __init__(self, weights: Weights, full: Full, quiet: float) -> None:
        self._weights = weights.shares()
        self._full = full
        self.quiet = quiet

    def measure(self, report: LoadReport) -> Measured:
        """Split each resource's usage among topics by its driver; the rest is the base."""
        weights, full, resources = self._weights, self._full, report.resources
        sums = _sums(report)
        count = report.topic_count
        members = sums.producers + sums.consumers
        per_record, idle_cpu = _split(
            weights["cpu"] * resources.cpu.fraction(), work(sums)
        )  # fmt: skip
        per_in, idle_in = _split(
            weights["network_in"] * resources.network_in.fraction(full.network), sums.bytes_in
        )
        per_out, idle_out = _split(
            weights["network_out"] * resources.network_out.fraction(full.network), sums.bytes_out
        )
        # Half of the disk's weight is space, which does not move.
        per_write, idle_disk = _split(
            weights["disk"] / 2 * resources.disk_io.fraction(full.disk_io), sums.bytes_in
        )
        per_member, idle_members = _split(
            weights["connections"] * report.connections / full.connections, members
        )
        per_backlog, _ = _split(weights["backlog"] * sums.backlog / full.backlog, sums.backlog)
        base = (
            weights["memory"] * resources.memory.fraction()
            + weights["disk"] / 2 * resources.disk_space.fraction()
            + idle_cpu + idle_in + idle_out + idle_disk + idle_members
        )  # fmt: skip
        each = weights["topics"] / full.topics
        a_byte_in = per_record / BYTES_A_RECORD + per_in + per_write
        a_byte_out = per_record / BYTES_A_RECORD + per_out

        def cost(topic: TopicLoad) -> float:
            return (
                per_record * (topic.records_in + topic.records_out)
                + a_byte_in * topic.bytes_in
                + a_byte_out * topic.bytes_out
                + per_member * (topic.producers + topic.consumers)
                + per_backlog * topic.backlog
            )

        costs = [each + cost(topic) for topic in report.topics]
        rest = each + cost(report.rest) / report.rest_count if report.rest_count else 0.0
        return Measured(base, costs, rest, work(sums) if count else 0.0)


def _split(used: float, driver: float) -> tuple[float, float]:
    """Usage per unit of the driver, and usage without it."""
    return (used / driver, 0.0) if driver > 0 else (0.0, used)


def _sums(report: LoadReport) -> TopicLoad:
    topics, rest = report.topics, report.rest
    return TopicLoad(
        "",
        sum([topic.records_in for topic in topics]) + rest.records_in,
        sum([topic.bytes_in for topic in topics]) + rest.bytes_in,
        sum([topic.records_out for topic in topics]) + rest.records_out,
        sum([topic.bytes_out for topic in topics]) + rest.bytes_out,
        sum([topic.producers for topic in topics]) + rest.producers,
        sum([topic.consumers for topic in topics]) + rest.consumers,
        sum([topic.backlog for topic in topics]) + rest.backlog,
    )
