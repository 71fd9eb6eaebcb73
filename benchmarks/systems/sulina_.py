"""Sulina with its own client: send_many, a consumer that receives whole batches."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from benchmarks.loops import Sender, some_at_once
from benchmarks.sink import RecordSink
from benchmarks.source import RecordSource
from benchmarks.systems.base import System, SystemServer
from localstack.emulators.server import HOST, free_ports
from sulina.version import __version__

TOPIC = "/default/bench"
SUBSCRIPTION = "bench"


class SulinaSystem(System):
    """`sulina up`: broker and storage in one process, one topic."""

    name = "sulina"
    title = "Sulina"
    program = "sulina"
    client = "sulina.client"
    mode = "sulina.connect: send_many; batches(), one acknowledgement a batch"

    def unavailable(self) -> str | None:
        if importlib.util.find_spec("click") is None:
            return "`sulina up` needs its command line: `pip install 'sulina[all-in-one]'`"
        return None

    def version(self) -> str:
        return __version__

    def durability(self) -> str:
        return "Reliable topic: fdatasync before an acknowledgement, shared by what is in flight"

    def start(self, folder: Path) -> SystemServer:
        server = SystemServer(folder / "server.log")
        server.run(sulina_command("up", folder / "data", server.port))
        return server.started(30)

    async def produce(self, port: int, source: RecordSource) -> None:
        import sulina

        async with (
            sulina.connect(f"sulina://{HOST}:{port}") as client,
            client.producer(TOPIC, delivery=sulina.Delivery.RELIABLE) as producer,
        ):
            await source.ready()
            async for batch in source:
                await producer.send_many(batch)
            await producer.flush()
            source.acknowledged()

    @asynccontextmanager
    async def senders(self, port: int, count: int) -> AsyncIterator[list[Sender]]:
        import sulina

        async with (
            sulina.connect(f"sulina://{HOST}:{port}") as client,
            AsyncExitStack() as stack,
        ):

            async def sender(number: int) -> Sender:
                producer = await stack.enter_async_context(
                    client.producer(f"{TOPIC}-{number}", delivery=sulina.Delivery.RELIABLE)
                )

                async def send(payload: bytes) -> None:
                    await (await producer.send(payload))

                return send

            yield await some_at_once(sender, count)

    async def consume(self, port: int, sink: RecordSink) -> None:
        import sulina

        async with (
            sulina.connect(f"sulina://{HOST}:{port}") as client,
            client.consumer(TOPIC, SUBSCRIPTION, start=sulina.Start.earliest()) as consumer,
        ):
            await sink.ready()
            async for batch in consumer.batches():
                sink.take(batch.payloads)
                await consumer.ack(batch)
                if sink.done:
                    break


class SulinaReplicated(SulinaSystem):
    """`sulina up` with three storage nodes, each a separate process on this machine."""

    name = "sulina-3"
    title = "Sulina, 3 storage nodes"

    def durability(self) -> str:
        return "three copies, two of them synced with fdatasync before an acknowledgement"

    def start(self, folder: Path) -> SystemServer:
        server = SystemServer(folder / "server.log")
        places = [f"--storage-node={place}" for place in start_storage_nodes(server, folder)]
        server.run([*sulina_command("up", folder / "data", server.port), *places], name="broker")
        return server.started(30)


def start_storage_nodes(server: SystemServer, folder: Path) -> list[str]:
    """Start three storage nodes as processes of ``server``; returns ``NAME=HOST:PORT`` of each."""
    nodes = {f"storage-{number}": port for number, port in enumerate(free_ports(3), 1)}
    for name, port in nodes.items():
        server.run([*sulina_command("storage", folder / name, port), "--id", name], name=name)
    return [f"{name}={HOST}:{port}" for name, port in nodes.items()]


def sulina_command(verb: str, data: Path, port: int) -> list[str]:
    """The command that runs `sulina up` or `sulina storage`."""
    command = [sys.executable, "-m", "sulina.cli", verb, "--data", str(data), "--port", str(port)]
    return (
        [*command, "--http-port", "0", "--admin-port", "0", "--grpc-port", "0"]
        if verb == "up"
        else command
    )
