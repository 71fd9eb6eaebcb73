"""Prometheus' text format and OpenMetrics, written without the client library.

OpenMetrics is for scrapers that ask for it: only it has exemplars, which lead from a bucket of a
histogram to a trace. Names and values of series are the same in both.

The client library creates an object per sample and formats it again at every collection, which
blocks the event loop for seconds with thousands of topics. Joining strings takes a tenth of that
time (measured in docs/http.md) and can be done in portions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from math import inf
from typing import Protocol

from sulina.metrics.histogram import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_OPEN_METRICS = "application/openmetrics-text"
_TOTAL = "_total"
_DANUBES = "danube_"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class MetricType(StrEnum):
    """The type of a metric family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    UNTYPED = "untyped"


def labels(values: Mapping[str, str]) -> str:
    """The labels of a sample as written, braces included."""
    if not values:
        return ""
    return "{" + ",".join(f'{name}="{escape(value)}"' for name, value in values.items()) + "}"


def escape(value: str) -> str:
    """A label's value as written between quotes."""
    return value.translate(_ESCAPES)


def wants_open_metrics(accept: str) -> bool:
    """Whether the header ``Accept`` of a scraper names OpenMetrics, as Prometheus does."""
    for each in accept.lower().split(","):
        name, *parameters = (part.strip() for part in each.split(";"))
        if name == _OPEN_METRICS:
            return not any(re.fullmatch(r"q=0(\.0*)?", one) for one in parameters)
    return False


Samples = float | Iterable[tuple[Mapping[str, str], float]]
"""One value without labels, or one value per set of labels."""


def _lines(name: str, value: Samples) -> Iterable[str]:
    if isinstance(value, Iterable):
        return [f"{name}{labels(each)} {one}" for each, one in value]
    return [f"{name} {value}"]


class Sees(Protocol):
    """Whether the reader may see the name of a topic, of a namespace (``/shop/*``), or of a
    subscription of a topic."""

    def __call__(self, scope: str, subscription: str = "", /) -> bool: ...


def _sees_all(scope: str, subscription: str = "", /) -> bool:
    return True


class Exposition:
    """The text of one collection. All samples of a family must be added together."""

    def __init__(
        self, sees: Sees | None = None, broker: str = "", *, open_metrics: bool = False
    ) -> None:
        """``sees`` limits what may be named; without it everything may be.

        ``broker`` is a label of the families that are named as Danube's: its panels ask by it.
        """
        self.sees: Sees = sees or _sees_all
        self.open_metrics = open_metrics
        self._broker = f'broker="{escape(broker)}"' if broker else ""
        self._families: list[bytes] = []

    def family(self, name: str, kind: MetricType, help_: str, lines: Iterable[str]) -> None:
        """Add a family whose sample lines are already formatted."""
        if self._broker and name.startswith(_DANUBES):
            lines = map(self._with_broker, lines)
        if self.open_metrics:
            name, kind_name = _as_open_metrics(name, kind)
        else:
            kind_name = kind
        head = f"# HELP {name} {help_}\n# TYPE {name} {kind_name}"
        self._families.append("\n".join((head, *lines, "")).encode())

    def _with_broker(self, line: str) -> str:
        name, brace, rest = line.partition("{")
        if brace:
            return f"{name}{{{self._broker},{rest}"
        name, _, rest = line.partition(" ")
        return f"{name}{{{self._broker}}} {rest}"

    def counter(self, name: str, help_: str, value: Samples) -> None:
        """Add a counter."""
        self.family(name, MetricType.COUNTER, help_, _lines(name, value))

    def gauge(self, name: str, help_: str, value: Samples) -> None:
        """Add a gauge."""
        self.family(name, MetricType.GAUGE, help_, _lines(name, value))

    def histogram(self, name: str, help_: str, value: Histogram) -> None:
        """Add a histogram without labels; in OpenMetrics with its exemplars."""
        counts = [*value.cumulative(), (inf, value.count)]
        lines = [
            f'{name}_bucket{{le="{_bound(bound)}"}} {count}{self._exemplar(value, bucket)}'
            for bucket, (bound, count) in enumerate(counts)
        ]
        lines.append(f"{name}_sum {value.sum}")
        lines.append(f"{name}_count {value.count}")
        self.family(name, MetricType.HISTOGRAM, help_, lines)

    def _exemplar(self, value: Histogram, bucket: int) -> str:
        found = value.exemplars.get(bucket) if self.open_metrics else None
        if found is None:
            return ""
        return f' # {{trace_id="{found.trace}"}} {found.value:.6g} {found.at_seconds:.3f}'

    def encode(self) -> bytes:
        """The whole text."""
        return b"".join((*self._families, b"# EOF\n" if self.open_metrics else b""))


def _bound(value: float) -> str:
    return "+Inf" if value == inf else f"{value:g}"


def _as_open_metrics(name: str, kind: MetricType) -> tuple[str, str]:
    """The name and type of a family there: a counter's series end with ``_total``, its name does
    not. Counters that are named otherwise keep their series, without a type."""
    if kind is MetricType.COUNTER and name.endswith(_TOTAL):
        return name.removesuffix(_TOTAL), kind
    return name, "unknown" if kind in (MetricType.COUNTER, MetricType.UNTYPED) else kind


Write = Callable[[Exposition], None]
"""Adds metric families to a collection."""
