"""Redis Streams with redis-py: pipelined XADD, XREADGROUP and XACK in one round trip."""

from __future__ import annotations

from pathlib import Path

from benchmarks.sink import RecordSink
from benchmarks.source import RecordSource
from benchmarks.systems.base import System, SystemServer, output_of
from localstack.emulators.server import HOST

STREAM = "bench"
GROUP = "bench"
FIELD = b"d"
BLOCK_MS = 1000


class RedisStreams(System):
    """One node, append-only file synced before every reply."""

    name = "redis"
    title = "Redis Streams"
    program = "redis-server"
    client = "redis"
    mode = (
        "redis-py (asyncio, hiredis where installed): pipelines of XADD, one at a time to keep "
        "order; XREADGROUP with COUNT, XACK of the batch in the same round trip"
    )

    def version(self) -> str:
        words = output_of([self.executable, "--version"]).split()
        return next((word[2:] for word in words if word.startswith("v=")), "unknown")

    def durability(self) -> str:
        return (
            "appendonly yes, appendfsync always: fdatasync before a reply, shared by the "
            "commands that arrived together; rewrites and snapshots are off"
        )

    def start(self, folder: Path) -> SystemServer:
        server = SystemServer(folder / "server.log")
        settings = {
            "bind": HOST,
            "port": str(server.port),
            "dir": str(folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            "auto-aof-rewrite-percentage": "0",
            "daemonize": "no",
        }
        command = [self.executable]
        for key, value in settings.items():
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
