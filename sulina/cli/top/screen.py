"""Draws ``sulina top``: tables that fit the terminal, numbers with units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from sulina.cli.top.fitting import UNKNOWN, FittingTable
from sulina.cli.top.view import HELP, Mode, Seen, View
from sulina.operations.overview import BrokerOverview, Concern, SubscriptionConcern, TopicTraffic
from sulina.operations.subscriptions import SubscriptionRow
from sulina.runtime.terminal import visible

_UNITS: Final = ("", "k", "M", "G", "T")
_FIXED_LINES: Final = 12
"""Headings, totals and help."""
_TOPIC_COLUMNS: Final = {
    "topic": "topic",
    "records_in": "in/s",
    "bytes_in": "bytes in/s",
    "records_out": "out/s",
    "bytes_out": "bytes out/s",
    "backlog": "backlog",
}


def short(value: float | None, unit: str = "") -> str:
    """A number in three digits: ``1.24k``, ``356``, ``12.0M``; ``-`` if it is unknown."""
    if value is None:
        return UNKNOWN
    size = 0
    while abs(value) >= 999.5 and size < len(_UNITS) - 1:
        value, size = value / 1000, size + 1
    digits = 0 if abs(value) >= 100 or (not size and value == int(value)) else 1 + (abs(value) < 10)
    return f"{value:.{digits}f}{_UNITS[size]}{unit}"


def drawn(seen: Seen, view: View, height: int | None = None) -> RenderableType:
    """The whole screen; without ``height`` everything, for a pipe or ``--once``."""
    overview = seen.overview
    parts: list[RenderableType] = [_totals(seen, view), _brokers(overview.brokers, overview.silent)]
    if view.mode is Mode.TOPIC:
        parts.append(_subscriptions(view.topic, seen.subscriptions))
    else:
        room = None if height is None else max(height - _FIXED_LINES - len(overview.brokers), 4)
        topics = view.topics(overview)
        wanted = len(seen.attention) if room is None else min(len(seen.attention), room // 3)
        parts.append(_topics(topics[: None if room is None else room - wanted], view))
        if seen.attention:
            parts.append(_attention(seen.attention[:wanted], len(seen.attention)))
    if height is not None:
        parts.append(Text(HELP, style="dim"))
    return Group(*parts)


def _totals(seen: Seen, view: View) -> Text:
    total, silent = seen.overview.total, seen.overview.silent
    line = Text.assemble(
        ("sulina ", "bold"),
        f"in {short(total.records_in)}/s {short(total.bytes_in, 'B/s')}  ",
        f"out {short(total.records_out)}/s {short(total.bytes_out, 'B/s')}  ",
        f"backlog {short(total.backlog)}  ",
        f"publish p50 {short(total.p50_ms, ' ms')} p99 {short(total.p99_ms, ' ms')}",
    )
    if seen.attention:
        line.append(f"  {len(seen.attention)} need attention", "bold yellow")
    if silent:
        line.append(f"  silent: {', '.join(silent)}", "bold red")
    if view.paused:
        line.append("  paused", "bold")
    return line


def _brokers(brokers: Sequence[BrokerOverview], silent: Sequence[str]) -> FittingTable:
    headings = ["broker", "state", "topics", "producers", "consumers", "in/s", "out/s", "backlog"]
    headings += ["p99 ms", "disk used", "tier lag s"]
    optional = ("disk used", "producers", "consumers", "tier lag s", "topics", "p99 ms")
    table = FittingTable("brokers", headings, optional, texts=2)
    for each in brokers:
        bad = [name for name, part in each.parts.items() if not part.ok]
        degraded = ", ".join(name for name, part in each.parts.items() if part.warning)
        fine = f"degraded: {degraded}" if degraded else "overloaded" if each.overloaded else "ok"
        state = ", ".join(bad) or fine
        now = each.now
        table.add_row(
            each.broker,
            Text(
                state,
                "green" if state == "ok" else "yellow" if degraded and not bad else "bold red",
            ),
            short(each.topics),
            short(each.producers),
            short(each.consumers),
            short(now.records_in),
            short(now.records_out),
            short(now.backlog),
            short(now.p99_ms),
            _used(each),
            UNKNOWN if each.tier is None else short(each.tier.lag_seconds),
        )
    for name in silent:
        table.add_row(name, Text("silent", "bold red"))
    return table


def _used(broker: BrokerOverview) -> str:
    if not broker.disk_bytes or broker.disk_free_bytes is None:
        return UNKNOWN
    return f"{1 - broker.disk_free_bytes / broker.disk_bytes:.0%}"


def _topics(topics: Sequence[TopicTraffic], view: View) -> RenderableType:
    said = f", with {view.filter!r}" if view.filter else ""
    title = f"busiest topics by {_TOPIC_COLUMNS[view.sort]}{said}"
    if view.mode is Mode.FILTER:
        title += " (type, then enter)"
    optional = ("bytes out/s", "bytes in/s", "out/s", "backlog")
    table = FittingTable(title, list(_TOPIC_COLUMNS.values()), optional)
    for number, each in enumerate(topics):
        table.add_row(
            each.topic,
            short(each.records_in),
            short(each.bytes_in),
            short(each.records_out),
            short(each.bytes_out),
            short(each.backlog),
            style="reverse" if number == view.selected and view.shown else "",
        )
    if topics:
        return table
    empty = (
        "no topic has this in its name"
        if view.filter
        else "no topic had traffic in the last seconds"
    )
    return Group(Text(title, style="italic"), Text(f"  {empty}", style="dim"))


def _attention(concerns: Sequence[SubscriptionConcern], count: int) -> FittingTable:
    title = f"need attention: {count}"
    headings = ("topic", "subscription", "why", "backlog", "growth/s")
    table = FittingTable(title, headings, ("growth/s", "backlog"), texts=3)
    for each in concerns:
        why = each.concern.replace("_", " ")
        style = "red" if each.concern in (Concern.STALLED, Concern.FAILING) else "yellow"
        table.add_row(
            each.topic,
            visible(each.subscription),
            Text(why, style),
            short(each.backlog),
            short(each.growth),
        )
    return table


def _subscriptions(topic: str, rows: Sequence[SubscriptionRow]) -> RenderableType:
    headings = ("subscription", "type", "position", "backlog", "consumers")
    table = FittingTable(topic, headings, ("position", "consumers"), texts=2)
    for each in rows:
        table.add_row(
            visible(each.subscription),
            each.type,
            f"{each.position:,}",
            short(each.backlog),
            short(each.consumers),
        )
    if rows:
        return table
    return Group(Text(topic, style="italic"), Text("  it has no subscriptions", style="dim"))
