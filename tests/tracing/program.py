"""A program that uses OpenTelemetry: publishes, consumes and refuses, as its argument says."""

from __future__ import annotations

import asyncio
import contextlib
import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import sulina
from sulina import Client, Start
from sulina.errors import TooLarge

SINGLE, BATCHED, HTTP = "/default/single", "/default/batched", "/default/over-http"
SPARK = "/default/from-spark"


async def single(client: Client) -> None:
    """One message, from send to acknowledgement, within a span of the application."""
    async with (
        client.producer(SINGLE) as producer,
        client.consumer(SINGLE, "s", start=Start.earliest()) as c,
    ):
        with trace.get_tracer("shop").start_as_current_span("checkout"):
            await (await producer.send(b"order", attributes={"shop": "7"}))
        message = await c.receive(30)
        assert message.attributes["shop"] == "7"
        await c.ack(message)
        await (await producer.send(b"wrong"))
        await c.nack(await c.receive(30))
        with contextlib.suppress(TooLarge):
            await producer.send(bytes(128 << 20))


async def batched(client: Client) -> None:
    """Three messages in one send, taken as a batch."""
    start = Start.earliest()
    async with (
        client.producer(BATCHED) as producer,
        client.consumer(BATCHED, "s", start=start) as c,
    ):
        await (await producer.send_many([b"a", b"b", b"c"]))
        await c.ack_cumulative(await c.receive_batch(30))


async def of_others(client: Client, topic: str, count: int) -> None:
    """What somebody else published."""
    async with client.consumer(topic, "s", start=Start.earliest()) as c:
        for _ in range(count):
            await c.ack(await c.receive(30))


async def main(url: str) -> None:
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    async with sulina.connect(url) as client:
        await single(client)
        await batched(client)
        await of_others(client, HTTP, 1)
        await of_others(client, SPARK, 2)
    provider.shutdown()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
