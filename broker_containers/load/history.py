"""What was: moving averages of brokers and topics, and how the hours of a day usually are.

Bounded: one number a topic, a profile of 24 hours for the first topics that ask for one (all
others share one of the whole cluster), and a ring of recent samples a broker. ``forecast`` says
what is made of the profiles.
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
"""Samples kept of each broker."""
MAX_PROFILES = 20_000
_DAYS = 3.0
"""A profile follows a change of habits within about so many days."""
_LEAST_WORK = 1.0
"""Records a second below which nothing can be said about a machine's speed."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A broker at one moment: the leader's time, its load, its number of topics."""

    at: float
    load: float
    topics: int


@dataclass(slots=True)
class BrokerHistory:
    """What is remembered of one broker."""

    received: float
    """The leader's time that its last report is worth."""
    wall_us: int
    base: float
    rest_cost: float
    cost_of_work: float | None
    """What a record costs here; higher on a slower machine. None if it never had work."""
    cores: float
    busy: float
    """Share of its CPU in use."""
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
        """By id. For reading."""
        return self._brokers

    @property
    def costs(self) -> dict[str, float]:
        """The smoothed cost of every topic told one by one. For reading."""
        return self._costs

    def observe(self, report: LoadReport, measured: Measured, *, received: float) -> float:
        """Take in what a report says of the broker itself.

        Answers how much of the averages comes from this report; ``learn`` wants it. Between the
        two, all brokers can be compared, which gives ``learn`` its factor.
        """
        old = self._brokers.get(report.broker)
        seconds = max(0.0, received - old.received) if old is not None else 0.0
        # All of it, the first time.
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
        # Weighed by the time it stands for, so that the rate of reports does not matter.
        past.profile_share = min(1.0, seconds / (3600 * _DAYS))
        return share

    def learn(self, report: LoadReport, measured: Measured, *, share: float, factor: float) -> None:
        """Take in what a report says of topics; ``factor`` is how much more they cost there."""
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
        # No longer among the heaviest: the old cost would be too much.
        for name in past.detailed - detailed:
            if name in known and report.rest_count:
                known[name] = past.rest_cost
        past.detailed = detailed
        hour = hour_of(report.wall_us)
        self._cluster.add(hour, measured.movable(report.rest_count) / factor, past.profile_share)
        self._add_to_profiles(names, hour, past.profile_share)

    def forecast(self, wall_us: int, horizon_seconds: float) -> Forecast:
        """What is expected ``horizon_seconds`` after the given time of day."""
        return Forecast(self._profiles, self._cluster, wall_us, horizon_seconds)

    def forget_broker(self, broker: str) -> None:
        """The broker is gone; what its topics cost stays known."""
        self._brokers.pop(broker, None)

    def keep_topics(self, topics: Collection[str]) -> None:
        """Forget every topic that is not in ``topics``."""
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
