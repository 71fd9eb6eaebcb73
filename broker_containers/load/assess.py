"""Builds a view from reports and history: each broker's load, speed and trustworthiness.

A broker whose report is old or missing is assumed to carry at least the load of the others, in
proportion to the doubt, so that a silent broker never looks idle. A machine on which the same work
costs more, or that publishes far slower than the others, counts as smaller than it reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median

from broker_containers.load.history import BrokerHistory, LoadHistory
from broker_containers.load.ranking import Ranking
from broker_containers.load.settings import BalanceSettings
from broker_containers.load.view import LEAST_COST, BrokerInfo, BrokerLoad, ClusterView, level

MAX_FACTOR = 4.0
"""No machine counts as more than this factor slower, or faster, than the median one."""
SATURATED = 0.9
"""CPU usage at which a machine is saturated."""
ILL_TIMES = 4.0
EXPLAINED = 1.5
"""At this multiple of the mean load, slowness is explained by load."""

Known = Mapping[str, BrokerHistory | None]


def build_view(
    brokers: Sequence[BrokerInfo],
    assignment: Mapping[str, Sequence[str]],
    history: LoadHistory,
    ranking: Ranking,
    settings: BalanceSettings,
    *,
    now: float,
    wall_us: int,
) -> ClusterView:
    """Combine the assignment (broker to its topics), the registered brokers and the history.

    ``now`` is the leader's clock and ``wall_us`` its time of day, for the forecast.
    """
    known: Known = {info.id: history.brokers.get(info.id) for info in brokers}
    factors = machine_factors(known, ranking)
    ill = illnesses(known, settings)
    unknown_cost = LEAST_COST if ranking.measures_speed else 1.0
    typical = max(unknown_cost, fmean(history.costs.values())) if history.costs else unknown_cost
    forecast = history.forecast(wall_us, settings.horizon_seconds)
    loads: list[BrokerLoad] = []
    for info in sorted(brokers, key=lambda one: one.id):
        past = known[info.id]
        topics = assignment.get(info.id, ())
        other = past.rest_cost if past is not None and past.rest_cost > 0 else typical
        get = history.costs.get
        costs = [get(topic, other) for topic in topics]
        loads.append(
            BrokerLoad(
                info.id,
                topics,
                costs,
                base=past.base if past is not None else 0.0,
                factor=factors[info.id],
                trust=trust(past, now, settings),
                labels=info.labels,
                state=info.state,
                growth=forecast.growth(topics, costs),
            )
        )
    works = [past.cost_of_work for past in known.values() if past and past.cost_of_work]
    return ClusterView(
        {one.id: one for one in _doubted(_afflicted(loads, ill))},
        typical_cost=typical,
        cost_of_work=median(works) if works else 0.0,
        quiet=ranking.quiet,
    )


def trust(past: BrokerHistory | None, now: float, settings: BalanceSettings) -> float:
    """How far the last report is trusted: 1 while fresh, then falling linearly to 0."""
    if past is None:
        return 0.0
    age = now - past.received
    window = settings.stale_seconds - settings.fresh_seconds
    return min(1.0, max(0.0, (settings.stale_seconds - age) / window))


def machine_factors(known: Known, ranking: Ranking) -> dict[str, float]:
    """How much more the same work costs on each broker than on the median one.

    A broker that never had work is judged by its cores.
    """
    if not ranking.measures_speed:
        return dict.fromkeys(known, 1.0)
    works = [past.cost_of_work for past in known.values() if past and past.cost_of_work]
    cores = [past.cores for past in known.values() if past and past.cores > 0]
    typical_work = median(works) if works else 0.0
    typical_cores = median(cores) if cores else 0.0
    factors: dict[str, float] = {}
    for broker, past in known.items():
        factor = 1.0
        if past is not None and past.cost_of_work and typical_work > 0:
            factor = past.cost_of_work / typical_work
            if past.busy >= SATURATED:
                # A saturated machine cannot show how much more is demanded of it.
                factor = max(1.0, factor)
        elif past is not None and past.cores > 0:
            factor = typical_cores / past.cores
        factors[broker] = min(MAX_FACTOR, max(1 / MAX_FACTOR, factor))
    return factors


def illnesses(known: Known, settings: BalanceSettings) -> dict[str, float]:
    """1 for a healthy broker; up to 4 for one that publishes far slower than the median."""
    latencies = [past.latency_ms for past in known.values() if past]
    usual = ILL_TIMES * median(latencies) if latencies else 0.0
    limit = max(usual, settings.ill_latency_ms)
    return {
        broker: min(MAX_FACTOR, max(1.0, past.latency_ms / limit)) if past and limit > 0 else 1.0
        for broker, past in known.items()
    }


def _afflicted(loads: Sequence[BrokerLoad], ill: Mapping[str, float]) -> list[BrokerLoad]:
    """Reduce the capacity of unhealthy brokers, as far as load does not explain their slowness."""
    mean = level([one for one in loads if one.trust >= 1.0])

    def times(one: BrokerLoad) -> float:
        unexplained = (EXPLAINED - one.load / mean) / (EXPLAINED - 1) if mean > 0 else 1.0
        return 1 + (ill[one.id] - 1) * min(1.0, max(0.0, unexplained))

    return [
        replace(one, base=one.base * factor, factor=one.factor * factor)
        if (factor := times(one)) > 1.0
        else one
        for one in loads
    ]


def _doubted(loads: Sequence[BrokerLoad]) -> list[BrokerLoad]:
    """Raise brokers with old reports towards the mean of the trusted ones."""
    believed = [one for one in loads if one.trust >= 1.0]
    mean = level(believed)
    return [
        replace(one, base=one.base + (1 - one.trust) * (mean - one.load))
        if one.trust < 1.0 and one.load < mean
        else one
        for one in loads
    ]
