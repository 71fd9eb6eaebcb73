"""Redis Streams with redis-py: pipelined XADD, XREADGROUP and XACK in one round trip."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.loops import Sender
from benchmarks.sink import RecordSink
from benchmarks.source import RecordSource
from benchmarks.systems.base import System, SystemServer, output_of
from localstack.emulators.server import HOST

STREAM = "bench"
GROUP = "bench"
FIELD = b"d"
BLOCK_MS = 1000


class RedisStreams(System):
    """One node, append-only file synced before every reply, or every second."""

    program = "redis-server"
    client = "redis"
    mode = (
        "redis-py (asyncio, hiredis where installed): pipelines of XADD, one at a time to keep "
        "order; XREADGROUP with COUNT, XACK of the batch in the same round trip"
    )

    def __init__(self, name: str, title: str, *, synced: bool = True) -> None:
        self.name = name
        self.title = title
        self._synced = synced

    def version(self) -> str:
        words = output_of([self.executable, "--version"]).split()
        return next((word[2:] for word in words if word.startswith("v=")), "unknown")

    def synced(self) -> bool:
        return self._synced

    def durability(self) -> str:
        if self._synced:
            return "fdatasync before a reply, shared by the commands that arrived together"
        return (
            "appendfsync everysec, its default: a reply means written to the page cache, NOT "
            "synced. A power failure loses the acknowledged records of about a second"
        )

    def settings(self) -> dict[str, str]:
        return {
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always" if self._synced else "everysec",
            "auto-aof-rewrite-percentage": "0",
        }

    def start(self, folder: Path) -> SystemServer:
        server = SystemServer(folder / "server.log")
        places = {"bind": HOST, "port": str(server.port), "dir": str(folder), "daemonize": "no"}
        command = [self.executable]
        for key, value in {**places, **self.settings()}.items():
            command += [f"--{key}", value]
        server.run(command)
        return server.started(20)

    async def produce(self, port: int, source: RecordSource) -> None:
        from redis.asyncio import Redis

        async with Redis(host=HOST, port=port) as redis:
            await redis.ping()
            await source.ready()
            async for batch in source:
                pipeline = redis.pipeline(transaction=False)
                for payload in batch:
                    pipeline.xadd(STREAM, {FIELD: payload})
                await pipeline.execute()
            source.acknowledged()

    @asynccontextmanager
    async def senders(self, port: int, count: int) -> AsyncIterator[list[Sender]]:
        from redis.asyncio import Redis

        # A connection for each record in flight: a connection answers one command at a time.
        async with Redis(host=HOST, port=port, max_connections=count) as redis:
            await redis.ping()

            def sender(number: int) -> Sender:
                return lambda payload: redis.xadd(f"{STREAM}-{number}", {FIELD: payload})

            yield [sender(number) for number in range(count)]

    async def consume(self, port: int, sink: RecordSink) -> None:
        from redis.asyncio import Redis

        count = sink.cell.batch
        async with Redis(host=HOST, port=port) as redis:
            await redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
            await sink.ready()
            received: list[bytes] = []
            while not sink.done:
                pipeline = redis.pipeline(transaction=False)
                if received:
                    pipeline.xack(STREAM, GROUP, *received)
                pipeline.xreadgroup(GROUP, "1", {STREAM: ">"}, count=count, block=BLOCK_MS)
                reply = (await pipeline.execute())[-1]
                entries = reply[0][1] if reply else []
                received = [entry[0] for entry in entries]
                sink.take([entry[1][FIELD] for entry in entries])
            if received:
                await redis.xack(STREAM, GROUP, *received)
