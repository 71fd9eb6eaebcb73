"""Moving averages of brokers and topics, and daily load profiles.

Bounded: one number per topic, a 24-hour profile for the first topics that need one (all others
share the cluster's), and a ring of recent samples per broker. ``forecast`` uses the profiles.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from broker_containers.load.forecast import Forecast, Profile, hour_of
from broker_containers.load.ranking import Measured
from broker_containers.load.report import LoadReport

SAMPLES = 120
"""Samples kept per broker."""
MAX_PROFILES = 20_000
_DAYS = 3.0
"""Time constant of a profile, in days."""
_LEAST_WORK = 1.0
"""Records per second below which a machine's speed cannot be estimated."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A broker at one moment: the leader's clock, its load, its number of topics."""

    at: float
    load: float
    topics: int


@dataclass(slots=True)
class BrokerHistory:
    """What is known of one broker."""

    received: float
    """The leader's clock for its last report."""
    wall_us: int
    base: float
    rest_cost: float
    cost_of_work: float | None
    """Cost per record, higher on a slower machine. None if it never had work."""
    cores: float
    busy: float
    """Its CPU usage, 0 to 1."""
    latency_ms: float
    detailed: frozenset[str]
    samples: deque[Sample]
    profile_share: float = 0.0


class LoadHistory:
    """Remembers reports. Costs are in the unit of a typical broker, wherever a topic was."""

    def __init__(self, smoothing_seconds: float, *, max_profiles: int = MAX_PROFILES) -> None:
        self._smoothing = smoothing_seconds
        self._max_profiles = max_profiles
        self._costs: dict[str, float] = {}
        self._profiles: dict[str, Profile] = {}
        self._cluster = Profile()
        self._brokers: dict[str, BrokerHistory] = {}

    @property
    def brokers(self) -> dict[str, BrokerHistory]:
        """By id. Read only."""
        return self._brokers

    @property
    def costs(self) -> dict[str, float]:
        """The smoothed cost of every individually reported topic. Read only."""
        return self._costs

    def observe(self, report: LoadReport, measured: Measured, *, received: float) -> float:
        """Process what a report says about the broker itself.

        Returns the weight of this report in the averages, for ``learn``. In between, all brokers
        can be compared, which gives ``learn`` its factor.
        """
        old = self._brokers.get(report.broker)
        seconds = max(0.0, received - old.received) if old is not None else 0.0
        # The first report counts fully.
        share = 1 - math.exp(-seconds / self._smoothing) if old is not None else 1.0
        movable = measured.movable(report.rest_count)
        cost_of_work = movable / measured.work if measured.work >= _LEAST_WORK else None
        past = BrokerHistory(
            received=received,
            wall_us=report.wall_us,
            base=_mix(old.base if old else None, measured.base, share),
            rest_cost=old.rest_cost if old else 0.0,
            cost_of_work=_mix_known(old.cost_of_work if old else None, cost_of_work, share),
            cores=report.resources.cpu.limit,
            busy=_mix(old.busy if old else None, report.resources.cpu.fraction(), share),
            latency_ms=_mix(old.latency_ms if old else None, report.latency_ms, share),
            detailed=old.detailed if old else frozenset(),
            samples=old.samples if old else deque(maxlen=SAMPLES),
        )
        past.samples.append(Sample(received, measured.base + movable, report.topic_count))
        self._brokers[report.broker] = past
        # Weighted by the time it covers, so that the rate of reports does not matter.
        past.profile_share = min(1.0, seconds / (3600 * _DAYS))
        return share

    def learn(self, report: LoadReport, measured: Measured, *, share: float, factor: float) -> None:
        """Process what a report says about topics; ``factor`` is how much more they cost there."""
        past = self._brokers[report.broker]
        names = [topic.name for topic in report.topics]
        known = self._costs
        get = known.get
        for name, cost in zip(names, measured.costs, strict=True):
            new = cost / factor
            old = get(name)
            known[name] = new if old is None else old + share * (new - old)
        past.rest_cost = measured.rest_cost / factor
        detailed = frozenset(names)
        # No longer among the heaviest: the old cost would be too high.
        for name in past.detailed - detailed:
            if name in known and report.rest_count:
                known[name] = past.rest_cost
        past.detailed = detailed
        hour = hour_of(report.wall_us)
        self._cluster.add(hour, measured.movable(report.rest_count) / factor, past.profile_share)
        self._add_to_profiles(names, hour, past.profile_share)

    def forecast(self, wall_us: int, horizon_seconds: float) -> Forecast:
        """The expected change ``horizon_seconds`` after the given time of day."""
        return Forecast(self._profiles, self._cluster, wall_us, horizon_seconds)

    def forget_broker(self, broker: str) -> None:
        """Drop a broker; the costs of its topics stay known."""
        self._brokers.pop(broker, None)

    def keep_topics(self, topics: Collection[str]) -> None:
        """Drop every topic that is not in ``topics``."""
        for name in [name for name in self._costs if name not in topics]:
            del self._costs[name]
            self._profiles.pop(name, None)

    def _add_to_profiles(self, names: Iterable[str], hour: float, share: float) -> None:
        profiles = self._profiles
        for name in names:
            profile = profiles.get(name)
            if profile is None:
                if len(profiles) >= self._max_profiles:
                    continue
                profile = profiles[name] = Profile()
            profile.add(hour, self._costs[name], share)


def _mix(old: float | None, new: float, share: float) -> float:
    return new if old is None else old + share * (new - old)


def _mix_known(old: float | None, new: float | None, share: float) -> float | None:
    return old if new is None else _mix(old, new, share)
