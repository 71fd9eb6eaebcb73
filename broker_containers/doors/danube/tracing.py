"""Spans of messages that stock clients publish and consume, if the broker sends spans.

Stock clients send none, so the broker does it for them: ``publish`` lasts from the arrival of a
message until it is durable, ``deliver`` from sending it to a consumer until it is acknowledged or
refused. Both belong to the trace that the message's attribute ``traceparent`` names, which stays
as the producer set it. Messages without one cost nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from broker_containers.subscriptions.subscription import Subscription
from storage_grpc.outcomes import Done
from sulina.errors import SulinaError
from sulina.runtime.traces import TRACE_PARENT, MessageSpan, message_span, tracing

_MOST_OPEN: Final = 10_000
"""Messages whose spans are open: beyond that the oldest ends without an outcome."""
_DOOR: Final = {"sulina.door": "danube"}


def published(topic: str, attributes: Mapping[str, str], done: Done) -> Done:
    """``done``, which also ends the span of a message that is being published."""
    span = message_span("publish", topic, attributes.get(TRACE_PARENT, ""), _DOOR)
    if span is None:
        return done

    def settle(error: SulinaError | None) -> None:
        span.end("durable" if error is None else "failed", "" if error is None else str(error))
        done(error)

    return settle


class DeliverySpans:
    """The open spans of messages that were sent to consumers of this door."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[Subscription, int], tuple[MessageSpan, object]] = (
            OrderedDict()
        )

    @property
    def on(self) -> bool:
        """Whether this process sends spans."""
        return tracing()

    def delivered(
        self,
        subscription: Subscription,
        consumer: object,
        topic: str,
        offset: int,
        attributes: Mapping[str, str],
    ) -> None:
        """A message goes to a consumer, perhaps again."""
        about = {
            **_DOOR,
            "messaging.destination.subscription.name": subscription.name,
            "messaging.message.id": f"{topic}@{offset}",
        }
        span = message_span("deliver", topic, attributes.get(TRACE_PARENT, ""), about)
        if span is None:
            return
        self._end([(subscription, offset)], "delivered again", "")
        self._open[subscription, offset] = span, consumer
        if len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)[1][0].end("unknown")

    def acknowledged(self, subscription: Subscription, offsets: Iterable[int]) -> None:
        """Messages were acknowledged."""
        if self._open:
            self._end([(subscription, each) for each in offsets], "acknowledged", "")

    def refused(self, subscription: Subscription, offset: int, reason: str) -> None:
        """A consumer refused a message."""
        self._end([(subscription, offset)], "refused", reason)

    def left(self, consumer: object) -> None:
        """A consumer is gone, with what it had not acknowledged."""
        if self._open:
            held = [key for key, (_, holder) in self._open.items() if holder is consumer]
            self._end(held, "closed", "")

    def _end(self, keys: Iterable[tuple[Subscription, int]], outcome: str, problem: str) -> None:
        for key in keys:
            found = self._open.pop(key, None)
            if found is not None:
                found[0].end(outcome, problem)
