"""Plots CPU and memory per unit against the amount of work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

from benchmarks.plot import COLOURS, STYLE
from benchmarks.scale.report import Kept

PER_RECORD = "µs of broker CPU/record"
PANELS = (
    (
        "topics",
        "topics, 64 records in flight",
        "server_cpu_us_per_record",
        "µs of broker CPU/record",
    ),
    ("producers", "producers on one topic", "server_cpu_us_per_record", "µs of broker CPU/record"),
    ("sizes", "bytes of a record", "server_cpu_ns_per_byte", "ns of broker CPU/byte"),
    ("history", "GB in one topic", "server_cpu_us_per_record", "µs of broker CPU/record"),
)


def write_plot(kept: Kept, path: Path) -> None:
    """Draw the kinds that were measured: CPU per unit above, memory below."""
    with pyplot.rc_context({**STYLE, "axes.grid.axis": "both"}):
        figure, axes = pyplot.subplots(2, len(PANELS), figsize=(15, 6.5), squeeze=False)
        for place, (kind, title, measure, unit) in enumerate(PANELS):
            points = sorted(kept.get(kind, {}).values(), key=lambda point: float(point["units"]))
            x = [float(point["units"]) for point in points]
            _line(axes[0][place], x, [point[measure] for point in points], unit)
            memory = [point["memory"] / (1 << 20) for point in points]
            _line(axes[1][place], x, memory, "MiB of broker memory")
            axes[0][place].set_title(title)
        figure.suptitle("Cost as the work grows", x=0.012, ha="left", fontweight="bold")
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _line(axes: Any, x: list[float], y: list[float], unit: str) -> None:
    axes.set_ylabel(unit)
    if not x:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center")
        return
    axes.plot(x, y, marker="o", color=COLOURS["sulina"])
    axes.set_xscale("log")
    axes.set_ylim(0, max(y) * 1.15)
