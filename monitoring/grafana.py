"""What a dashboard shows, and how Grafana wants it written.

A dashboard is rows of panels; a panel is a title, a unit and queries. Everything else (sizes,
colours, places) follows here, so that all dashboards look the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
_COLUMNS: Final = 24
_HEIGHTS: Final = {"stat": 4, "timeseries": 8, "table": 9}


class Unit(StrEnum):
    """Grafana's names of units."""

    COUNT = "short"
    PER_SECOND = "cps"
    BYTES = "bytes"
    BYTES_PER_SECOND = "Bps"
    MILLISECONDS = "ms"
    SECONDS = "s"
    SHARE = "percentunit"


class Kind(StrEnum):
    """How a panel draws its queries."""

    STAT = "stat"
    """One number, with a colour from its thresholds."""
    LINES = "timeseries"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Query:
    """A query in PromQL, and the name of its series; ``{{label}}`` stands for a label's value."""

    expr: str
    legend: str = ""
    exemplars: bool = False
    """Whether its series have exemplars, which are drawn as points that lead to traces."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart, number or table."""

    title: str
    unit: Unit
    queries: Sequence[Query]
    about: str
    """What a reader should know: what is good, and where to look if it is not."""
    kind: Kind = Kind.LINES
    bad_from: float | None = None
    """From this value on, a number is red; below it, green."""
    bad_below: float | None = None
    """Below this value, a number is red; from it on, green."""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels side by side under a heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a dashboard: the values of a label."""

    name: str
    series: str
    """A query for the series that have the label."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page in Grafana; ``uid`` is in its address and must not change."""

    uid: str
    title: str
    about: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = ()

    def queries(self) -> list[str]:
        """All that it asks Prometheus, its choices included."""
        panels = [panel for row in self.rows for panel in row.panels]
        asked = [query.expr for panel in panels for query in panel.queries]
        return [*asked, *(each.series for each in self.variables)]


def to_json(dashboard: Dashboard) -> dict[str, Any]:
    """The dashboard as Grafana imports it (schema 39, Grafana 10 and newer)."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["sulina"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [
            {
                "type": "dashboards",
                "title": "Sulina",
                "tags": ["sulina"],
                "asDropdown": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": [_source(), *map(_variable, dashboard.variables)]},
        "panels": _panels(dashboard.rows),
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values({variable.series}, {variable.name})",
        "refresh": 2,
        "sort": 1,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panels(rows: Sequence[Row]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
        made.append(_numbered({"type": "row", "title": row.title, "gridPos": place}, made))
        top += 1
        width = _COLUMNS // len(row.panels)
        height = max(_HEIGHTS[panel.kind] for panel in row.panels)
        for number, panel in enumerate(row.panels):
            place = {"x": number * width, "y": top, "w": width, "h": height}
            made.append(_numbered({**_panel(panel), "gridPos": place}, made))
        top += height
    return made


def _numbered(panel: dict[str, Any], before: Sequence[object]) -> dict[str, Any]:
    return {"id": len(before) + 1, **panel}


def _panel(panel: Panel) -> dict[str, Any]:
    table = panel.kind is Kind.TABLE
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.kind is Kind.LINES:
        defaults["custom"] = {"lineWidth": 1, "fillOpacity": 8, "showPoints": "never"}
    else:
        defaults["thresholds"] = {"mode": "absolute", "steps": _steps(panel)}
    written = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend or "__auto",
                **({"exemplar": True} if query.exemplars else {}),
                **({"instant": True, "format": "table"} if table else {}),
            }
            for number, query in enumerate(panel.queries)
        ],
    }
    if table:
        written["transformations"] = [
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True, "__name__": True, "job": True},
                    "renameByName": {"Value": panel.title},
                },
            }
        ]
    return written


def _steps(panel: Panel) -> list[dict[str, Any]]:
    if panel.bad_from is not None:
        return [{"color": "green", "value": None}, {"color": "red", "value": panel.bad_from}]
    if panel.bad_below is not None:
        return [{"color": "red", "value": None}, {"color": "green", "value": panel.bad_below}]
    return [{"color": "text", "value": None}]
