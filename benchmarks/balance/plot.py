"""Plots the simulation: plans of all sizes and skews, and scenarios with and without balancing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

from benchmarks.balance.run import BalanceOutcome, Point
from benchmarks.balance.start import GOAL, StartResult
from benchmarks.plot import COLOURS, FAINT, INK, STYLE
from benchmarks.systems import OURS
from benchmarks.units import count_name

ON = COLOURS[OURS]
OFF = COLOURS["redis"]
POINTS = 160
"""Maximum points per line: more are not visible and make the file large."""


def write_plot(
    starts: Sequence[StartResult], outcomes: Sequence[BalanceOutcome], path: Path
) -> None:
    """Draw everything into ``path``. The same results give the same file."""
    names = list(dict.fromkeys(one.scenario.name for one in outcomes))
    rows = (1 if starts else 0) + (len(names) + 1) // 2
    with pyplot.rc_context(STYLE):
        figure, grid = pyplot.subplots(rows, 2, figsize=(12, 3.6 * rows), squeeze=False)
        panels = list(grid.flat)
        if starts:
            _moved(panels.pop(0), starts)
            _times(panels.pop(0), starts)
        for name in names:
            _hours(panels.pop(0), [one for one in outcomes if one.scenario.name == name])
        for panel in panels:
            panel.set_axis_off()
        figure.tight_layout(h_pad=2.5, w_pad=3)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)


def _moved(axes: Any, starts: Sequence[StartResult]) -> None:
    size = max((one.brokers, one.topics) for one in _by_skew(starts))
    shown = [one for one in _by_skew(starts) if (one.brokers, one.topics) == size]
    places = range(len(shown))
    width = 0.27
    for shift, colour, label, values in (
        (-1, ON, "moved by the plan", [one.moved_share for one in shown]),
        (0, "#66a9b5", f"moved when {GOAL:g} x bound was reached",
         [one.moved_to_goal or 0.0 for one in shown]),
        (1, FAINT, f"least possible for {GOAL:g} x mean", [one.least_for_mean for one in shown]),
    ):  # fmt: skip
        bars = axes.bar(
            [place + shift * width for place in places],
            [100 * value for value in values],
            width,
            color=colour,
            label=label,
        )
        axes.bar_label(bars, [f"{100 * value:.1f}" for value in values], fontsize=7.5, padding=2)
    axes.axhline(2, color=INK, ls=":", lw=1.2)
    axes.set_xticks(places, [f"{one.alpha:g}" if one.alpha else "equal" for one in shown])
    axes.set_xlabel(
        f"skew (Pareto tail index; 1.16 is 80/20), {size[0]:,} brokers, {size[1]:,} topics; "
        "dotted: 2 %",
        fontsize=8.5,
    )
    axes.set_title("Load moved from a random start, %")
    axes.legend(frameon=False, fontsize=8.5, loc="upper left")


def _by_skew(starts: Sequence[StartResult]) -> list[StartResult]:
    """The starts of the size with the most skews."""
    sizes = [(one.brokers, one.topics) for one in starts]
    common = max(sizes, key=sizes.count)
    return [one for one in starts if (one.brokers, one.topics) == common]


def _times(axes: Any, starts: Sequence[StartResult]) -> None:
    for label, colour, seconds in (
        ("plan", ON, [one.plan_seconds for one in starts]),
        ("view", "#e8a33d", [one.view_seconds for one in starts]),
        ("learning from every report", FAINT, [one.learn_seconds for one in starts]),
    ):
        axes.scatter(
            [one.topics for one in starts],
            seconds,
            s=26,
            color=colour,
            label=label,
        )
    for topics, limit in ((100_000, 1.0), (1_000_000, 5.0)):
        axes.hlines(limit, topics / 2, topics * 2, color=INK, ls=":", lw=1.2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: count_name(value))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.set_xlabel("topics, 100 a broker; dotted: the goals for a plan", fontsize=8.5)
    axes.set_title("CPU seconds of one decision")
    axes.legend(frameon=False, fontsize=8.5, loc="upper left")


def _hours(axes: Any, outcomes: Sequence[BalanceOutcome]) -> None:
    for outcome in sorted(outcomes, key=lambda one: one.scenario.balancing):
        on = outcome.scenario.balancing
        points = _thinned(outcome.points)
        axes.plot(
            [one.hours for one in points],
            [one.max_over_mean for one in points],
            color=ON if on else OFF,
            lw=1.3,
            label="balancing" if on else "without",
        )
    first = next((one for one in outcomes if one.scenario.balancing), outcomes[0])
    scenario = first.scenario
    axes.axhline(1, color=FAINT, lw=0.8)
    axes.set_title(f"{scenario.name}: {scenario.brokers} brokers, {scenario.topics:,} topics")
    axes.set_ylabel("highest load / mean")
    axes.set_xlabel(
        f"virtual hours; {first.moves:,} moves, {first.moved:.1%} of the load, "
        f"{first.oscillations} oscillations",
        fontsize=8.5,
    )
    axes.set_ylim(bottom=0.95)
    axes.legend(frameon=False, fontsize=8.5)


def _thinned(points: Sequence[Point]) -> list[Point]:
    """The maximum of every few points, so that no peak is hidden."""
    size = max(1, len(points) // POINTS)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [max(group, key=lambda one: one.max_over_mean) for group in groups]
