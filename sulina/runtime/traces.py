"""Spans of a server, sent by OpenTelemetry to the collector that its usual variables name.

Without ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT``) nothing is
imported, and a span costs nothing. Spans are sent in the background, in bounded batches: a
collector that is missing or slow loses spans, and delays nobody.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from sulina.runtime.logs import logged_with, sampled_trace, trace_id

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

_log = logging.getLogger(__name__)
_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
TRACE_PARENT: Final = "traceparent"
_PARENT: Final[ContextVar[str]] = ContextVar("trace_parent", default="")
_tracers: Final[list[Tracer]] = []
"""At most one: that of this process."""
_providers: Final[list[TracerProvider]] = []
_FLUSH_MS: Final = 5_000


def start_tracing(service: str, instance: str, *, clients: bool = True) -> None:
    """Send spans from now on, if the environment names a collector; nothing if it does already.

    Producers and consumers in this process send spans, too, unless ``clients`` is false.
    """
    if _tracers or not any(os.environ.get(name) for name in _VARIABLES):
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
    if clients:
        trace.set_tracer_provider(provider)
    _providers[:] = [provider]
    _tracers[:] = [provider.get_tracer("sulina")]


def flush_spans() -> None:
    """Send what waits, for processes that may be ended without notice; blocks up to 5 seconds."""
    for provider in _providers:
        provider.force_flush(_FLUSH_MS)


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
def span(name: str, served: bool = True, /, **attributes: str) -> Iterator[None]:
    """A span of this process, in the caller's trace if it named one. Errors are its outcome.

    ``served`` says that it answers a request of somebody else.
    """
    if not _tracers:
        yield
        return
    from opentelemetry import propagate, trace

    parent = propagate.extract({TRACE_PARENT: _PARENT.get()})
    carried: dict[str, str] = {}
    with _tracers[0].start_as_current_span(
        name,
        parent if _PARENT.get() else None,
        kind=trace.SpanKind.SERVER if served else trace.SpanKind.INTERNAL,
        attributes={f"sulina.{key}": value for key, value in attributes.items()},
    ):
        propagate.inject(carried)
        with caused_by(carried.get(TRACE_PARENT, "")):
            yield


class MessageSpan:
    """An open span of one message. End it exactly once."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def end(self, outcome: str, problem: str = "") -> None:
        """``problem`` makes it an error."""
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("messaging.sulina.outcome", outcome)
        if problem:
            self._span.set_status(StatusCode.ERROR, problem)
        self._span.end()


def message_span(
    operation: str, topic: str, parent: str, attributes: Mapping[str, str]
) -> MessageSpan | None:
    """Begin the span of a message for a client that sends none itself, in the message's trace.

    None if this process sends no spans, or ``parent`` is no trace context that is recorded.
    """
    if not _tracers or not sampled_trace(parent):
        return None
    from opentelemetry import propagate, trace

    return MessageSpan(
        _tracers[0].start_span(
            f"{operation} {topic}",
            propagate.extract({TRACE_PARENT: parent}),
            kind=trace.SpanKind.SERVER,
            attributes={
                "messaging.system": "sulina",
                "messaging.operation.type": operation,
                "messaging.destination.name": topic,
                **attributes,
            },
        )
    )


def tracing() -> bool:
    """Whether this process sends spans."""
    return bool(_tracers)


def trace_parent() -> str:
    """The context to hand on: of the innermost span, or the caller's own; empty without one."""
    return _PARENT.get()
