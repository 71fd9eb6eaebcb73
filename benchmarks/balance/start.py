"""Single plans from random starts of any size: quality, amount moved, and speed.

For a cluster whose topics are on random brokers, this measures the result of the first plan without
a limit on moves; how much load was moved until the goal was first reached; and the minimum that any
planner would have to move, which is the load above the goal. Times are CPU seconds of one core, so
that a busy machine does not change them.
"""

from __future__ import annotations

import gc
import random
import time
from dataclasses import dataclass, replace
from itertools import pairwise

from benchmarks.balance.workload import WorkloadShape, make_workload
from benchmarks.balance.world import SimulatedCluster, Trouble
from broker_containers.load.decision import RebalancePlan
from broker_containers.load.manager import LoadManager
from broker_containers.load.settings import BalanceSettings
from broker_containers.load.view import ClusterView

GOAL = 1.10
"""Highest load over the bound (the mean, or the heaviest topic alone)."""


@dataclass(frozen=True, slots=True)
class StartResult:
    """One random start and its plan."""

    brokers: int
    topics: int
    alpha: float
    seed: int
    max_over_mean_before: float
    max_over_bound_before: float
    max_over_mean_after: float
    max_over_bound_after: float
    cv_before: float
    cv_after: float
    moves: int
    moved_share: float
    moved_to_goal: float | None
    """Share of load moved until no broker was above ``GOAL`` times the bound; None if never."""
    least_for_bound: float
    """The minimum share that any planner must move to bring all below ``GOAL`` times the bound."""
    least_for_mean: float
    """The same with the mean instead of the bound, if no topic were heavier than it."""
    learn_seconds: float
    """Seconds to process the first report of every broker."""
    view_seconds: float
    plan_seconds: float


def measure_start(brokers: int, topics: int, alpha: float, seed: int) -> StartResult:
    """Create a random start, plan once, and measure."""
    chance = random.Random(seed)
    workload = make_workload(WorkloadShape.STEADY, topics, alpha=alpha, seconds=0, chance=chance)
    world = SimulatedCluster(
        workload, brokers, utilisation=0.5, trouble=Trouble(noise=0), chance=chance
    )
    settings = replace(
        BalanceSettings(),
        confirm_seconds=0.0,
        moves_per_interval=1 << 30,
        moves_per_broker=1 << 20,
        load_per_interval=1.0,
    )
    manager = LoadManager(settings)
    reports = world.reports(0.0)
    infos, assignment = world.infos(), world.assignment()
    gc.collect()
    times = [time.thread_time()]
    for report in reports:
        manager.observe(report, now=0.0, wall_us=0)
    manager.view(infos, assignment, now=0.0, wall_us=0)
    times.append(time.thread_time())
    view = manager.view(infos, assignment, now=0.0, wall_us=0)
    times.append(time.thread_time())
    plan = manager.plan(view, now=0.0)
    times.append(time.thread_time())
    before, after = plan.before, plan.after
    loads = [one.load for one in view.brokers.values()]
    total = sum(loads)
    return StartResult(
        brokers,
        topics,
        alpha,
        seed,
        before.max_over_mean,
        before.max_over_bound,
        after.max_over_mean,
        after.max_over_bound,
        before.cv,
        after.cv,
        len(plan.moves),
        plan.moved_share,
        _moved_to_goal(view, plan),
        sum(max(0.0, load - GOAL * before.bound) for load in loads) / total,
        sum(max(0.0, load - GOAL * before.mean) for load in loads) / total,
        *(end - start for start, end in pairwise(times)),
    )


def _moved_to_goal(view: ClusterView, plan: RebalancePlan) -> float | None:
    """Apply the moves one by one until no broker is above the goal."""
    goal = GOAL * plan.before.bound + 1e-12
    loads = {one.id: one.load for one in view.brokers.values()}
    above = {name for name, load in loads.items() if load > goal}
    total = sum(sum(one.costs) for one in view.brokers.values())
    moved = 0.0
    for move in plan.moves:
        if not above:
            break
        moved += move.cost
        for name, change in ((move.source, -move.cost), (move.target, move.cost)):
            loads[name] += change * view.brokers[name].factor
            (above.add if loads[name] > goal else above.discard)(name)
    return None if above else moved / total
