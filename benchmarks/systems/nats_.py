"""NATS JetStream with nats-py: publish_async with a limit, a durable push consumer."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks.sink import RecordSink
from benchmarks.source import RecordSource
from benchmarks.systems.base import System, SystemServer, output_of
from localstack.emulators.server import HOST

STREAM = "BENCH"
SUBJECT = "bench"
MAX_PENDING = 4000  # nats-py's default limit of unacknowledged publishes
MAX_IN_FLIGHT = 5000
MAX_IN_FLIGHT_BYTES = 32 << 20
ACK_EVERY = 100


class NatsJetStream(System):
    """One node, one stream with file storage, one replica."""

    name = "nats"
    title = "NATS JetStream"
    program = "nats-server"
    client = "nats"
    mode = (
        f"nats-py: publish_async, at most {MAX_PENDING} unacknowledged; durable push consumer "
        f"with a callback, one cumulative acknowledgement every {ACK_EVERY} records"
    )

    def version(self) -> str:
        printed = output_of([self.executable, "--version"])
        return printed.rpartition(" ")[2].lstrip("v")

    def synced(self) -> bool:
        # The setting exists since 2.10; older servers sync a stream every two minutes.
        parts = self.version().split("-")[0].split(".")
        return [int(part) for part in parts if part.isdigit()] >= [2, 10]

    def durability(self) -> str:
        if self.synced():
            return "file store, sync_interval: always: fsync before an acknowledgement"
        return (
            "file store; an acknowledgement means written to the page cache, NOT synced: this "
            "version syncs every 2 minutes and has no setting for it (sync_interval: always came "
            "with 2.10). A power failure loses acknowledged records: weaker than Sulina and Redis"
        )

    def start(self, folder: Path) -> SystemServer:
        server = SystemServer(folder / "server.log")
        sync = "  sync_interval: always\n" if self.synced() else ""
        settings = folder / "nats.conf"
        settings.write_text(
            f'host: {HOST}\nport: {server.port}\njetstream {{\n  store_dir: "{folder}"\n{sync}}}\n'
        )
        server.run([self.executable, "-c", str(settings)])
        return server.started(20)

    async def produce(self, port: int, source: RecordSource) -> None:
        import nats

        connection = await nats.connect(f"nats://{HOST}:{port}")
        try:
            stream = connection.jetstream(publish_async_max_pending=MAX_PENDING)
            await source.ready()
            async for batch in source:
                for payload in batch:
                    await stream.publish_async(SUBJECT, payload)
            await stream.publish_async_completed()
            source.acknowledged()
        finally:
            await connection.close()

    async def consume(self, port: int, sink: RecordSink) -> None:
        import nats
        from nats.aio.msg import Msg
        from nats.js.api import AckPolicy, ConsumerConfig, StorageType

        # The server disconnects a client with more than 64 MB pending: stay well below.
        in_flight = min(MAX_IN_FLIGHT, max(MAX_IN_FLIGHT_BYTES // sink.cell.size, 1))
        ack_every = max(min(ACK_EVERY, in_flight // 4), 1)
        finished = asyncio.Event()
        taken = 0

        async def received(message: Msg) -> None:
            nonlocal taken
            taken += 1
            sink.take_one(message.data)
            if sink.done:
                finished.set()
            if sink.done or taken % ack_every == 0:
                await message.ack()

        connection = await nats.connect(f"nats://{HOST}:{port}")
        try:
            stream = connection.jetstream()
            await stream.add_stream(name=STREAM, subjects=[SUBJECT], storage=StorageType.FILE)
            await stream.subscribe(
                SUBJECT,
                durable="bench",
                cb=received,
                manual_ack=True,
                config=ConsumerConfig(ack_policy=AckPolicy.ALL, max_ack_pending=in_flight),
            )
            await sink.ready()
            await finished.wait()
        finally:
            await connection.close()
