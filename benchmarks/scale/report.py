"""Prints what was measured about scale: one table per kind."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from benchmarks.program import table_of

FILE = "scale.json"
HIDDEN = {"when", "topics_of", "cpu_seconds", "units", "topics", "connections"}
Kept = dict[str, dict[str, dict[str, Any]]]


def print_points(kept: Kept, console: Console) -> None:
    """One table per kind: a column per point."""
    for kind, points in kept.items():
        table = table_of(kind, "", *points)
        for name in _names(points):
            table.add_row(name, *(_text(name, point.get(name)) for point in points.values()))
        console.print(table)


def markdown(kept: Kept) -> str:
    """The same tables in Markdown."""
    lines: list[str] = []
    for kind, points in kept.items():
        lines += [f"| {kind} | {' | '.join(points)} |", "|---" * (len(points) + 1) + "|"]
        for name in _names(points):
            row = [_text(name, point.get(name)) for point in points.values()]
            lines.append(f"| {name.replace('_', ' ')} | {' | '.join(row)} |")
        lines.append("")
    return "\n".join(lines)


def _names(points: dict[str, dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for point in points.values() for name in point)
    return [name for name in names if name not in HIDDEN]


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return " / ".join(_text(name, each) for each in value.values())
    if name.startswith("memory"):
        return f"{value / 1024:,.1f} KiB" if "_per_" in name else f"{value / (1 << 20):,.0f} MiB"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)
