"""The load of topics over the hours of a virtual day: skewed, diurnal, or with a flash crowd."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from enum import StrEnum

DAY = 86_400.0
RECORD_BYTES = 500.0


class WorkloadShape(StrEnum):
    """How load changes with time."""

    STEADY = "steady"
    DIURNAL = "diurnal"
    """Namespaces peak at different hours, between 0.5 and 1.5 times their mean."""
    FLASH = "flash"
    """Occasionally the load of a namespace's topics multiplies within minutes."""


@dataclass(frozen=True, slots=True)
class SimulatedTopic:
    """A topic: its mean publish rate, and how many consumers receive each record."""

    name: str
    rate: float
    fan_out: int
    phase: float
    """The delay of its daily peak, as a fraction of a day."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """A flash crowd: a multiple of the usual load for some topics, which decays."""

    start: float
    topics: frozenset[str]
    times: float
    half_life: float

    def factor(self, now: float) -> float:
        """The factor of the load at ``now``."""
        age = now - self.start
        if age < 0:
            return 1.0
        # It builds up within a minute.
        return 1 + (self.times - 1) * min(1.0, age / 60) * math.exp2(-age / self.half_life)


@dataclass(slots=True)
class BalanceWorkload:
    """All topics, and their true rates at any time."""

    shape: WorkloadShape
    topics: dict[str, SimulatedTopic]
    crowds: list[Crowd] = field(default_factory=list)

    def rates(self, now: float) -> dict[str, float]:
        """Records per second published to each topic at ``now``."""
        if self.shape is WorkloadShape.DIURNAL:
            # One sine per namespace, each with its own phase.
            waves: dict[float, float] = {}
            for topic in self.topics.values():
                if topic.phase not in waves:
                    waves[topic.phase] = 1 + 0.5 * math.sin(2 * math.pi * (now / DAY - topic.phase))
            rates = {name: one.rate * waves[one.phase] for name, one in self.topics.items()}
        else:
            rates = {name: one.rate for name, one in self.topics.items()}
        for crowd in self.crowds:
            factor = crowd.factor(now)
            if factor > 1.01:
                for name in crowd.topics:
                    rates[name] *= factor
        return rates


def make_workload(
    shape: WorkloadShape, count: int, *, alpha: float, seconds: float, chance: random.Random
) -> BalanceWorkload:
    """``count`` topics with Pareto-distributed rates (``alpha`` 0: all the same)."""
    namespaces = 24
    topics: dict[str, SimulatedTopic] = {}
    for number in range(count):
        namespace = chance.randrange(namespaces)
        name = f"/tenant-{namespace}/topic-{number}"
        rate = chance.paretovariate(alpha) if alpha > 0 else 1.0
        topics[name] = SimulatedTopic(
            name, rate, chance.choice((1, 1, 2, 3)), namespace / namespaces
        )
    workload = BalanceWorkload(shape, topics)
    if shape is WorkloadShape.FLASH:
        names = list(topics)
        start = 1_800.0
        while start < seconds:
            some = chance.sample(names, max(1, count // 200))
            workload.crowds.append(Crowd(start, frozenset(some), chance.uniform(10, 40), 900.0))
            start += chance.uniform(3_600, 10_800)
    return workload
