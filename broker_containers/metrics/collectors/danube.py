"""The series that Danube's console and tools query, besides those that Sulina has under its names.

Everything is read from the counters of topics at each collection. A topic has them once something
was published to it, and only the reliable ones have those of the log (``danube_wal_``), by which
the console recognises them. ``docs/http.md`` says what each value means here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker_containers.quotas.quotas import QuotaExceeded
from broker_containers.schemas.errors import InvalidPayload
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.topic import Topic
from sulina.errors import NotFound, Refused, SulinaError, TooLarge
from sulina.metrics.exposition import Exposition, MetricType, Write
from sulina.metrics.histogram import Histogram
from sulina.model import Delivery

_QUANTILES: Final = (0.5, 0.95, 0.99)
_COUNTER, _SUMMARY = MetricType.COUNTER, MetricType.SUMMARY
_SENT: Final = "danube_producer_send_total"
_LATENCY: Final = "danube_producer_send_latency_ms"
_SIZE: Final = "danube_topic_message_size_bytes"
_APPENDS: Final = "danube_wal_append_total"
_APPENDED: Final = "danube_wal_append_bytes_total"
_FLUSHES: Final = "danube_wal_flush_total"
_FLUSH: Final = "danube_wal_flush_latency_ms"
_OBJECTS: Final = "danube_cloud_upload_objects_total"
_UPLOADED: Final = "danube_cloud_upload_bytes_total"
_FAMILIES: Final = {
    _SENT: (_COUNTER, "Messages that producers sent, by outcome."),
    _LATENCY: (_SUMMARY, "Milliseconds from receiving a frame until it is durable."),
    # Of no type: the family above is a summary, as in Danube, and its tools query buckets as well.
    f"{_LATENCY}_bucket": (
        MetricType.UNTYPED,
        "Frames by the milliseconds until they were durable.",
    ),
    _SIZE: (_SUMMARY, "Bytes of messages with keys and attributes, before compression."),
    _APPENDS: (_COUNTER, "Frames appended to the topic's log."),
    _APPENDED: (_COUNTER, "Bytes of the frames appended to the topic's log."),
    _FLUSHES: (_COUNTER, "Appends that were made durable; several may share one sync."),
    _FLUSH: (_SUMMARY, "Milliseconds until an append was durable."),
    _OBJECTS: (_COUNTER, "Ledgers of the topic that became objects."),
    _UPLOADED: (_COUNTER, "Bytes of those objects."),
}
_CODES: Final[dict[type[SulinaError], str]] = {
    InvalidPayload: "InvalidArgument",
    TooLarge: "InvalidArgument",
    QuotaExceeded: "ResourceExhausted",
    NotFound: "NotFound",
    Refused: "FailedPrecondition",
    SulinaError: "Unavailable",
}
"""Outcomes in Danube's words: the status that its clients get."""


class DanubeSeries:
    """The lines of one collection; ``add`` each topic, then ``write`` them."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {name: [] for name in _FAMILIES}

    def add(self, topic: Topic) -> None:
        """Adds nothing for a topic that was not published to."""
        counters, label = topic.counters, f'topic="{topic.name}"'
        if not counters.frames_in and not topic.failed:
            return
        sent = {("ok", "OK"): counters.records_in}
        for kind, count in topic.failed.items():
            code = next(_CODES[each] for each in kind.__mro__ if each in _CODES)
            sent["error", code] = sent.get(("error", code), 0) + count
        for (result, code), count in sent.items():
            labels = f'{label},result="{result}",error_code="{code}"'
            self._lines[_SENT].append(f"{_SENT}{{{labels}}} {count}")
        self._lines[_LATENCY] += _summary(_LATENCY, label, topic.latency)
        buckets = self._lines[f"{_LATENCY}_bucket"]
        for bound, count in (*topic.latency.cumulative(), ("+Inf", topic.latency.count)):
            buckets.append(f'{_LATENCY}_bucket{{{label},le="{bound}"}} {count}')
        self._lines[_SIZE] += (
            f"{_SIZE}_sum{{{label}}} {counters.raw_bytes}",
            f"{_SIZE}_count{{{label}}} {counters.records_in}",
        )
        if topic.delivery is Delivery.RELIABLE:
            self._add_log(topic, label)

    def _add_log(self, topic: Topic, label: str) -> None:
        counters = topic.counters
        for name, value in (
            (_APPENDS, counters.frames_in),
            (_APPENDED, counters.bytes_in),
            (_FLUSHES, counters.frames_in),
        ):
            self._lines[name].append(f"{name}{{{label}}} {value}")
        self._lines[_FLUSH] += _summary(_FLUSH, label, topic.latency)
        if isinstance(topic.log, ManagedLedger):
            tiered = topic.log.tiered
            self._lines[_OBJECTS].append(f'{_OBJECTS}{{{label},result="ok"}} {tiered.objects}')
            self._lines[_UPLOADED].append(f"{_UPLOADED}{{{label}}} {tiered.bytes}")

    def write(self, text: Exposition) -> None:
        """Add all families."""
        for name, (kind, help_) in _FAMILIES.items():
            text.family(name, kind, help_, self._lines[name])


def _summary(name: str, label: str, seen: Histogram) -> Iterator[str]:
    for quantile in _QUANTILES:
        yield f'{name}{{{label},quantile="{quantile}"}} {seen.quantile(quantile):.6g}'
    yield f"{name}_sum{{{label}}} {seen.sum:.9g}"
    yield f"{name}_count{{{label}}} {seen.count}"


def write_leadership(text: Exposition, *, leads: bool, cv: float | None) -> None:
    """Who leads, and on the leader how unevenly load is spread, 0 being evenly."""
    text.gauge("danube_leader_election_state", "1 on the leader.", int(leads))
    if cv is not None:
        text.gauge(
            "danube_cluster_imbalance_cv",
            "Standard deviation of the brokers' loads as a share of their mean.",
            cv,
        )


def of_single_broker() -> Write:
    """A single broker leads a cluster of one."""
    return lambda text: write_leadership(text, leads=True, cv=0.0)
