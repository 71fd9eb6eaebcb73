"""Spans of a server, sent by OpenTelemetry to the collector that its usual variables name.

Without ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT``) nothing is
imported, and a span costs nothing. Spans are sent in the background, in bounded batches: a
collector that is missing or slow loses spans, and delays nobody.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from sulina.runtime.logs import logged_with, trace_id

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_log = logging.getLogger(__name__)
_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
TRACE_PARENT: Final = "traceparent"
_PARENT: Final[ContextVar[str]] = ContextVar("trace_parent", default="")
_tracers: Final[list[Tracer]] = []
"""At most one: that of this process."""


def start_tracing(service: str, instance: str) -> None:
    """Send spans from now on, if the environment names a collector."""
    if not any(os.environ.get(name) for name in _VARIABLES):
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        _log.warning("no spans are sent: %s; pip install 'sulina[tracing]'", error)
        return
    named = {"service.name": service, "service.instance.id": instance}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    _tracers[:] = [provider.get_tracer("sulina")]


@contextmanager
def caused_by(trace_parent: str) -> Iterator[None]:
    """What happens meanwhile belongs to the trace of a caller; nothing if it named none."""
    trace = trace_id(trace_parent)
    if not trace:
        yield
        return
    before = _PARENT.set(trace_parent)
    try:
        with logged_with(trace=trace):
            yield
    finally:
        _PARENT.reset(before)


@contextmanager
def span(name: str, **attributes: str) -> Iterator[None]:
    """A span of this process, in the caller's trace if it named one. Errors are its outcome."""
    if not _tracers:
        yield
        return
    from opentelemetry import propagate, trace

    parent = propagate.extract({TRACE_PARENT: _PARENT.get()})
    carried: dict[str, str] = {}
    with _tracers[0].start_as_current_span(
        name,
        parent if _PARENT.get() else None,
        kind=trace.SpanKind.SERVER,
        attributes={f"sulina.{key}": value for key, value in attributes.items()},
    ):
        propagate.inject(carried)
        with caused_by(carried.get(TRACE_PARENT, "")):
            yield


def trace_parent() -> str:
    """The context to hand on: of the innermost span, or the caller's own; empty without one."""
    return _PARENT.get()
