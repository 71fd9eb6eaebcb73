"""Producers and consumers that trace their messages, for programs that use OpenTelemetry.

A producer's span lasts from ``send`` until the record is durable; its W3C trace context travels in
the record's attributes (``traceparent``, ``tracestate``). A consumer's span, in the same trace,
lasts from the moment a message is taken until it is acknowledged or refused. Clients make these
only if the program has loaded ``opentelemetry.trace``: others have nowhere to send spans, and pay
nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from opentelemetry import propagate, trace
from opentelemetry.context import Context

from sulina.client.consumer import Consumer
from sulina.client.message import Batch, Message
from sulina.client.producer import Producer
from sulina.client.tickets import Ticket
from sulina.client.typed import TypedConsumer, TypedMessage
from sulina.errors import SulinaError
from sulina.runtime.seam import Buffer

T = TypeVar("T")
_TRACE_PARENT: Final = "traceparent"
_MOST_OPEN: Final = 10_000
"""Messages whose spans are open: beyond that the oldest ends without an outcome."""
_MOST_LINKS: Final = 128


def _named(operation: str, topic: str) -> dict[str, str]:
    return {
        "messaging.system": "sulina",
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }


class TracedProducer(Producer):
    """A producer with a span for each send."""

    async def send(
        self,
        payload: Buffer | None,
        *,
        attributes: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Ticket:
        """Like ``Producer.send``."""
        span = self._begin(1)
        carried = _carried(span, attributes)
        return await self._traced(span, super().send(payload, attributes=carried, **options))

    async def send_many(
        self,
        payloads: Sequence[Buffer | None],
        *,
        attributes: Sequence[Mapping[str, str] | None] | None = None,
        **options: Any,
    ) -> Ticket:
        """Like ``Producer.send_many``; one span for all records."""
        span = self._begin(len(payloads))
        given = attributes if attributes is not None else [None] * len(payloads)
        carried = [_carried(span, each) for each in given]
        return await self._traced(span, super().send_many(payloads, attributes=carried, **options))

    def _begin(self, records: int) -> trace.Span:
        span = trace.get_tracer("sulina").start_span(
            f"publish {self.topic}",
            kind=trace.SpanKind.PRODUCER,
            attributes=_named("send", self.topic),
        )
        if records != 1:
            span.set_attribute("messaging.batch.message_count", records)
        return span

    async def _traced(self, span: trace.Span, sending: Any) -> Ticket:
        try:
            ticket: Ticket = await sending
        except BaseException as error:
            _fail(span, error)
            raise
        ticket.when_settled(lambda: _settle(span, ticket))
        return ticket


def _carried(span: trace.Span, attributes: Mapping[str, str] | None) -> dict[str, str]:
    """The attributes of a record, with the span's context."""
    carried = dict(attributes or {})
    propagate.inject(carried, trace.set_span_in_context(span))
    return carried


def _settle(span: trace.Span, ticket: Ticket) -> None:
    try:
        stored = ticket.result()
    except SulinaError as error:
        _fail(span, error)
    else:
        span.set_attribute("messaging.message.id", f"{stored.topic}@{stored.offset}")
        span.end()


def _fail(span: trace.Span, error: BaseException) -> None:
    span.record_exception(error)
    span.set_status(trace.StatusCode.ERROR, str(error))
    span.end()


class _Traces(Consumer):
    """A consumer with a span for each message that carries a trace context."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._spans: OrderedDict[tuple[str, int], trace.Span] = OrderedDict()

    async def receive(self, timeout: float | None = None) -> Message:
        """Like ``Consumer.receive``."""
        return self._begun(await super().receive(timeout))

    async def __anext__(self) -> Message:
        return self._begun(await super().__anext__())

    async def receive_batch(self, timeout: float | None = None) -> Batch:
        """Like ``Consumer.receive_batch``; one span, with links to the messages' traces."""
        batch = await super().receive_batch(timeout)
        carried = [each for each in batch.attributes or () if _TRACE_PARENT in each]
        if carried:
            spans = (trace.get_current_span(propagate.extract(each)) for each in carried)
            links = [trace.Link(span.get_span_context()) for span in spans][:_MOST_LINKS]
            self._begin(batch.topic, batch.offsets[0], None, links)
        return batch

    async def ack(self, item: Message | Batch) -> None:
        """Like ``Consumer.ack``."""
        await super().ack(item)
        self._end(_keys(item), "acknowledged")

    async def ack_cumulative(self, item: Message | Batch) -> None:
        """Like ``Consumer.ack_cumulative``."""
        await super().ack_cumulative(item)
        topic, last = _keys(item)[-1]
        done = [key for key in self._spans if key[0] == topic and key[1] <= last]
        self._end(done, "acknowledged")

    async def nack(self, item: Message | Batch, **options: Any) -> None:
        """Like ``Consumer.nack``."""
        await super().nack(item, **options)
        self._end(_keys(item), "refused")

    async def _leave(self) -> None:
        self._end(list(self._spans), "closed")
        await super()._leave()

    def _begun(self, message: Message) -> Message:
        carried = message.attributes
        if _TRACE_PARENT in carried:
            self._begin(message.topic, message.offset, propagate.extract(carried), ())
        return message

    def _begin(
        self, topic: str, offset: int, parent: Context | None, links: Sequence[trace.Link]
    ) -> None:
        span = trace.get_tracer("sulina").start_span(
            f"process {topic}",
            context=parent,
            kind=trace.SpanKind.CONSUMER,
            links=links,
            attributes={
                **_named("process", topic),
                "messaging.destination.subscription.name": self.subscription,
                "messaging.message.id": f"{topic}@{offset}",
            },
        )
        self._spans[topic, offset] = span
        if len(self._spans) > _MOST_OPEN:
            self._spans.popitem(last=False)[1].end()

    def _end(self, keys: Iterable[tuple[str, int]], outcome: str) -> None:
        for key in keys:
            span = self._spans.pop(key, None)
            if span is not None:
                span.set_attribute("messaging.sulina.outcome", outcome)
                if outcome == "refused":
                    span.set_status(trace.StatusCode.ERROR, "the consumer refused the message")
                span.end()


class TracedConsumer(_Traces):
    """A consumer with spans."""


class TracedTypedConsumer(_Traces, TypedConsumer[T], Generic[T]):
    """A consumer of values with spans."""

    async def receive(self, timeout: float | None = None) -> TypedMessage[T]:
        """Like ``TypedConsumer.receive``."""
        return self._typed(await super().receive(timeout))

    async def __anext__(self) -> TypedMessage[T]:
        return self._typed(await super().__anext__())


def _keys(item: Message | Batch) -> list[tuple[str, int]]:
    if isinstance(item, Message):
        return [(item.topic, item.offset)]
    return [(item.topic, offset) for offset in item.offsets]
