"""Clusters for tests: brokers with given loads, and any cluster that hypothesis can think of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from broker_containers.load.decision import RebalancePlan
from broker_containers.load.move_log import MoveLog
from broker_containers.load.rebalance import Rebalancer
from broker_containers.load.report import LoadReport, TopicLoad
from broker_containers.load.settings import BalanceSettings
from broker_containers.load.view import BrokerLoad, ClusterView
from sulina.runtime.resources import Resources, Usage

PATIENT = hypothesis_settings(deadline=None)
"""Decisions are judged here, and not how fast a busy machine makes them."""
AT_ONCE = BalanceSettings(
    confirm_seconds=0, moves_per_interval=100_000, moves_per_broker=100_000, load_per_interval=1
)
"""Acts on the first sight of an imbalance, without limits."""


def cluster(loads: Mapping[str, Sequence[float]], **changes: object) -> ClusterView:
    """A broker for each item, with a topic for each of its costs."""
    return ClusterView.of(
        replace(BrokerLoad(name, _names(name, len(costs)), list(costs)), **changes)  # type: ignore[arg-type]
        for name, costs in loads.items()
    )


def _names(broker: str, count: int) -> list[str]:
    return [f"/default/{broker}-{number}" for number in range(count)]


def plan(
    view: ClusterView,
    settings: BalanceSettings = AT_ONCE,
    log: MoveLog | None = None,
    now: float = 0.0,
) -> RebalancePlan:
    """A plan, on an empty log if none is given."""
    return Rebalancer(settings).plan(view, log or MoveLog(), now)


def after(view: ClusterView, made: RebalancePlan) -> ClusterView:
    """The view when the plan is carried out."""
    return view.moved((move.topic, move.target) for move in made.moves)


def loads(view: ClusterView) -> dict[str, float]:
    """The load of each broker."""
    return {name: broker.load for name, broker in view.brokers.items()}


def owners(view: ClusterView) -> dict[str, str]:
    """The broker of each topic."""
    return {topic: name for name, broker in view.brokers.items() for topic in broker.topics}


def report(
    broker: str,
    topics: Mapping[str, float],
    *,
    seconds: float = 0.0,
    cpu: float | None = None,
    cores: float = 4.0,
    latency_ms: float = 2.0,
) -> LoadReport:
    """A report of topics with so many records a second each; 10,000 of them use a core."""
    used = sum(topics.values()) / 10_000 if cpu is None else cpu
    return LoadReport(
        broker,
        int(seconds * 1e6),
        Resources(cpu=Usage(used, cores)),
        tuple(
            TopicLoad(name, records_in=rate / 2, records_out=rate / 2)
            for name, rate in sorted(topics.items())
        ),
        latency_ms=latency_ms,
    )


_COSTS = st.floats(0.001, 100, allow_nan=False).map(lambda cost: round(cost, 3))


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    """Some brokers of different speed, labels and load."""
    count = draw(st.integers(1, 8))
    brokers = []
    for number in range(count):
        costs = draw(st.lists(_COSTS, max_size=12))
        label = draw(st.sampled_from(["zone=a", "zone=b"]))
        names = [
            f"/ns{place % 3}/b{number}-{place // 2}-part-{place % 2}"
            if place % 4 < 2
            else f"/ns{place % 3}/b{number}-{place}"
            for place in range(len(costs))
        ]
        brokers.append(
            BrokerLoad(
                f"b{number}",
                names,
                costs,
                base=draw(st.sampled_from([0.0, 0.0, 5.0])),
                factor=draw(st.sampled_from([1.0, 1.0, 0.5, 2.0])),
                trust=draw(st.sampled_from([1.0, 1.0, 1.0, 0.6, 0.2])),
                labels=frozenset({label}),
            )
        )
    return ClusterView.of(brokers)
