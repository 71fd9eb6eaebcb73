"""The cluster as decisions see it: the brokers, their topics and what those cost.

A view is a value: decisions read it and return what to change. Loads are in the ranking's unit; a
broker's load is ``base + factor * (sum of its topics' costs)``, where the factor is how much more
the same topic costs there than on a typical broker (high for small or unhealthy machines).
``assess`` builds views from reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, pstdev

from sulina.metadata.keys.members import BrokerMode

LEAST_COST = 1e-6
"""Cost of a topic that was never measured: enough to spread many of them."""


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker that is registered in the cluster."""

    id: str
    labels: frozenset[str] = frozenset()
    state: BrokerMode = BrokerMode.ACTIVE


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """A broker and its topics."""

    id: str
    topics: Sequence[str] = ()
    costs: Sequence[float] = ()
    """Cost of each topic on a typical broker."""
    base: float = 0.0
    factor: float = 1.0
    trust: float = 1.0
    """1 for a fresh report, 0 for none."""
    labels: frozenset[str] = frozenset()
    state: BrokerMode = BrokerMode.ACTIVE
    growth: float = 1.0
    """The factor by which its topics' cost is expected to change until the horizon."""
    load: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "load", self.base + self.factor * sum(self.costs))

    @property
    def planned_load(self) -> float:
        """The higher of the current load and the load at the horizon."""
        return self.base + (self.load - self.base) * max(1.0, self.growth)


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly load is distributed."""

    mean: float
    """The load of every broker if load could be divided freely."""
    highest: float
    lowest: float
    cv: float
    """Standard deviation divided by the mean."""
    bound: float
    """The lowest possible maximum: the mean, or the heaviest topic alone."""

    @property
    def max_over_mean(self) -> float:
        return self.highest / self.mean if self.mean > 0 else 1.0

    @property
    def max_over_bound(self) -> float:
        return self.highest / self.bound if self.bound > 0 else 1.0

    def to_dict(self) -> dict[str, float]:
        """All of it, as JSON values."""
        ratios = {"max_over_mean": self.max_over_mean, "max_over_bound": self.max_over_bound}
        return {**asdict(self), **ratios}


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All brokers by id, sorted."""

    brokers: Mapping[str, BrokerLoad]
    typical_cost: float = LEAST_COST
    """Cost of a topic about which nothing is known."""
    cost_of_work: float = 0.0
    """Cost of one record per second on a typical broker; converts expected load into a cost."""
    quiet: float = 0.0
    """The load below which nothing is worth moving."""

    @classmethod
    def of(cls, brokers: Iterable[BrokerLoad], *, quiet: float = 0.0) -> ClusterView:
        """A view of given loads: for tests, simulations and what-if questions."""
        ordered = {broker.id: broker for broker in sorted(brokers, key=lambda one: one.id)}
        return cls(ordered, typical_cost=_typical(ordered.values()), quiet=quiet)

    def owner(self, topic: str) -> str | None:
        """The broker that has ``topic``. Searches all brokers."""
        return next((one.id for one in self.brokers.values() if topic in one.topics), None)

    def moved(self, moves: Iterable[tuple[str, str]]) -> ClusterView:
        """The view after each (topic, target) has moved. Unassigned topics are ignored."""
        target = dict(moves)
        arriving: dict[str, list[tuple[str, float]]] = {}
        staying: dict[str, list[tuple[str, float]]] = {}
        for broker in self.brokers.values():
            staying[broker.id] = kept = []
            for topic, cost in zip(broker.topics, broker.costs, strict=True):
                where = target.get(topic, broker.id)
                if where == broker.id:
                    kept.append((topic, cost))
                else:
                    arriving.setdefault(where, []).append((topic, cost))
        changed = {
            broker.id: _carrying(broker, staying[broker.id] + arriving.get(broker.id, []))
            for broker in self.brokers.values()
        }
        return ClusterView(changed, self.typical_cost, self.cost_of_work, self.quiet)


def balance_of(brokers: Iterable[BrokerLoad]) -> Balance:
    """How evenly the load of ``brokers`` is distributed."""
    several = list(brokers)
    if not several:
        return Balance(0.0, 0.0, 0.0, 0.0, 0.0)
    loads = [broker.load for broker in several]
    mean = level(several)
    heaviest = max((max(one.costs, default=0.0) for one in several), default=0.0)
    # On the broker where it is lowest.
    alone = min(one.base + one.factor * heaviest for one in several) if heaviest else 0.0
    spread = pstdev(loads) / fmean(loads) if sum(loads) > 0 else 0.0
    return Balance(mean, max(loads), min(loads), spread, max(mean, alone))


def level(brokers: Sequence[BrokerLoad]) -> float:
    """The load of all brokers if it were distributed perfectly; slower ones have fewer topics."""
    room = sum(1 / one.factor for one in brokers)
    return sum(one.load / one.factor for one in brokers) / room if room else 0.0


def _carrying(broker: BrokerLoad, topics: Sequence[tuple[str, float]]) -> BrokerLoad:
    return replace(broker, topics=[name for name, _ in topics], costs=[cost for _, cost in topics])


def _typical(brokers: Iterable[BrokerLoad]) -> float:
    costs = [cost for broker in brokers for cost in broker.costs]
    return max(LEAST_COST, fmean(costs)) if costs else LEAST_COST
