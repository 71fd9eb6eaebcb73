"""Load reports: what a broker reports to the leader every few seconds.

A report always fits into a metadata value: the heaviest topics are listed individually, in columns,
all others as one sum. Readers ignore unknown fields, so that brokers of two versions can run
together.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any

from sulina.errors import Refused
from sulina.runtime.resources import Resources, Usage

DETAILED_TOPICS = 1_000
"""Individually reported topics; about 100 bytes each."""
MAX_NAME_BYTES = 400_000
"""Maximum size of their names together, so that a report fits into a metadata value."""


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """One topic on one broker. Rates are per second."""

    name: str
    records_in: float = 0.0
    bytes_in: float = 0.0
    records_out: float = 0.0
    bytes_out: float = 0.0
    producers: int = 0
    consumers: int = 0
    backlog: int = 0
    """Bytes that the slowest subscription has not received."""


COLUMNS = tuple(column.name for column in fields(TopicLoad))[1:]
_RESOURCES = tuple(resource.name for resource in fields(Resources))


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The resources and topics of a broker at one moment of its own wall clock."""

    broker: str
    wall_us: int
    resources: Resources = field(default_factory=Resources)
    topics: tuple[TopicLoad, ...] = ()
    """The heaviest topics."""
    rest: TopicLoad = TopicLoad("")
    """The sum of all topics that are not in ``topics``."""
    rest_count: int = 0
    connections: int = 0
    latency_ms: float = 0.0
    """Publish latency in the broker (99th percentile): high on an unhealthy machine."""

    @property
    def topic_count(self) -> int:
        """Number of all topics of the broker."""
        return len(self.topics) + self.rest_count

    @classmethod
    def bounded(
        cls,
        broker: str,
        wall_us: int,
        resources: Resources,
        topics: Iterable[TopicLoad],
        *,
        connections: int = 0,
        latency_ms: float = 0.0,
        detailed: int = DETAILED_TOPICS,
    ) -> LoadReport:
        """The ``detailed`` heaviest ``topics`` (fewer if names are long), the others as a sum."""
        everything = list(topics)
        heaviest = heapq.nlargest(
            detailed, range(len(everything)), key=lambda place: work(everything[place])
        )
        # A name of 255 characters may take four times as many bytes.
        sizes = accumulate(len(everything[place].name.encode()) for place in heaviest)
        fitting = sum(size <= MAX_NAME_BYTES for size in sizes)
        chosen = set(heaviest[:fitting])
        told = [everything[place] for place in heaviest[:fitting]]
        others = [topic for place, topic in enumerate(everything) if place not in chosen]
        told.sort(key=lambda topic: topic.name)
        sums = {name: sum(getattr(topic, name) for topic in others) for name in COLUMNS}
        rest = TopicLoad("", **sums)
        return cls(
            broker, wall_us, resources, tuple(told), rest, len(others), connections, latency_ms
        )

    def to_bytes(self) -> bytes:
        """Compact JSON, topics as columns; numbers are rounded to what decisions need."""
        document: dict[str, Any] = {
            "v": 1,
            "broker": self.broker,
            "wall_us": self.wall_us,
            "resources": {
                name: [_short(usage.used), _short(usage.limit)]
                for name in _RESOURCES
                if (usage := getattr(self.resources, name)) != Usage()
            },
            "topics": {
                "name": [topic.name for topic in self.topics],
                **{
                    column: [_short(getattr(topic, column)) for topic in self.topics]
                    for column in COLUMNS
                },
            },
            "rest": {column: _short(getattr(self.rest, column)) for column in COLUMNS},
            "rest_count": self.rest_count,
            "connections": self.connections,
            "latency_ms": _short(self.latency_ms),
        }
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> LoadReport:
        """Read a report; unknown fields are ignored. Raises ``Refused`` if it is not a report."""
        try:
            document = json.loads(data)
            return cls(
                broker=_string(document["broker"]),
                wall_us=int(document["wall_us"]),
                resources=_resources(document.get("resources", {})),
                topics=tuple(_topics(document.get("topics", {}))),
                rest=_topic("", document.get("rest", {})),
                rest_count=_count(document.get("rest_count", 0)),
                connections=_count(document.get("connections", 0)),
                latency_ms=_rate(document.get("latency_ms", 0.0)),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise Refused(
                f"this is not a load report ({error!r}): the broker writes a new one within seconds"
            ) from error


def work(topic: TopicLoad) -> float:
    """A topic's work in records: 512 bytes count as one record."""
    return (
        topic.records_in + topic.records_out + (topic.bytes_in + topic.bytes_out) / BYTES_A_RECORD
    )


BYTES_A_RECORD = 512.0


def _topics(columns: dict[str, Any]) -> Iterable[TopicLoad]:
    names: Sequence[str] = columns.get("name", [])
    rows = [columns.get(column) or [0] * len(names) for column in COLUMNS]
    if any(len(row) != len(names) for row in rows):
        raise ValueError("columns of different lengths")
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        yield _topic(_string(name), dict(zip(COLUMNS, values, strict=True)))


def _topic(name: str, values: dict[str, Any]) -> TopicLoad:
    get = values.get
    return TopicLoad(
        name,
        _rate(get("records_in", 0)),
        _rate(get("bytes_in", 0)),
        _rate(get("records_out", 0)),
        _rate(get("bytes_out", 0)),
        _count(get("producers", 0)),
        _count(get("consumers", 0)),
        _count(get("backlog", 0)),
    )


def _resources(values: dict[str, Any]) -> Resources:
    known = {name: values[name] for name in _RESOURCES if name in values}
    return Resources(
        **{name: Usage(_rate(used), _rate(limit)) for name, (used, limit) in known.items()}
    )


def _rate(value: Any) -> float:
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError(f"{value!r} is not a rate")
    return number


def _count(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(f"{value!r} is not a count")
    return number


def _string(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a name")
    return value


def _short(value: float) -> float:
    """Four significant digits of a small number, whole numbers otherwise."""
    if isinstance(value, int) or value >= 1_000:
        return round(value)
    return float(f"{value:.4g}")
