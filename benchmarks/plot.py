"""Plots a run: one panel per measure, one bar per system, with the value and Sulina's ratio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

from benchmarks.cell import CellResult
from benchmarks.compare import advantage, kept_rate
from benchmarks.results import RunResults, SystemInfo
from benchmarks.systems import OURS
from benchmarks.units import count_name, memory_name, size_name, times_name

# Sulina stands out; the other colors can be told apart by color-blind readers.
COLOURS = {
    "sulina": "#0b7285",
    "kafka": "#4c5b66",
    "pulsar": "#5b8def",
    "nats": "#e8a33d",
    "redis": "#c2553f",
    "rabbitmq": "#8f7fb8",
    "danube": "#6a9a5b",
}
INK = "#22303a"
FAINT = "#8a979f"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 10,
    "grid.color": "#e3e8eb",
    "xtick.color": INK,
    "ytick.color": INK,
    "ytick.left": False,
    "svg.hashsalt": "sulina",
}


def write_plot(results: RunResults, path: Path) -> None:
    """Draw ``results`` into an SVG file. The same results give the same file."""
    with pyplot.rc_context(STYLE):
        height = 2.6 + 0.52 * len(results.systems)
        figure, panels = pyplot.subplots(2, 3, figsize=(14, height), sharey=True)
        sizes = sorted({cell.cell.size for cell in results.measured(load="throughput")})
        for axes, size in zip(panels[0], (*sizes, None, None, None), strict=False):
            _throughput(axes, results, size)
        _latency(panels[1][0], results)
        _loop(panels[1][1], results)
        _memory(panels[1][2], results)
        _titles(figure, results)
        figure.tight_layout(rect=(0, 0.06, 1, 0.94), h_pad=2, w_pad=1.5)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _throughput(axes: Any, results: RunResults, size: int | None) -> None:
    if size is None:
        axes.set_axis_off()
        return
    disk = results.yardsticks.sequential_mb_per_s * 1e6 / size
    _bars(
        axes,
        results,
        [cell for cell in results.measured(load="throughput") if cell.cell.size == size],
        value=lambda cell: cell.records_per_s,
        label=lambda cell: count_name(cell.records_per_s),
        measure="throughput",
        limit=disk,
    )
    axes.set_title(f"records/s of {size_name(size)}, end to end (more is better)")


def _latency(axes: Any, results: RunResults) -> None:
    cells = [cell for cell in results.measured(load="latency") if cell.latency is not None]
    _bars(
        axes,
        results,
        cells,
        value=lambda cell: cell.latency.p99 if cell.latency else 0.0,
        label=lambda cell: (
            f"{_ms(cell.latency.p50)} / {_ms(cell.latency.p99)} / {_ms(cell.latency.p999)}"
            + ("" if kept_rate(cell) else " *")
            if cell.latency
            else ""
        ),
        measure="p99",
        limit=results.yardsticks.sync.p99,
    )
    pace = f" at {cells[0].cell.rate:,}/s of {size_name(cells[0].cell.size)}" if cells else ""
    axes.set_title(f"p99 ms{pace} (less is better)")
    axes.set_xlabel("p50 / p99 / p99.9 end to end; * rate not kept: a queue grew", fontsize=8)


def _loop(axes: Any, results: RunResults) -> None:
    cells = results.measured(load="loop")
    _bars(
        axes,
        results,
        cells,
        value=lambda cell: cell.records_per_s,
        label=lambda cell: (
            count_name(cell.records_per_s)
            + (f", p99 {_ms(cell.latency.p99)} ms" if cell.latency else "")
        ),
        measure="throughput",
    )
    count = f"{cells[0].cell.loops:,} " if cells else ""
    axes.set_title(f"sends/s of {count}producers, one in flight each")


def _memory(axes: Any, results: RunResults) -> None:
    # The maximum of all cells: what a machine must have.
    largest = [
        max(cells, key=lambda cell: cell.peak_memory)
        for system in results.systems
        if (cells := results.measured(system=system.name))
    ]
    _bars(
        axes,
        results,
        largest,
        value=lambda cell: cell.peak_memory / (1 << 20),
        label=lambda cell: memory_name(cell.peak_memory),
        measure="",
    )
    axes.set_title("peak memory of the server, MiB")
    axes.set_xlabel("the largest of all cells, children included", fontsize=8)


def _bars(
    axes: Any,
    results: RunResults,
    cells: Sequence[CellResult],
    *,
    value: Callable[[CellResult], float],
    label: Callable[[CellResult], str],
    measure: str,
    limit: float | None = None,
) -> None:
    """A bar per system, with its value and, in color, Sulina's ratio to it, on a log scale."""
    rows = {system.name: row for row, system in enumerate(results.systems)}
    shown = [value(cell) for cell in cells if value(cell) > 0]
    for cell in cells:
        row = rows[cell.cell.system]
        axes.barh(row, value(cell), 0.72, **_look(results.systems[row]))
        weight = "bold" if cell.cell.system == OURS else "normal"
        place = {"xy": (value(cell), row), "textcoords": "offset points", "va": "center"}
        text = label(cell)
        axes.annotate(text, xytext=(4, 0), fontsize=8, fontweight=weight, **place)
        if ratio := _better(results, cell, measure):
            look = {"fontsize": 8, "fontweight": "bold", "color": COLOURS[OURS]}
            axes.annotate(ratio, xytext=(9 + 4.9 * len(text), 0), **look, **place)
    if limit is not None and shown:
        axes.axvline(limit, color=INK, ls=":", lw=1.2)
        shown.append(limit)
    if shown:
        axes.set_xscale("log")
        # Room for the labels to the right of the longest bar.
        axes.set_xlim(min(shown) / 2, max(shown) * (max(shown) / min(shown)) ** 0.6 * 4)
        axes.minorticks_off()
    axes.set_yticks(range(len(rows)), [_title(system) for system in results.systems])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(lambda number, _: count_name(number))


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _title(system: SystemInfo) -> str:
    return system.title if system.synced else f"{system.title} †"


def _look(system: SystemInfo) -> dict[str, Any]:
    """Hatched if an acknowledgement guarantees less than Sulina's."""
    colour = COLOURS.get(system.name.partition("-")[0], FAINT)
    look = {"facecolor": colour, "edgecolor": "white", "linewidth": 0}
    if system.name.partition("-")[2].startswith("3"):
        look["alpha"] = 0.6
    return look if system.synced else {**look, "hatch": "///"}


def _better(results: RunResults, cell: CellResult, measure: str) -> str:
    ours = results.ours(cell)
    if not measure or ours is None or ours is cell:
        return ""
    return times_name(getattr(advantage(ours, cell), measure))


def _titles(figure: Any, results: RunResults) -> None:
    figure.suptitle(
        "Sulina and other messaging systems, each with its Python client",
        x=0.012,
        ha="left",
        fontsize=14,
        fontweight="bold",
    )
    machine = results.machine
    figure.text(
        0.012,
        0.012,
        "Coloured: how many times better Sulina's single process is. † and hatched: acknowledges "
        "before data is synced to disk, so a power failure loses acknowledged records. Dotted: the "
        "disk alone.\n"
        f"{machine.processor}, {machine.cores} cores, {machine.filesystem}, {machine.kernel}, "
        f"Python {machine.python}, {results.when}",
        fontsize=8,
        color=INK,
    )
