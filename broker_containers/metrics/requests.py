"""Counts requests by door, operation and outcome: few names, so few series."""

from __future__ import annotations

from collections import Counter

from broker_containers.metrics.exposition import Exposition, Kind
from broker_containers.metrics.histogram import LATENCY_MS, Histogram


class RequestMetrics:
    """``method`` is one of a fixed set of names, never what a client sent."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._counts: Counter[tuple[str, str]] = Counter()
        self._latency = Histogram(LATENCY_MS)

    def add(self, method: str, *, ok: bool, milliseconds: float) -> None:
        """One request was answered."""
        self._counts[method, "ok" if ok else "error"] += 1
        self._latency.add(milliseconds)

    def write(self, text: Exposition) -> None:
        text.each(
            "danube_broker_rpc_total",
            Kind.COUNTER,
            "Requests answered.",
            (
                ({"service": self._service, "method": method, "result": result}, count)
                for (method, result), count in sorted(self._counts.items())
            ),
        )
        text.histogram(
            f"sulina_{self._service}_request_duration_ms",
            "Milliseconds from a request to its answer.",
            self._latency,
        )
