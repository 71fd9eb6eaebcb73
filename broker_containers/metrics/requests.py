"""Counts requests by service, method and result."""

from __future__ import annotations

from sulina.metrics.exposition import Exposition
from sulina.metrics.histogram import LATENCY_MS, Histogram


class Answered:
    """The requests of one method, by result."""

    __slots__ = ("errors", "ok")

    def __init__(self) -> None:
        self.ok = 0
        self.errors = 0


class RequestCounts:
    """The requests of all doors. ``method`` comes from a fixed set of names, never from a client:
    every name is a series."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Answered] = {}
        self._closed: dict[tuple[str, str], int] = {}

    def add(self, service: str, method: str, *, ok: bool) -> None:
        """Count one answered request."""
        counted = self.of(service, method)
        if ok:
            counted.ok += 1
        else:
            counted.errors += 1

    def of(self, service: str, method: str) -> Answered:
        """What counts the requests of one method."""
        return self._counts.setdefault((service, method), Answered())

    def closed(self, door: str, reason: str) -> None:
        """Count a gRPC connection that was closed because its client broke a rule or a limit."""
        self._closed[door, reason] = self._closed.get((door, reason), 0) + 1

    def write(self, text: Exposition) -> None:
        text.counter(
            "sulina_grpc_connections_closed_total",
            "Connections closed because the client broke the protocol or a limit.",
            (
                ({"door": door, "reason": reason}, count)
                for (door, reason), count in sorted(self._closed.items())
            ),
        )
        text.counter(
            "danube_broker_rpc_total",
            "Requests answered.",
            (
                ({"service": service, "method": method, "result": result}, count)
                for (service, method), counted in sorted(self._counts.items())
                for result, count in (("error", counted.errors), ("ok", counted.ok))
                if count
            ),
        )


class RequestMetrics:
    """The requests of one door, with their durations."""

    def __init__(self, service: str, counts: RequestCounts) -> None:
        self._service = service
        self._counts = counts
        self._latency = Histogram(LATENCY_MS)

    def add(self, method: str, *, ok: bool, milliseconds: float) -> None:
        """Count one answered request."""
        self._counts.add(self._service, method, ok=ok)
        self._latency.add(milliseconds)

    def write(self, text: Exposition) -> None:
        text.histogram(
            f"sulina_{self._service}_request_duration_ms",
            "Milliseconds from a request to its response.",
            self._latency,
        )
