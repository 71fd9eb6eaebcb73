"""What real brokers and storage nodes export, and the reference that is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

_UNITS = {"seconds": "seconds", "ms": "milliseconds", "bytes": "bytes"}
_RARE = {
    "sulina_balance_not_moved": ["reason"],
    "sulina_certificate_expires_seconds": ["file"],
    "sulina_grpc_connections_closed_total": ["door", "reason"],
    "sulina_quota_refusals_total": ["limit"],
    **{
        f"sulina_table_{name}": ["topic"]
        for name in (
            *("behind_seconds", "commits_total", "conflicts_total", "lacking_records"),
            *("newest_age_seconds", "objects", "records", "rejected_records", "snapshots"),
        )
    },
}
"""The labels of families that have no series in a healthy cluster without TLS or tables."""
_TYPES = {"unknown": "untyped"}
_OF_HISTOGRAMS = {"le", "quantile"}
HEAD = (
    "# Metrics\n\n"
    "What `/metrics` of a broker and of a storage node exports, made from a running cluster: "
    "`python -m tests.monitoring > docs/reference/metrics.md`. [Watch and alert]"
    "(../howto/watch_and_alert.md) says which ones to look at, [http.md](../http.md#metrics) who "
    "may see what.\n\n"
    "Histograms have `_bucket{le}`, `_sum` and `_count`. Series whose names begin with `danube_` "
    "have the names that Danube's dashboards ask for, and the label `broker`.\n"
)


@dataclass(frozen=True, slots=True)
class Scraped:
    """The metric families of one process, by the name that queries use."""

    families: Mapping[str, Metric]

    @classmethod
    def of(cls, text: str) -> Scraped:
        found: dict[str, Metric] = {}
        for family in text_string_to_metric_families(text):
            found[family.name + ("_total" * _counts(family, text))] = family
        return cls(found)

    def labels(self, name: str) -> list[str]:
        """The labels of a family, in the order of their first sample."""
        samples = self.families[name].samples
        if not samples:
            return _RARE[name]
        seen = {label: None for one in samples for label in one.labels}
        return [label for label in seen if label not in _OF_HISTOGRAMS]

    def family(self, series: str) -> str | None:
        """The family that a series of a query belongs to."""
        for end in ("", "_bucket", "_sum", "_count"):
            name = series.removesuffix(end) if end else series
            if name in self.families:
                return name
        return None


def _counts(family: Metric, text: str) -> bool:
    """The parser takes ``_total`` off a counter's name."""
    return family.type == "counter" and f"# TYPE {family.name}_total counter" in text


def reference(broker: Scraped, node: Scraped) -> str:
    """The page with every metric: name, type, labels, unit and meaning."""
    return "\n".join(
        [
            HEAD,
            "## Of a broker",
            *_table(broker),
            "",
            "## Of a storage node",
            *_table(node),
            "",
        ]
    )


def _table(scraped: Scraped) -> list[str]:
    rows = ["| metric | type | labels | unit | what |", "|---|---|---|---|---|"]
    for name in sorted(scraped.families):
        family = scraped.families[name]
        labels = ", ".join(f"`{label}`" for label in scraped.labels(name))
        cells = _TYPES.get(family.type, family.type), labels, _unit(name), _said(family)
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return rows


def _unit(name: str) -> str:
    return next((_UNITS[word] for word in name.split("_") if word in _UNITS), "")


def _said(family: Metric) -> str:
    return str(family.documentation).replace("|", "\\|")
