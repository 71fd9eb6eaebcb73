"""One simulated run: virtual hours of load, reports and failures, with the real decision code."""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from statistics import fmean
from typing import Any

from benchmarks.balance.workload import WorkloadShape, make_workload
from benchmarks.balance.world import SimulatedCluster, Trouble
from broker_containers.load.decision import SkipReason
from broker_containers.load.manager import LoadManager
from broker_containers.load.settings import BalanceSettings

LEASE_SECONDS = 10.0
TAKEOVER_SECONDS = 0.5
"""From the decision to move a topic until it is served elsewhere."""
RETURN_SECONDS = 3_600.0
"""A topic that returns to a broker within this time has oscillated."""


class BalanceEventKind(StrEnum):
    """Events that affect a broker."""

    JOIN = "join"
    DIE = "die"
    SLOW = "slow"
    RECOVER = "recover"


@dataclass(frozen=True, slots=True)
class BalanceEvent:
    """An event that affects ``count`` brokers."""

    at: float
    kind: BalanceEventKind
    count: int = 1


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario to simulate."""

    name: str
    brokers: int
    topics: int
    hours: float
    shape: WorkloadShape = WorkloadShape.STEADY
    alpha: float = 2.0
    utilisation: float = 0.5
    step: float = 60.0
    """Seconds between reports of a broker, and between evaluations."""
    trouble: Trouble = field(default_factory=Trouble)
    events: tuple[BalanceEvent, ...] = ()
    seed: int = 1
    balancing: bool = True


@dataclass(frozen=True, slots=True)
class Point:
    """The cluster's true state, not the reported one, at one evaluation."""

    hours: float
    cv: float
    max_over_mean: float
    max_over_bound: float
    highest: float
    moved: float
    """Share of the load moved since the start."""
    brokers: int


@dataclass(slots=True)
class BalanceOutcome:
    """The outcome of a run."""

    scenario: Scenario
    points: list[Point] = field(default_factory=list)
    moves: int = 0
    moves_by_hour: Counter[int] = field(default_factory=Counter)
    oscillations: int = 0
    planned_pause: float = 0.0
    """Topic-seconds without an owner because of moves."""
    failover_pause: float = 0.0
    """Topic-seconds without an owner because of broker failures."""
    planner_seconds: list[float] = field(default_factory=list)
    reasons: Counter[SkipReason] = field(default_factory=Counter)

    @property
    def moved(self) -> float:
        """Share of the load moved by rebalancing."""
        return self.points[-1].moved if self.points else 0.0

    def settled(self) -> list[Point]:
        """The points without the first hour, in which the random start is balanced."""
        return [one for one in self.points if one.hours >= 1.0] or self.points[-1:]

    def summary(self) -> dict[str, Any]:
        """A summary of the run."""
        settled = self.settled()
        return {
            "scenario": self.scenario.name,
            "brokers": self.scenario.brokers,
            "topics": self.scenario.topics,
            "hours": self.scenario.hours,
            "balancing": self.scenario.balancing,
            "cv_start": self.points[0].cv,
            "cv_mean": fmean(one.cv for one in settled),
            "max_over_mean_start": self.points[0].max_over_mean,
            "max_over_mean_mean": fmean(one.max_over_mean for one in settled),
            "max_over_mean_worst": max(one.max_over_mean for one in settled),
            "max_over_bound_mean": fmean(one.max_over_bound for one in settled),
            "max_over_bound_end": self.points[-1].max_over_bound,
            "moves": self.moves,
            "moves_after_first_hour": sum(
                count for hour, count in self.moves_by_hour.items() if hour >= 1
            ),
            "moved_share": self.moved,
            "oscillations": self.oscillations,
            "planned_pause_topic_seconds": self.planned_pause,
            "failover_pause_topic_seconds": self.failover_pause,
            "planner_seconds_mean": fmean(self.planner_seconds),
            "planner_seconds_max": max(self.planner_seconds),
            "reasons": {reason.value: count for reason, count in sorted(self.reasons.items())},
        }

    def to_dict(self) -> dict[str, Any]:
        """The summary and every point of the run."""
        return {
            **self.summary(),
            "seed": self.scenario.seed,
            "points": [asdict(point) for point in self.points],
        }


def simulate(
    scenario: Scenario,
    settings: BalanceSettings | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> BalanceOutcome:
    """Simulate ``scenario``. Only the planner's CPU time is real."""
    chance = random.Random(scenario.seed)
    seconds = scenario.hours * 3_600
    workload = make_workload(
        scenario.shape, scenario.topics, alpha=scenario.alpha, seconds=seconds, chance=chance
    )
    world = SimulatedCluster(
        workload,
        scenario.brokers,
        utilisation=scenario.utilisation,
        trouble=scenario.trouble,
        chance=chance,
    )
    run = _BalanceRun(scenario, world, _fitted(settings or BalanceSettings(), scenario), chance)
    steps = int(seconds / scenario.step)
    for number in range(steps + 1):
        run.step(number * scenario.step)
        progress(number / max(1, steps))
    return run.outcome


def _fitted(settings: BalanceSettings, scenario: Scenario) -> BalanceSettings:
    """Settings adjusted to the step: reports stay fresh for longer if steps are longer."""
    return replace(
        settings,
        enabled=settings.enabled and scenario.balancing,
        fresh_seconds=max(settings.fresh_seconds, 1.5 * scenario.step),
        stale_seconds=max(settings.stale_seconds, 6 * scenario.step),
        interval_seconds=max(settings.interval_seconds, scenario.step),
    )


class _BalanceRun:
    """The leader of a simulated cluster, and the events that happen to it."""

    def __init__(
        self,
        scenario: Scenario,
        world: SimulatedCluster,
        settings: BalanceSettings,
        chance: random.Random,
    ) -> None:
        self.outcome = BalanceOutcome(scenario)
        self._world = world
        self._manager = LoadManager(settings)
        self._chance = chance
        self._events = deque(sorted(scenario.events, key=lambda event: event.at))
        self._slow: list[str] = []
        # Reports cost most of a run's time, and without balancing only a failover needs them.
        self._listens = scenario.balancing or bool(scenario.events)
        self._left: dict[str, list[tuple[float, str]]] = {}
        self._moved = 0.0

    def step(self, now: float) -> None:
        """Simulate the time since the last evaluation, then evaluate."""
        world, manager = self._world, self._manager
        world.step(now)
        while self._events and self._events[0].at <= now:
            self._happen(self._events.popleft(), now)
        wall_us = int(now * 1e6)
        if self._listens:
            for report in world.reports(now):
                if report.broker in world.brokers:
                    manager.observe(report, now=now, wall_us=wall_us)
        started = time.thread_time()
        view = manager.view(world.infos(), world.assignment(), now=now, wall_us=wall_us)
        plan = manager.plan(view, now=now)
        self.outcome.planner_seconds.append(time.thread_time() - started)
        self.outcome.reasons.update(plan.reasons)
        manager.commit(plan, now=now)
        # The true cost: the planner's estimate may be wrong.
        total = sum(map(world.cost, world.workload.topics))
        self._moved += sum(world.cost(move.topic) for move in plan.moves) / total
        self.outcome.planned_pause += TAKEOVER_SECONDS * len(plan.moves)
        self._carry_out([(one.topic, one.source, one.target) for one in plan.moves], now)
        truth = world.truth()
        self.outcome.points.append(
            Point(
                now / 3_600,
                truth.cv,
                truth.max_over_mean,
                truth.max_over_bound,
                truth.highest,
                self._moved,
                len(world.brokers),
            )
        )

    def _carry_out(self, moves: Sequence[tuple[str, str, str]], now: float) -> None:
        for topic, source, target in moves:
            past = self._left.setdefault(topic, [])
            if any(now - at <= RETURN_SECONDS and broker == target for at, broker in past):
                self.outcome.oscillations += 1
            past.append((now, source))
        self.outcome.moves += len(moves)
        self.outcome.moves_by_hour[int(now // 3_600)] += len(moves)
        self._world.move(list(moves))

    def _happen(self, event: BalanceEvent, now: float) -> None:
        for _ in range(event.count):
            names = sorted(self._world.brokers)
            if event.kind is BalanceEventKind.JOIN:
                self._world.join()
            elif event.kind is BalanceEventKind.DIE and len(names) > 1:
                self._die(self._chance.choice(names), now)
            elif event.kind is BalanceEventKind.SLOW:
                name = self._chance.choice(names)
                self._world.brokers[name].slowness = 3.0
                self._slow.append(name)
            elif event.kind is BalanceEventKind.RECOVER and self._slow:
                broker = self._world.brokers.get(self._slow.pop())
                if broker is not None:
                    broker.slowness = 1.0

    def _die(self, name: str, now: float) -> None:
        """Let the lease expire, then move the broker's topics as the leader decides."""
        world, manager = self._world, self._manager
        view = manager.view(world.infos(), world.assignment(), now=now, wall_us=int(now * 1e6))
        placement = manager.failover(view, name)
        topics = world.die(name)
        manager.forget_broker(name)
        for topic in topics:
            world.brokers[placement.assigned[topic]].topics.append(topic)
        self.outcome.failover_pause += (LEASE_SECONDS + TAKEOVER_SECONDS) * len(topics)
