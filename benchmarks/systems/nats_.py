"""NATS JetStream with nats-py: publish_async with a limit, a durable push consumer."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.fetch import NATS
from benchmarks.loops import Sender
from benchmarks.sink import RecordSink
from benchmarks.source import RecordSource
from benchmarks.systems.base import NO_CLIENT, System, SystemServer, find_program, output_of
from localstack.emulators.server import HOST, free_ports

STREAM = "BENCH"
SUBJECT = "bench"
MAX_PENDING = 4000  # nats-py's default limit of unacknowledged publishes
MAX_IN_FLIGHT = 5000
MAX_IN_FLIGHT_BYTES = 32 << 20
ACK_EVERY = 100
SETTLED = 30.0
BATCH = 1000  # the server's limit
COMMITTING = 4


class NatsJetStream(System):
    """One node or a cluster of three; one stream with file storage, a replica on each node."""

    program = "nats-server"
    client = "nats"

    def __init__(self, name: str, title: str, *, nodes: int = 1, synced: bool = True) -> None:
        self.name = name
        self.title = title
        self._nodes = nodes
        self._synced = synced
        sending = (
            f"atomic batches of up to {BATCH} records, one sync each"
            if synced
            else f"publish_async, at most {MAX_PENDING} unacknowledged"
        )
        self.mode = (
            f"nats-py: {sending}; durable push consumer with a callback, one cumulative "
            f"acknowledgement every {ACK_EVERY} records"
        )

    @property
    def executable(self) -> str:
        return str(NATS.found() or super().executable)

    def unavailable(self) -> str | None:
        if NATS.found() is None and find_program(self.program) is None:
            return f"{NATS.missing()}, or `sudo apt-get install {self.program}` an older one"
        if importlib.util.find_spec(self.client) is None:
            return NO_CLIENT
        if self._synced and not self._can_sync():
            return (
                f"{self.title} is not measured with syncs: nats-server {self.version()} has no "
                f"batches, 2.12 or newer has: {NATS.missing()}"
            )
        return None

    def version(self) -> str:
        printed = output_of([self.executable, "--version"])
        return printed.rpartition(" ")[2].lstrip("v")

    def _can_sync(self) -> bool:
        # sync_interval: always exists since 2.10, atomic batches since 2.12.
        parts = self.version().split("-")[0].split(".")
        return [int(part) for part in parts if part.isdigit()] >= [2, 12]

    def synced(self) -> bool:
        return self._synced

    def durability(self) -> str:
        copies = "" if self._nodes == 1 else f"{self._nodes} replicas, two of them needed; "
        if self._synced:
            return f"{copies}file store, sync_interval: always: fsync before an acknowledgement"
        return (
            f"{copies}file store as shipped: an acknowledgement means written to the page cache, "
            "NOT synced: files are synced every 2 minutes. A power failure loses acknowledged "
            "records"
        )

    def settings(self) -> dict[str, str]:
        return {"sync_interval": "always"} if self._synced else {}

    def start(self, folder: Path) -> SystemServer:
        server = SystemServer(folder / "server.log")
        ports = [server.port, *free_ports(self._nodes * 2 - 1)]
        clients, routes = ports[: self._nodes], ports[self._nodes :]
        inside = "".join(f"  {key}: {value}\n" for key, value in self.settings().items())
        addresses = ", ".join(f'"nats://{HOST}:{port}"' for port in routes)
        for number, (port, route) in enumerate(zip(clients, routes, strict=True), 1):
            path = folder / f"nats-{number}.conf"
            text = (
                f"server_name: nats-{number}\nhost: {HOST}\nport: {port}\n"
                f'jetstream {{\n  store_dir: "{folder / path.stem}"\n{inside}}}\n'
            )
            if self._nodes > 1:
                text += (
                    f"cluster {{\n  name: bench\n  listen: {HOST}:{route}\n"
                    f"  routes: [{addresses}]\n}}\n"
                )
            path.write_text(text)
            server.run([self.executable, "-c", str(path)], name=path.stem)
        return server.started(20)

    async def _add_stream(self, stream: Any, subject: str) -> None:
        """Create the stream; a cluster may need a moment until it can place it."""
        from nats.js.api import StorageType
        from nats.js.errors import APIError, ServiceUnavailableError

        deadline = time.monotonic() + SETTLED
        while True:
            try:
                await stream.add_stream(
                    name=STREAM,
                    subjects=[subject],
                    storage=StorageType.FILE,
                    num_replicas=self._nodes,
                    allow_atomic=self._synced or None,
                )
                return
            except (APIError, ServiceUnavailableError, TimeoutError):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)

    async def produce(self, port: int, source: RecordSource) -> None:
        import nats

        connection = await nats.connect(f"nats://{HOST}:{port}")
        try:
            stream = connection.jetstream(publish_async_max_pending=MAX_PENDING)
            await source.ready()
            if self._synced:
                await self._produce_batches(connection, source)
            else:
                async for batch in source:
                    for payload in batch:
                        await stream.publish_async(SUBJECT, payload)
                await stream.publish_async_completed()
            source.acknowledged()
        finally:
            await connection.close()

    async def _produce_batches(self, connection: Any, source: RecordSource) -> None:
        """Atomic batches (ADR 50 of NATS): a sync for each batch instead of each record."""
        committing: deque[asyncio.Task[Any]] = deque()
        number = 0
        async for batch in source:
            for first in range(0, len(batch), BATCH):
                records = batch[first : first + BATCH]
                number += 1
                headers = {"Nats-Batch-Id": f"{number}"}
                for place, payload in enumerate(records[:-1], 1):
                    headers["Nats-Batch-Sequence"] = f"{place}"
                    await connection.publish(SUBJECT, payload, headers=headers)
                headers["Nats-Batch-Sequence"] = f"{len(records)}"
                headers["Nats-Batch-Commit"] = "1"
                # Sent before the next batch, which need not wait for the acknowledgement.
                commit = connection.request(SUBJECT, records[-1], timeout=30, headers=headers)
                committing.append(asyncio.create_task(commit))
                await asyncio.sleep(0)
                if len(committing) > COMMITTING:
                    _check(await committing.popleft())
        while committing:
            _check(await committing.popleft())

    @asynccontextmanager
    async def senders(self, port: int, count: int) -> AsyncIterator[list[Sender]]:
        import nats

        connection = await nats.connect(f"nats://{HOST}:{port}")
        try:
            stream = connection.jetstream()
            # One stream with a subject for each topic, as NATS recommends.
            await self._add_stream(stream, f"{SUBJECT}.*")
            yield [partial(stream.publish, f"{SUBJECT}.{number}") for number in range(count)]
        finally:
            await connection.close()

    async def consume(self, port: int, sink: RecordSink) -> None:
        import nats
        from nats.aio.msg import Msg
        from nats.js.api import AckPolicy, ConsumerConfig

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
            await self._add_stream(stream, SUBJECT)
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


def _check(answer: Any) -> None:
    """Raise if a batch was refused."""
    if error := json.loads(answer.data).get("error"):
        raise RuntimeError(f"a batch was refused: {error.get('description', error)}")
