"""Pulsar standalone with its C++ client for Python: one process, with one or three bookies.

Standalone is broker, bookies and metadata in one Java process, started by Pulsar's own script with
its own memory settings. Functions and stream storage are off.
"""

from __future__ import annotations

import importlib.util
import re
import socket
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.fetch import PULSAR
from benchmarks.loops import Sender, some_at_once
from benchmarks.sink import RecordSink
from benchmarks.source import RecordSource
from benchmarks.systems.base import NO_CLIENT, CannotStart, System, SystemServer
from benchmarks.systems.java import java_missing
from localstack.emulators.server import HOST, free_ports

TOPIC = "persistent://public/default/bench"
MAX_PENDING = 10_000
SETTLED = 180.0
"""Seconds to wait until it listens, and then until it can be used: also on a busy machine."""
_ATTEMPTS = 1000


class Pulsar(System):
    """One process; ``nodes`` is the number of bookies, each with its own journal."""

    program = "java"
    client = "pulsar"
    mode = (
        f"pulsar-client: send_async with batches, at most {MAX_PENDING} unacknowledged; "
        "batch_receive (at a fixed rate receive) and one cumulative acknowledgement per batch"
    )

    def __init__(self, name: str, title: str, *, nodes: int = 1, synced: bool = True) -> None:
        self.name = name
        self.title = title
        self._nodes = nodes
        self._synced = synced

    def unavailable(self) -> str | None:
        if (reason := java_missing(self.title)) is not None:
            return reason
        if PULSAR.found() is None:
            return PULSAR.missing()
        return NO_CLIENT if importlib.util.find_spec(self.client) is None else None

    def version(self) -> str:
        jars = (_home() / "lib").glob("org.apache.pulsar-pulsar-broker-[0-9]*.jar")
        return next((jar.stem.rpartition("-")[2] for jar in jars), "unknown")

    def synced(self) -> bool:
        return self._synced

    def durability(self) -> str:
        copies = "" if self._nodes == 1 else f"{self._nodes} copies, two of them needed; "
        if self._synced:
            return f"{copies}the journal is synced before an acknowledgement, in groups"
        return (
            f"{copies}standalone as shipped: an acknowledgement means written to the page cache, "
            "NOT synced. A power failure loses acknowledged records"
        )

    def settings(self) -> dict[str, str]:
        copies = {
            "managedLedgerDefaultEnsembleSize": str(self._nodes),
            "managedLedgerDefaultWriteQuorum": str(self._nodes),
            "managedLedgerDefaultAckQuorum": str(min(self._nodes, 2)),
        }
        synced = {"journalSyncData": "true"} if self._synced else {}
        return {**synced, **(copies if self._nodes > 1 else {})}

    def start(self, folder: Path) -> SystemServer:
        server = SystemServer(folder / "server.log")
        (web,) = free_ports(1)
        places = {
            "brokerServicePort": str(server.port),
            "webServicePort": str(web),
            "bindAddress": HOST,
        }
        text = (_home() / "conf" / "standalone.conf").read_text()
        for key, value in {**places, **self.settings()}.items():
            # Of a key given twice the first counts: it is replaced, not added.
            text, found = re.subn(rf"(?m)^{key}=.*$", f"{key}={value}", text, count=1)
            text = text if found else f"{key}={value}\n{text}"
        settings = folder / "standalone.conf"
        settings.write_text(text)
        command = [
            *(str(_home() / "bin" / "pulsar"), "standalone", "-nfw", "-nss", "-a", HOST),
            *("-c", str(settings), "--num-bookies", str(self._nodes)),
            *("--metadata-dir", str(folder / "metadata")),
            *("--bookkeeper-dir", str(folder / "bookkeeper")),
            *("--bookkeeper-port", str(free_run(self._nodes))),
        ]
        server.run(command, {"PULSAR_LOG_DIR": str(folder), "PULSAR_STANDALONE_USE_ZOOKEEPER": ""})
        server.started(SETTLED)
        try:
            _wait_for_namespace(web)
        except BaseException:
            server.stop()
            raise
        return server

    async def produce(self, port: int, source: RecordSource) -> None:
        import pulsar

        failures: list[Any] = []

        def answered(result: Any, _: Any) -> None:
            if result != pulsar.Result.Ok:
                failures.append(result)

        client = _client(port)
        try:
            producer = client.create_producer(
                TOPIC,
                batching_enabled=True,
                batching_max_publish_delay_ms=10 if source.cell.rate is None else 1,
                block_if_queue_full=True,
                max_pending_messages=MAX_PENDING,
            )
            await source.ready()
            async for batch in source:
                for payload in batch:
                    producer.send_async(payload, answered)
            producer.flush()
            if failures:
                raise RuntimeError(f"{len(failures)} records were refused: {failures[0]}")
            source.acknowledged()
        finally:
            client.close()

    async def consume(self, port: int, sink: RecordSink) -> None:
        import pulsar

        client = _client(port)
        try:
            consumer = client.subscribe(
                TOPIC,
                "bench",
                initial_position=pulsar.InitialPosition.Earliest,
                receiver_queue_size=MAX_PENDING,
                batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(1000, 4 << 20, 10),
            )
            await sink.ready()
            while not sink.done:
                if sink.cell.rate is None:
                    messages = consumer.batch_receive()
                else:
                    messages = [consumer.receive()]
                if messages:
                    sink.take([message.data() for message in messages])
                    consumer.acknowledge_cumulative(messages[-1])
        finally:
            client.close()

    @asynccontextmanager
    async def senders(self, port: int, count: int) -> AsyncIterator[list[Sender]]:
        import pulsar
        from pulsar.asyncio import Client

        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        async with AsyncExitStack() as stack:
            shared = Client(f"pulsar://{HOST}:{port}", logger=logger)
            stack.push_async_callback(shared.close)

            async def sender(number: int) -> Sender:
                producer = await shared.create_producer(f"{TOPIC}-{number}", batching_enabled=False)
                send: Sender = producer.send
                return send

            yield await some_at_once(sender, count)


def _home() -> Path:
    home = PULSAR.found()
    assert home is not None  # only if available
    return home


def _client(port: int) -> Any:
    import pulsar

    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return pulsar.Client(f"pulsar://{HOST}:{port}", logger=logger)


def _wait_for_namespace(port: int) -> None:
    """Block until the default namespace can be used: the server listens before it exists."""
    url = f"http://{HOST}:{port}/admin/v2/persistent/public/default"
    deadline = time.monotonic() + SETTLED
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except OSError as error:
            if time.monotonic() > deadline:
                raise CannotStart(f"its namespace did not appear: {error}") from None
            time.sleep(0.2)


def free_run(count: int) -> int:
    """The first of ``count`` ports in a row that are free: bookies count up from a base.

    Raises CannotStart if none is found in many attempts. Kernels give sockets that ask for any port
    every second one, so the ports after the first are asked for by number.
    """
    for _ in range(_ATTEMPTS):
        (first,) = free_ports(1)
        if all(_is_free(first + more) for more in range(count)):
            return first
    raise CannotStart(f"no {count} ports in a row are free on {HOST}: end what uses them")


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind((HOST, port))
        except (OSError, OverflowError):
            return False
        return True
