"""Prometheus' text format, written without its client library.

That library creates an object per sample and formats it again at every collection, which blocks
the event loop for seconds with thousands of topics. Joining strings takes a tenth of that time
(measured in docs/http.md) and can be done in portions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Protocol

from sulina.metrics.histogram import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
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

    def __init__(self, sees: Sees | None = None, broker: str = "") -> None:
        """``sees`` limits what may be named; without it everything may be.

        ``broker`` is a label of the families that are named as Danube's: its panels ask by it.
        """
        self.sees: Sees = sees or _sees_all
        self._broker = f'broker="{escape(broker)}"' if broker else ""
        self._families: list[bytes] = []

    def family(self, name: str, kind: MetricType, help_: str, lines: Iterable[str]) -> None:
        """Add a family whose sample lines are already formatted."""
        if self._broker and name.startswith(_DANUBES):
            lines = map(self._with_broker, lines)
        head = f"# HELP {name} {help_}\n# TYPE {name} {kind}"
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
        """Add a histogram without labels."""
        counts = value.cumulative()
        lines = [f'{name}_bucket{{le="{bound:g}"}} {count}' for bound, count in counts]
        lines.append(f'{name}_bucket{{le="+Inf"}} {value.count}')
        lines.append(f"{name}_sum {value.sum}")
        lines.append(f"{name}_count {value.count}")
        self.family(name, MetricType.HISTOGRAM, help_, lines)

    def encode(self) -> bytes:
        """The whole text."""
        return b"".join(self._families)


Write = Callable[[Exposition], None]
"""Adds metric families to a collection."""
