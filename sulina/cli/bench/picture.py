"""Shows a waterfall: as text with bars, or as an SVG picture."""

from __future__ import annotations

from typing import Final

from sulina.cli.bench.waterfall import Waterfall

_WIDTH: Final = 24
"""Characters of a bar that is as long as everything together."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_ROW: Final = 22
_LABEL: Final = 150
_BARS: Final = 330
_COLOURS: Final = ("#4c78a8", "#e45756")


def lines(found: Waterfall) -> list[str]:
    """One line per stage: its own p50 and p99, and its part of a record's time at both."""
    titles = (f"at p50: {found.total_p50:.2f} ms", f"at p99: {found.total_p99:.2f} ms")
    shown = [
        f"time of {found.records:,} records by stage, in ms",
        f"{'':14} {'p50':>7} {'p99':>7}   {titles[0]:<{_WIDTH + 9}} {titles[1]}",
    ]
    reached_p50 = reached_p99 = 0.0
    for stage in found.stages:
        bar_p50 = _bar(reached_p50, stage.at_p50, found.total_p50)
        bar_p99 = _bar(reached_p99, stage.at_p99, found.total_p99)
        shown.append(
            f"{stage.name:14} {stage.p50:7.3f} {stage.p99:7.3f}   "
            f"{bar_p50} {stage.at_p50:7.3f}  {bar_p99} {stage.at_p99:7.3f}"
        )
        reached_p50 += stage.at_p50
        reached_p99 += stage.at_p99
    if found.acknowledged_p50 is not None:
        shown.append(
            f"{'acknowledged':14} {found.acknowledged_p50:7.3f} {found.acknowledged_p99:7.3f}   "
            "until the producer has its acknowledgement"
        )
    return shown


def _bar(start: float, length: float, total: float) -> str:
    """A bar at its place in the time of a record; short ones show as a part of a character."""
    scale = _WIDTH / total if total else 0.0
    before = min(int(start * scale), _WIDTH - 1)
    whole, rest = divmod(round(length * scale * 8), 8)
    bar = "█" * whole + (_EIGHTHS[rest] if rest else "")
    return (" " * before + (bar or "▏"))[:_WIDTH].ljust(_WIDTH)


def svg(found: Waterfall, title: str) -> str:
    """The same as a picture, both percentiles side by side, each on its own scale."""
    height = (len(found.stages) + 3) * _ROW
    width = _LABEL + 2 * (_BARS + 80)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(8, _ROW - 6, title),
    ]
    reached = [0.0, 0.0]
    totals = (found.total_p50, found.total_p99)
    for column, name in enumerate(("p50", "p99")):
        parts.append(_text(_left(column), 2 * _ROW - 6, f"{name}: {totals[column]:.2f} ms"))
    for number, stage in enumerate(found.stages):
        top = (number + 2) * _ROW
        parts.append(_text(8, top + 14, stage.name))
        for column, part in enumerate((stage.at_p50, stage.at_p99)):
            scale = _BARS / totals[column] if totals[column] else 0.0
            left = _left(column) + reached[column] * scale
            reached[column] += part
            length = max(part * scale, 1.0)
            parts.append(
                f'<rect x="{left:.1f}" y="{top + 3}" width="{length:.1f}" height="{_ROW - 8}" '
                f'fill="{_COLOURS[column]}"><title>{stage.meaning}</title></rect>'
            )
            parts.append(_text(left + length + 4, top + 14, f"{part:.3f}"))
    return "\n".join((*parts, "</svg>", ""))


def _left(column: int) -> int:
    return _LABEL + column * (_BARS + 80)


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y}">{text}</text>'
