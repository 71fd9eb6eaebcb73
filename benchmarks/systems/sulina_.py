"""Sulina with its own client: send_many, a consumer that takes whole batches."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import ClassVar

from benchmarks.sink import Sink
from benchmarks.source import Source
from benchmarks.systems.base import HOST, Address, Server, System, free_port, started
from sulina.version import __version__

TOPIC = "/default/bench"
SUBSCRIPTION = "bench"


class Sulina(System):
    """`sulina up`: broker and storage in one process, one topic."""

    name: ClassVar[str] = "sulina"
    title: ClassVar[str] = "Sulina"
    program: ClassVar[str] = "sulina"
    client: ClassVar[str] = "sulina.client"
    mode: ClassVar[str] = "sulina.connect: send_many; batches(), one acknowledgement a batch"

    def unavailable(self) -> str | None:
        if importlib.util.find_spec("click") is None:
            return "`sulina up` needs its command line: `pip install 'sulina[all-in-one]'`"
        return None

    def version(self) -> str:
        return __version__

    def synced(self) -> bool:
        return True

    def durability(self) -> str:
        return "Reliable topic: fdatasync before an acknowledgement, shared by what is in flight"

    def start(self, folder: Path) -> Server:
        server = Server(Address(HOST, free_port()), folder / "server.log")
        port = str(server.address.port)
        server.run(
            [
                sys.executable,
                "-m",
                "sulina.cli",
                "up",
                "--data",
                str(folder / "data"),
                "--port",
                port,
            ]
        )
        return started(server, 30)

    async def produce(self, address: Address, source: Source) -> None:
        import sulina

        async with (
            sulina.connect(f"sulina://{address.host}:{address.port}") as client,
            client.producer(TOPIC, delivery=sulina.Delivery.RELIABLE) as producer,
        ):
            await source.ready()
            async for batch in source:
                await producer.send_many(batch)
            await producer.flush()
            source.acknowledged()

    async def consume(self, address: Address, sink: Sink) -> None:
        import sulina

        async with (
            sulina.connect(f"sulina://{address.host}:{address.port}") as client,
            client.consumer(TOPIC, SUBSCRIPTION, start=sulina.Start.earliest()) as consumer,
        ):
            await sink.ready()
            async for batch in consumer.batches():
                sink.take(batch.payloads)
                await consumer.ack(batch)
                if sink.done:
                    break
