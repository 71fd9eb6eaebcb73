"""Sulina with its own client: send_many, a consumer that receives whole batches."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import ClassVar

from benchmarks.sink import RecordSink
from benchmarks.source import RecordSource
from benchmarks.systems.base import HOST, ServerAddress, System, SystemServer, free_port, started
from sulina.version import __version__

TOPIC = "/default/bench"
SUBSCRIPTION = "bench"


class SulinaSystem(System):
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

    def start(self, folder: Path) -> SystemServer:
        server = SystemServer(ServerAddress(HOST, free_port()), folder / "server.log")
        server.run(_command("up", folder / "data", server.address.port))
        return started(server, 30)

    async def produce(self, address: ServerAddress, source: RecordSource) -> None:
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

    async def consume(self, address: ServerAddress, sink: RecordSink) -> None:
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


class SulinaReplicated(SulinaSystem):
    """`sulina up` with three storage nodes, each a separate process on this machine."""

    name: ClassVar[str] = "sulina-3"
    title: ClassVar[str] = "Sulina, 3 storage nodes"

    def durability(self) -> str:
        return "three copies, two of them synced with fdatasync before an acknowledgement"

    def start(self, folder: Path) -> SystemServer:
        server = SystemServer(ServerAddress(HOST, free_port()), folder / "server.log")
        nodes = {f"storage-{number}": free_port() for number in (1, 2, 3)}
        for name, port in nodes.items():
            server.run([*_command("storage", folder / name, port), "--id", name], name=name)
        places = [f"--storage-node={name}={HOST}:{port}" for name, port in nodes.items()]
        command = [*_command("up", folder / "data", server.address.port), *places]
        server.run(command, name="broker")
        return started(server, 30)


def _command(verb: str, data: Path, port: int) -> list[str]:
    command = [sys.executable, "-m", "sulina.cli", verb, "--data", str(data), "--port", str(port)]
    return [*command, "--http-port", "0", "--admin-port", "0"] if verb == "up" else command
