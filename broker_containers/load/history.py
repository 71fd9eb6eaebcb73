"""Moving averages of brokers and topics, daily load profiles, and a forecast from them.

Bounded: one number per topic, a 24-hour profile for the first topics that need one (all others
share the cluster's), and a ring of recent samples per broker.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from broker_containers.load.ranking import Measured
from broker_containers.load.report import LoadReport

HOURS = 24
MAX_SWING = 4.0
"""The forecast is at most this multiple of the current level, and at least its inverse."""

_Between = tuple[int, int, float]
"""Two neighbouring hours, and how far a time is between their middles."""


class Profile:
    """The usual level of each hour of the day (UTC)."""

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        self._levels = array("f", [-1.0]) * HOURS

    def add(self, hour: float, level: float, share: float) -> None:
        """Mix a sample into the hour's level with weight ``share`` (0 to 1)."""
        place = int(hour) % HOURS
        old = self._levels[place]
        self._levels[place] = level if old < 0 else old + share * (level - old)

    def swing(self, now: _Between, then: _Between) -> float | None:
        """Usual ratio of the level at ``then`` to that at ``now``; None if unknown."""
        levels = self._levels
        one, two, part = now
        three, four, later_part = then
        if min(levels[one], levels[two], levels[three], levels[four]) < 0:
            return None
        present = levels[one] + part * (levels[two] - levels[one])
        later = levels[three] + later_part * (levels[four] - levels[three])
        if present <= 0:
            return None
        return min(MAX_SWING, max(1 / MAX_SWING, later / present))


class Forecast:
    """The factor by which load is expected to change between two times of day: how the later hour
    usually compares with the present one, or 1 without data for both."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        cluster: Profile,
        wall_us: int,
        horizon_seconds: float,
    ) -> None:
        hour = hour_of(wall_us)
        self._now, self._then = between(hour), between(hour + horizon_seconds / 3600)
        self._profiles = profiles
        self._usual = cluster.swing(self._now, self._then)

    @property
    def known(self) -> bool:
        """Whether any data makes the future differ from the present."""
        return self._usual is not None

    def swing(self, topic: str) -> float:
        """The factor of one topic: from its own profile, or the cluster's, or 1."""
        profile = self._profiles.get(topic)
        own = profile.swing(self._now, self._then) if profile is not None else None
        return own or self._usual or 1.0

    def growth(self, topics: Sequence[str], costs: Sequence[float]) -> float:
        """The factor of several topics together."""
        total = sum(costs)
        if total <= 0 or not self.known:
            return 1.0
        swing = self.swing
        pairs = zip(topics, costs, strict=True)
        return sum([cost * swing(topic) for topic, cost in pairs]) / total


def between(hour: float) -> _Between:
    """The two hours whose middles surround ``hour``."""
    middle = hour - 0.5
    before = math.floor(middle)
    return before % HOURS, (before + 1) % HOURS, middle - before


def hour_of(wall_us: int) -> float:
    """The hour of the day (UTC) with its fraction."""
    return wall_us / 3.6e9 % HOURS


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
