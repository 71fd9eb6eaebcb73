"""Danube's broker, standalone with its defaults, with its own Python client.

The client is in an environment of its own (``.venv-danube``), whose packages conflict with ours: a
client process of this system puts it in front of its path.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.loops import Sender, some_at_once
from benchmarks.sink import RecordSink
from benchmarks.source import RecordSource
from benchmarks.systems.base import System, SystemServer, output_of
from localstack.emulators.server import HOST, free_ports
from localstack.environments import ROOT

VARIABLE = "DANUBE_BROKER"
TOPIC = "/default/bench"
IN_FLIGHT = 64


class Danube(System):
    """One broker; a Reliable topic."""

    name = "danube"
    title = "Danube"
    program = "danube-broker"
    client = "danube"
    mode = (
        f"danube-client: {IN_FLIGHT} sends at once; up to {IN_FLIGHT} acknowledgements at once, "
        "one per message"
    )

    @property
    def executable(self) -> str:
        return os.environ.get(VARIABLE, self.program)

    def unavailable(self) -> str | None:
        given = os.environ.get(VARIABLE)
        if given is None:
            return f"Danube is not measured: set {VARIABLE} to its broker, built from its sources"
        if not Path(given).exists():
            return f"Danube is not measured: {VARIABLE}={given} does not exist"
        if not _packages():
            return "Danube's client is not installed: `python -m localstack.environments danube`"
        return None

    def batch(self, size: int) -> int:
        return IN_FLIGHT

    def version(self) -> str:
        return output_of([self.executable, "--version"]).rpartition(" ")[2] or "unknown"

    def synced(self) -> bool:
        return False

    def durability(self) -> str:
        return (
            "an acknowledgement means held in memory: written up to 5 s later, NOT synced. A crash "
            "of the process loses acknowledged records"
        )

    def start(self, folder: Path) -> SystemServer:
        server = SystemServer(folder / "server.log")
        start_danube(server, self.executable, folder)
        return server.started(30)

    async def produce(self, port: int, source: RecordSource) -> None:
        producer = await _producer(await _client(port), TOPIC)
        await source.ready()
        async for batch in source:
            await asyncio.gather(*(producer.send(payload, {}) for payload in batch))
        source.acknowledged()

    async def consume(self, port: int, sink: RecordSink) -> None:
        client = await _client(port)
        await _producer(client, TOPIC, "creator")  # a consumer does not create the topic
        from danube import SubType  # type: ignore[import-not-found]

        builder = client.new_consumer().with_topic(TOPIC).with_consumer_name("bench")
        builder = builder.with_subscription("bench").with_subscription_type(SubType.EXCLUSIVE)
        consumer = builder.build()
        await consumer.subscribe()
        queue = await consumer.receive()
        await sink.ready()
        room = asyncio.Semaphore(IN_FLIGHT)

        async def acknowledge(message: Any) -> None:
            try:
                await consumer.ack(message)
            finally:
                room.release()

        async with asyncio.TaskGroup() as acknowledging:
            while not sink.done:
                message = await queue.get()
                sink.take_one(message.payload)
                await room.acquire()
                acknowledging.create_task(acknowledge(message))

    @asynccontextmanager
    async def senders(self, port: int, count: int) -> AsyncIterator[list[Sender]]:
        client = await _client(port)

        async def sender(number: int) -> Sender:
            producer = await _producer(client, f"{TOPIC}-{number}")
            return lambda payload: producer.send(payload, {})

        yield await some_at_once(sender, count)


def start_danube(server: SystemServer, program: str, folder: Path) -> None:
    """Start Danube's broker, alone, with its defaults and its data in ``folder``."""
    admin, metrics, raft = (f"{HOST}:{port}" for port in free_ports(3))
    command = [
        *(program, "--mode", "standalone", "--data-dir", str(folder / "data")),
        *("--broker-addr", f"{HOST}:{server.port}", "--admin-addr", admin),
        *("--prom-exporter", metrics, "--raft-addr", raft),
    ]
    server.run(command, {"RUST_LOG": "error"})


def _packages() -> list[str]:
    return [str(path) for path in (ROOT / ".venv-danube").glob("lib/python*/site-packages")]


async def _client(port: int) -> Any:
    sys.path[:0] = [path for path in _packages() if path not in sys.path]
    from danube import DanubeClientBuilder

    return await DanubeClientBuilder().service_url(f"http://{HOST}:{port}").build()


async def _producer(client: Any, topic: str, name: str = "bench") -> Any:
    from danube import DispatchStrategy

    builder = client.new_producer().with_topic(topic).with_name(name)
    producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    return producer
