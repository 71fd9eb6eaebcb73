"""Plots throughput, latency and memory, with Sulina's ratio above each other bar."""

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
    OURS: "#0b7285",
    "sulina-3": "#66a9b5",
    "nats": "#e8a33d",
    "redis": "#c2553f",
    "rabbitmq": "#8f7fb8",
}
INK = "#22303a"
FAINT = "#8a979f"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlepad": 12,
    "grid.color": "#e3e8eb",
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.bottom": False,
    "svg.hashsalt": "sulina",
}
WIDTH = 0.84  # of a group of bars


def write_plot(results: RunResults, path: Path) -> None:
    """Draw ``results`` into an SVG file. The same results give the same file."""
    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplot_mosaic(
            [["throughput", "throughput"], ["latency", "memory"]],
            figsize=(12, 9.5),
            height_ratios=[1.15, 1],
        )
        _throughput(panels["throughput"], results)
        _latency(panels["latency"], results)
        _memory(panels["memory"], results)
        _legend(figure, results)
        figure.tight_layout(rect=(0, 0.055, 1, 0.935), h_pad=3, w_pad=3)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _throughput(axes: Any, results: RunResults) -> None:
    cells = results.measured(load="throughput")
    sizes = sorted({cell.cell.size for cell in cells})
    groups = [[cell for cell in cells if cell.cell.size == size] for size in sizes]
    _bars(
        axes,
        results.systems,
        groups,
        value=lambda cell: cell.records_per_s,
        label=lambda cell: count_name(cell.records_per_s),
        better=lambda cell: _better(results, cell, "throughput"),
    )
    axes.set_xticks(range(len(sizes)), [f"{size_name(size)} records" for size in sizes])
    axes.set_title("Records a second, end to end, 1 producer and 1 consumer (more is better)")
    disk = results.yardsticks.sequential_mb_per_s
    for place, size in enumerate(sizes):
        limit = disk * 1e6 / size
        axes.hlines(limit, place - WIDTH / 2, place + WIDTH / 2, color=INK, ls=":", lw=1.2)
    note = f"dotted: plain sequential write, one fdatasync a MiB ({disk:,.0f} MB/s)"
    axes.set_xlabel(note, fontsize=8.5)
    _log(axes, [cell.records_per_s for cell in cells] + [disk * 1e6 / size for size in sizes])
    axes.yaxis.set_major_formatter(lambda value, _: count_name(value))


def _latency(axes: Any, results: RunResults) -> None:
    cells = results.measured(load="latency")
    axes.set_title("Latency end to end, ms (less is better)")
    names = (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"))

    def of(name: str) -> Callable[[CellResult], float]:
        return lambda cell: float(getattr(cell.latency, name))

    for place, (name, _) in enumerate(names):
        value = of(name)
        _bars(
            axes,
            results.systems,
            [cells],
            value=value,
            label=lambda cell, value=value: (  # type: ignore[misc]
                f"{value(cell):.3g}" + ("" if kept_rate(cell) else "*")
            ),
            better=lambda cell, name=name: _better(results, cell, name),  # type: ignore[misc]
            start=place,
        )
        bare = float(getattr(results.yardsticks.sync, name))
        axes.hlines(bare, place - WIDTH / 2, place + WIDTH / 2, color=INK, ls=":", lw=1.2)
    axes.set_xticks(range(len(names)), [label for _, label in names])
    notes = ["dotted: a bare 4 KiB append + fdatasync"]
    if cells:
        notes.insert(0, f"at {cells[0].cell.rate:,} msg/s of {size_name(cells[0].cell.size)}")
    if not all(kept_rate(cell) for cell in cells):
        notes.append("* rate not kept: a queue grew")
    axes.set_xlabel("; ".join(notes), fontsize=8.5)
    values = [of(name)(cell) for cell in cells for name, _ in names]
    _log(axes, [*values, results.yardsticks.sync.p50])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _memory(axes: Any, results: RunResults) -> None:
    # The maximum of all cells: what a machine must have.
    largest = [
        max(cells, key=lambda cell: cell.peak_memory)
        for system in results.systems
        if (cells := results.measured(system=system.name))
    ]
    ours = next((cell for cell in largest if cell.cell.system == OURS), None)

    def better(cell: CellResult) -> str:
        if ours is None or cell is ours:
            return ""
        return times_name(cell.peak_memory / ours.peak_memory)

    _bars(
        axes,
        results.systems,
        [largest],
        value=lambda cell: cell.peak_memory / (1 << 20),
        label=lambda cell: memory_name(cell.peak_memory),
        better=better,
    )
    axes.set_xticks([])
    axes.set_title("Peak memory of the server, MiB (less is better)")
    axes.set_xlabel("the largest of all cells, children included", fontsize=8.5)
    axes.margins(y=0.18)


def _bars(
    axes: Any,
    systems: Sequence[SystemInfo],
    groups: Sequence[Sequence[CellResult]],
    *,
    value: Callable[[CellResult], float],
    label: Callable[[CellResult], str],
    better: Callable[[CellResult], str],
    start: int = 0,
) -> None:
    """Groups of bars, each with its value and, in color, Sulina's ratio to it."""
    order = {system.name: place for place, system in enumerate(systems)}
    step = WIDTH / max(len(order), 1)
    for place, group in enumerate(groups, start):
        for cell in group:
            x = place - WIDTH / 2 + (order[cell.cell.system] + 0.5) * step
            height = value(cell)
            axes.bar(x, height, step * 0.9, **_look(systems[order[cell.cell.system]]))
            place_above = {"xy": (x, height), "textcoords": "offset points", "ha": "center"}
            weight = "bold" if cell.cell.system == OURS else "normal"
            number = axes.annotate(
                label(cell), xytext=(0, 3), fontsize=8.5, fontweight=weight, **place_above
            )
            number.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8})
            if ratio := better(cell):
                look = {"fontsize": 8.5, "fontweight": "bold", "color": COLOURS[OURS]}
                axes.annotate(ratio, xytext=(0, 15), **look, **place_above)


def _look(system: SystemInfo) -> dict[str, Any]:
    """Hatched if an acknowledgement guarantees less than Sulina's."""
    look = {"facecolor": COLOURS.get(system.name, FAINT), "edgecolor": "white", "linewidth": 0}
    return look if system.synced else {**look, "hatch": "///"}


def _better(results: RunResults, cell: CellResult, measure: str) -> str:
    ours = results.ours(cell)
    if ours is None or ours is cell:
        return ""
    return times_name(getattr(advantage(ours, cell), measure))


def _log(axes: Any, values: Sequence[float]) -> None:
    """A logarithmic scale with space for two labels above the highest bar."""
    shown = [value for value in values if value > 0]
    if shown:
        axes.set_yscale("log")
        axes.set_ylim(min(shown) / 3, max(shown) * 3)
        axes.minorticks_off()


def _legend(figure: Any, results: RunResults) -> None:
    handles = [pyplot.Rectangle((0, 0), 1, 1, **_look(system)) for system in results.systems]
    titles = [
        f"{system.title} {system.version}" + ("" if system.synced else " (not synced)")
        for system in results.systems
    ]
    figure.legend(
        handles, titles, loc="upper left", bbox_to_anchor=(0.012, 0.965), ncols=4, frameon=False
    )
    figure.suptitle(
        "Sulina and other messaging systems, each with its Python client",
        x=0.018,
        y=0.985,
        ha="left",
        fontsize=14,
        fontweight="bold",
    )
    machine = results.machine
    figure.text(
        0.018,
        0.012,
        "Coloured: how many times better Sulina is. Hatched: acknowledges before data is synced "
        "to disk, so a power failure loses acknowledged records.\n"
        f"{machine.processor}, {machine.cores} cores, {machine.filesystem}, {machine.kernel}, "
        f"Python {machine.python}, {results.when}",
        fontsize=8,
        color=INK,
    )
