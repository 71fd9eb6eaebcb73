"""Which producers and consumers a client makes: traced ones if the program traces."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sulina.client.consumer import Consumer
    from sulina.client.producer import Producer
    from sulina.client.typed import TypedConsumer


def _traced() -> bool:
    """Whether the program has set up OpenTelemetry; looking loads nothing."""
    loaded = sys.modules.get("opentelemetry.trace")
    if loaded is None:
        return False
    provider = loaded.get_tracer_provider()
    return not isinstance(provider, loaded.ProxyTracerProvider | loaded.NoOpTracerProvider)


def producer_type() -> type[Producer]:
    if _traced():
        from sulina.client.traced import TracedProducer

        return TracedProducer
    from sulina.client.producer import Producer

    return Producer


def consumer_type() -> type[Consumer]:
    if _traced():
        from sulina.client.traced import TracedConsumer

        return TracedConsumer
    from sulina.client.consumer import Consumer

    return Consumer


def typed_consumer_type() -> type[TypedConsumer[Any]]:
    if _traced():
        from sulina.client.traced import TracedTypedConsumer

        return TracedTypedConsumer
    from sulina.client.typed import TypedConsumer

    return TypedConsumer
