"""RabbitMQ streams with rstream: send_batch with confirms, a consumer with stored offsets."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.loops import Sender, some_at_once
from benchmarks.sink import RecordSink
from benchmarks.source import RecordSource
from benchmarks.systems.base import CannotStart, System, SystemServer, find_program, output_of
from localstack.emulators.server import HOST, free_ports

STREAM = "bench"
USER = "guest"  # RabbitMQ's default account, accepted only from the loopback interface
MAX_UNCONFIRMED_BYTES = 4 << 20
MAX_UNCONFIRMED = 10_000
STORE_OFFSET_EVERY = 10_000
CREDIT = 20


class RabbitMqStreams(System):
    """One node, one stream; the stream protocol, not AMQP."""

    name = "rabbitmq"
    title = "RabbitMQ streams"
    program = "rabbitmq-server"
    client = "rstream"
    mode = (
        "rstream: send_batch of raw bytes (its documentation calls it the fastest) with confirms, "
        f"at most {MAX_UNCONFIRMED} records or 4 MiB unconfirmed; consumer with an offset, stored "
        f"every {STORE_OFFSET_EVERY} records"
    )

    def batch(self, size: int) -> int:
        # A batch is one protocol frame, and RabbitMQ rejects frames over 1 MiB.
        return min(max((512 << 10) // size, 1), 2000)

    def version(self) -> str:
        printed = output_of(["dpkg-query", "-W", "-f", "${Version}", self.program])
        return printed.split("-")[0] or "unknown"

    def synced(self) -> bool:
        return False

    def durability(self) -> str:
        return (
            "one replica; a confirm means written to the page cache, NOT synced: the segment files "
            "of a stream are never synced (only the node's metadata is), and there is no setting "
            "for it. A power failure loses confirmed records: weaker than Sulina and Redis"
        )

    def start(self, folder: Path) -> SystemServer:
        server = SystemServer(folder / "server.log")
        name_port, node_port = free_ports(2)
        (folder / "rabbitmq.conf").write_text(
            "listeners.tcp = none\n"
            f"stream.listeners.tcp.1 = {HOST}:{server.port}\n"
            f"stream.advertised_host = {HOST}\n"
            f"stream.advertised_port = {server.port}\n"
            "log.console.level = error\n"
        )
        (folder / "enabled_plugins").write_text("[rabbitmq_stream].\n")
        environment = {
            "HOME": str(folder),  # the node's cookie
            "ERL_EPMD_PORT": str(name_port),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_NODENAME": f"bench{os.getpid()}@localhost",
            "RABBITMQ_DIST_PORT": str(node_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "absent"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
        }
        names = find_program("epmd")
        # Not the first one on the PATH: Debian's wrapper requires the rabbitmq user.
        program = "/usr/lib/rabbitmq/bin/rabbitmq-server"
        if names is None or not Path(program).exists():
            raise CannotStart(f"{program} or Erlang's epmd is missing: is this Debian's package?")
        # A separate name server: one started by RabbitMQ would outlive it.
        server.run([names, "-port", str(name_port), "-address", HOST], environment)
        server.run([program], environment)
        return server.started(90)

    async def produce(self, port: int, source: RecordSource) -> None:
        from rstream import ConfirmationStatus, Producer

        limit = min(MAX_UNCONFIRMED, max(MAX_UNCONFIRMED_BYTES // source.cell.size, 1))
        unconfirmed = 0
        refused = 0
        room = asyncio.Event()

        def confirmed(status: ConfirmationStatus) -> None:
            nonlocal unconfirmed, refused
            unconfirmed -= 1
            refused += not status.is_confirmed
            room.set()

        async def wait_below(most: int) -> None:
            while unconfirmed > most:
                room.clear()
                await asyncio.wait_for(room.wait(), 30)

        async with Producer(
            HOST, port, username=USER, password=USER, load_balancer_mode=False
        ) as producer:
            await producer.create_stream(STREAM, exists_ok=True)
            await source.ready()
            async for batch in source:
                await wait_below(max(limit - len(batch), 0))
                unconfirmed += len(batch)
                await producer.send_batch(STREAM, batch, on_publish_confirm=confirmed)
            await wait_below(0)
            if refused:
                raise RuntimeError(f"{refused} records were refused")
            source.acknowledged()

    @asynccontextmanager
    async def senders(self, port: int, count: int) -> AsyncIterator[list[Sender]]:
        from rstream import Producer

        async with Producer(
            HOST, port, username=USER, password=USER, load_balancer_mode=False
        ) as producer:

            async def sender(number: int) -> Sender:
                await producer.create_stream(f"{STREAM}-{number}", exists_ok=True)
                return partial(producer.send_wait, f"{STREAM}-{number}")

            yield await some_at_once(sender, count)

    async def consume(self, port: int, sink: RecordSink) -> None:
        from rstream import Consumer, ConsumerOffsetSpecification, OffsetType

        finished = asyncio.Event()
        taken = 0

        async def store(context: Any) -> None:
            await context.consumer.store_offset(
                stream=STREAM, subscriber_name="bench", offset=context.offset
            )

        def received(payload: Any, context: Any) -> Any:
            nonlocal taken
            taken += 1
            sink.take_one(payload)
            if sink.done:
                finished.set()
            return store(context) if taken % STORE_OFFSET_EVERY == 0 else None

        consumer = Consumer(HOST, port, username=USER, password=USER)
        try:
            await consumer.start()
            await (await consumer.default_client).create_stream(STREAM)
            await consumer.subscribe(
                STREAM,
                received,
                subscriber_name="bench",
                initial_credit=CREDIT,
                offset_specification=ConsumerOffsetSpecification(OffsetType.FIRST, None),
            )
            await sink.ready()
            await finished.wait()
        finally:
            await consumer.close()
