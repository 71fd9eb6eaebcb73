"""The results as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from benchmarks.balance.run import BalanceOutcome
from benchmarks.balance.start import GOAL, StartResult
from benchmarks.program import table_of
from benchmarks.units import count_name


def start_table(results: Sequence[StartResult]) -> Table:
    """Random starts, one per row."""
    table = table_of(
        f"One plan from a random start (goal: highest <= {GOAL:g} x bound)",
        *("brokers", "topics", "skew", "max/mean", "max/bound", "CV", "moves", "moved"),
        *("moved to goal", "least for goal", "least for mean", "learn s", "view s", "plan s"),
        left=0,
    )
    for one in results:
        table.add_row(
            f"{one.brokers:,}",
            count_name(one.topics),
            f"{one.alpha:g}" if one.alpha else "equal",
            f"{one.max_over_mean_before:.2f} > {one.max_over_mean_after:.2f}",
            f"{one.max_over_bound_before:.2f} > {one.max_over_bound_after:.2f}",
            f"{one.cv_before:.3f} > {one.cv_after:.3f}",
            f"{one.moves:,}",
            f"{one.moved_share:.2%}",
            "never" if one.moved_to_goal is None else f"{one.moved_to_goal:.2%}",
            f"{one.least_for_bound:.2%}",
            f"{one.least_for_mean:.2%}",
            f"{one.learn_seconds:.2f}",
            f"{one.view_seconds:.2f}",
            f"{one.plan_seconds:.2f}",
        )
    return table


def run_table(outcomes: Sequence[BalanceOutcome]) -> Table:
    """Scenarios, one per row; means exclude the first hour."""
    table = table_of(
        "Virtual hours",
        *("scenario", "balancing", "brokers", "topics", "hours", "CV", "max/mean", "worst"),
        *("max/bound", "moves", "after 1 h", "moved", "oscillations", "paused topic-s"),
        *("failover topic-s", "plan ms"),
        left=2,
    )
    for outcome in outcomes:
        one = outcome.summary()
        table.add_row(
            one["scenario"],
            "on" if one["balancing"] else "off",
            f"{one['brokers']:,}",
            count_name(one["topics"]),
            f"{one['hours']:g}",
            f"{one['cv_start']:.3f} > {one['cv_mean']:.3f}",
            f"{one['max_over_mean_start']:.2f} > {one['max_over_mean_mean']:.2f}",
            f"{one['max_over_mean_worst']:.2f}",
            f"{one['max_over_bound_mean']:.2f}",
            f"{one['moves']:,}",
            f"{one['moves_after_first_hour']:,}",
            f"{one['moved_share']:.1%}",
            f"{one['oscillations']}",
            f"{one['planned_pause_topic_seconds']:,.0f}",
            f"{one['failover_pause_topic_seconds']:,.0f}",
            f"{1000 * one['planner_seconds_mean']:.0f} / {1000 * one['planner_seconds_max']:.0f}",
        )
    return table


def reason_table(outcomes: Sequence[BalanceOutcome]) -> Table:
    """Why evaluations moved nothing, counted per balanced run."""
    balanced = [one for one in outcomes if one.scenario.balancing]
    names = (outcome.scenario.name for outcome in balanced)
    table = table_of("Decisions not to act", "reason", *names)
    for reason in sorted({reason for one in balanced for reason in one.reasons}):
        table.add_row(reason.value, *(f"{one.reasons[reason]:,}" for one in balanced))
    return table
