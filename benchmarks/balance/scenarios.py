"""The named scenarios."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.balance.run import BalanceEvent, BalanceEventKind, Scenario
from benchmarks.balance.workload import WorkloadShape
from benchmarks.balance.world import Trouble

HOUR = 3_600.0

SCENARIOS = {
    one.name: one
    for one in (
        Scenario("steady", brokers=20, topics=1_000, hours=24),
        Scenario(
            "diurnal", brokers=20, topics=1_000, hours=48, step=120, shape=WorkloadShape.DIURNAL
        ),
        Scenario("flash", brokers=20, topics=1_000, hours=24, shape=WorkloadShape.FLASH),
        Scenario(
            "churn",
            brokers=20,
            topics=1_000,
            hours=12,
            events=(
                BalanceEvent(1.5 * HOUR, BalanceEventKind.DIE),
                BalanceEvent(3.0 * HOUR, BalanceEventKind.JOIN, 3),
                BalanceEvent(4.5 * HOUR, BalanceEventKind.SLOW, 2),
                BalanceEvent(6.5 * HOUR, BalanceEventKind.RECOVER, 2),
                BalanceEvent(8.0 * HOUR, BalanceEventKind.DIE, 3),
                BalanceEvent(10.0 * HOUR, BalanceEventKind.JOIN, 2),
            ),
        ),
        Scenario(
            "bad-reports",
            brokers=20,
            topics=1_000,
            hours=24,
            trouble=Trouble(noise=0.2, lost=0.2, late=0.2),
        ),
        Scenario(
            "ten-full-one-empty",
            brokers=10,
            topics=1_000,
            hours=3,
            alpha=0.0,
            utilisation=0.8,
            events=(BalanceEvent(1.0 * HOUR, BalanceEventKind.JOIN),),
        ),
        Scenario("large", brokers=1_000, topics=100_000, hours=1),
    )
}
"""By name."""

DEFAULT = tuple(name for name in SCENARIOS if name != "large")


def scaled(scenario: Scenario, *, hours: float | None, quick: bool, seed: int) -> Scenario:
    """The scenario with another length or seed; with ``quick``, also smaller."""
    changed = replace(scenario, seed=seed, hours=hours if hours is not None else scenario.hours)
    return replace(changed, topics=max(100, changed.topics // 5)) if quick else changed
