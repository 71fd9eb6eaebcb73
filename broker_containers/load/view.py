"""The cluster as decisions see it: who is there, what each broker carries and what it costs.

A view is a value: decisions read it and answer with what to change. Loads are in the ranking's
unit; a broker's is ``base + factor * (sum of its topics' costs)``, where the factor is how much
more the same topic costs there than on a typical broker (a small or an ill machine has a high
one). ``assess`` makes views from reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, pstdev

from sulina.metadata.keys.members import BrokerMode

LEAST_COST = 1e-6
"""Of a topic that nobody has measured: enough for many of them to spread."""


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker that is registered in the cluster."""

    id: str
    labels: frozenset[str] = frozenset()
    state: BrokerMode = BrokerMode.ACTIVE


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """A broker and what it carries."""

    id: str
    topics: Sequence[str] = ()
    costs: Sequence[float] = ()
    """Of each topic, on a typical broker."""
    base: float = 0.0
    factor: float = 1.0
    trust: float = 1.0
    """1 for a fresh report, 0 for none."""
    labels: frozenset[str] = frozenset()
    state: BrokerMode = BrokerMode.ACTIVE
    growth: float = 1.0
    """What its topics' cost is expected to be multiplied by, at the horizon."""
    load: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "load", self.base + self.factor * sum(self.costs))

    @property
    def planned_load(self) -> float:
        """The load, now or at the horizon, whichever is more."""
        return self.base + (self.load - self.base) * max(1.0, self.growth)


@dataclass(frozen=True, slots=True)
class Balance:
    """How even the load is."""

    mean: float
    """What every broker would have if load could be cut at will."""
    highest: float
    lowest: float
    cv: float
    """Standard deviation over mean."""
    bound: float
    """The lowest that the highest load can be: the mean, or the heaviest topic alone."""

    @property
    def max_over_mean(self) -> float:
        return self.highest / self.mean if self.mean > 0 else 1.0

    @property
    def max_over_bound(self) -> float:
        return self.highest / self.bound if self.bound > 0 else 1.0


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All brokers, by id, in the order of their ids."""

    brokers: Mapping[str, BrokerLoad]
    typical_cost: float = LEAST_COST
    """Of a topic about which nothing is known."""
    cost_of_work: float = 0.0
    """Of one record a second on a typical broker; turns a hint into a cost."""
    quiet: float = 0.0
    """A load so low that nothing is worth moving."""

    @classmethod
    def of(cls, brokers: Iterable[BrokerLoad], *, quiet: float = 0.0) -> ClusterView:
        """A view of known loads: for tests, simulations and what-if questions."""
        ordered = {broker.id: broker for broker in sorted(brokers, key=lambda one: one.id)}
        return cls(ordered, typical_cost=_typical(ordered.values()), quiet=quiet)

    def owner(self, topic: str) -> str | None:
        """The broker that has ``topic``. Looks through all of them."""
        return next((one.id for one in self.brokers.values() if topic in one.topics), None)

    def moved(self, moves: Iterable[tuple[str, str]]) -> ClusterView:
        """The view after each (topic, target) has moved. Topics nobody has are left out."""
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
    """How even the load of ``brokers`` is."""
    several = list(brokers)
    if not several:
        return Balance(0.0, 0.0, 0.0, 0.0, 0.0)
    loads = [broker.load for broker in several]
    mean = level(several)
    heaviest = max((max(one.costs, default=0.0) for one in several), default=0.0)
    # On whichever broker it would be least.
    alone = min(one.base + one.factor * heaviest for one in several) if heaviest else 0.0
    spread = pstdev(loads) / fmean(loads) if sum(loads) > 0 else 0.0
    return Balance(mean, max(loads), min(loads), spread, max(mean, alone))


def level(brokers: Sequence[BrokerLoad]) -> float:
    """The load of all brokers if it were spread perfectly: slower ones have fewer topics then."""
    room = sum(1 / one.factor for one in brokers)
    return sum(one.load / one.factor for one in brokers) / room if room else 0.0


def _carrying(broker: BrokerLoad, topics: Sequence[tuple[str, float]]) -> BrokerLoad:
    return replace(broker, topics=[name for name, _ in topics], costs=[cost for _, cost in topics])


def _typical(brokers: Iterable[BrokerLoad]) -> float:
    costs = [cost for broker in brokers for cost in broker.costs]
    return max(LEAST_COST, fmean(costs)) if costs else LEAST_COST
