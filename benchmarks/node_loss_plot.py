"""Latency over time around the loss of a node: every record of every repetition is a dot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

from benchmarks.plot import COLOURS, FAINT, STYLE

Curve = tuple[Sequence[float], Sequence[float]]
"""When records were due, in seconds since the kill, and how long each took."""


def write_plot(repetitions: Sequence[Curve], path: Path) -> None:
    """Draw them over each other, on a logarithmic scale, as SVG."""
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(8, 3.2))
        for due, latency in repetitions:
            axes.plot(
                due,
                [1000 * seconds for seconds in latency],
                linestyle="none",
                marker=".",
                markersize=1.5,
                color=COLOURS["sulina-3"],
                rasterized=True,
            )
        axes.axvline(0, color=FAINT, linewidth=1)
        axes.set_yscale("log")
        axes.set_xlabel("seconds since a storage node was killed")
        axes.set_ylabel("publish latency, ms")
        figure.tight_layout()
        figure.savefig(path)
        pyplot.close(figure)
