"""Kafka (KRaft, without ZooKeeper) with librdkafka's Python client, on one or three brokers.

The JVM gets the options of Kafka's own start script. A folder with Kafka's jars is enough: nothing
of the distribution but ``libs/`` is used.
"""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.fetch import KAFKA
from benchmarks.loops import Sender
from benchmarks.sink import RecordSink
from benchmarks.source import RecordSource
from benchmarks.systems.base import NO_CLIENT, CannotStart, System, SystemServer
from benchmarks.systems.java import java_missing
from localstack.emulators.server import HOST, free_ports

TOPIC = "bench"
CLUSTER = "c3VsaW5hLWJlbmNobWFyaw"  # any 16 bytes in base64
COMMIT_EVERY = 10_000
QUEUED = 100_000  # librdkafka's default limit of unacknowledged records
QUEUED_BYTES = 512 << 20  # half of its default limit, so that records and what describes them fit
SETTLED = 60.0
SAFE = {"acks": "all", "enable.idempotence": True, "log_level": 3}
JVM = (
    *("-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    "-Djava.awt.headless=true",
)


class Kafka(System):
    """Combined brokers and controllers; acks=all, idempotent producer."""

    program = "java"
    client = "confluent_kafka"
    mode = (
        "confluent-kafka (librdkafka): acks=all, enable.idempotence, produce_batch, its default "
        "batching (linger 5 ms) at full speed and linger 0 at a fixed rate; a consumer group with "
        f"an offset committed every {COMMIT_EVERY} records"
    )

    def __init__(self, name: str, title: str, *, nodes: int = 1, synced: bool = True) -> None:
        self.name = name
        self.title = title
        self._nodes = nodes
        self._synced = synced

    def unavailable(self) -> str | None:
        if (reason := java_missing(self.title)) is not None:
            return reason
        if KAFKA.found() is None:
            return KAFKA.missing()
        if importlib.util.find_spec(self.client) is None:
            return NO_CLIENT
        return None

    def version(self) -> str:
        jars = (_home() / "libs").glob("kafka-clients-*.jar")
        return next((jar.stem.rpartition("-")[2] for jar in jars), "unknown")

    def synced(self) -> bool:
        return self._synced

    def durability(self) -> str:
        copies = "" if self._nodes == 1 else f"{self._nodes} copies, two of them needed; "
        if self._synced:
            return f"{copies}fsync of each appended batch before an acknowledgement"
        return (
            f"{copies}as shipped: an acknowledgement means written to the page cache, NOT synced. "
            "A power failure of all copies' machines loses acknowledged records"
        )

    def settings(self) -> dict[str, str]:
        copies, needed = str(self._nodes), str(min(self._nodes, 2))
        chosen = {
            "process.roles": "broker,controller",
            "num.partitions": "1",
            "default.replication.factor": copies,
            "min.insync.replicas": needed,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": needed,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": needed,
            "group.initial.rebalance.delay.ms": "0",
        }
        return {**chosen, "log.flush.interval.messages": "1"} if self._synced else chosen

    def start(self, folder: Path) -> SystemServer:
        server = SystemServer(folder / "server.log")
        ports = [server.port, *free_ports(self._nodes * 2 - 1)]
        clients, controllers = ports[: self._nodes], ports[self._nodes :]
        voters = ",".join(f"{n}@{HOST}:{port}" for n, port in enumerate(controllers, 1))
        files = []
        for number, (port, controller) in enumerate(zip(clients, controllers, strict=True), 1):
            settings = {
                **self.settings(),
                "node.id": str(number),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": str(folder / f"broker-{number}"),
            }
            path = folder / f"broker-{number}.properties"
            path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            files.append(path)
        for path in files:
            self._format(path)
        for path in files:
            server.run(self._java("kafka.Kafka", str(path)), name=path.stem)
        return server.started(60)

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [self.executable, *JVM, "-cp", f"{_home() / 'libs'}/*", main, *arguments]

    def _format(self, properties: Path) -> None:
        """Prepare a data folder, as Kafka requires before the first start. Blocks."""
        arguments = ("format", "--cluster-id", CLUSTER, "--config", str(properties))
        command = self._java("kafka.tools.StorageTool", *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines()
            raise CannotStart(f"Kafka's storage was not formatted: {' / '.join(said[-3:])}")

    async def produce(self, port: int, source: RecordSource) -> None:
        paced = source.cell.rate is not None
        producer = _producer(port, linger_ms=0 if paced else 5)
        most = min(QUEUED, QUEUED_BYTES // source.cell.size)
        await source.ready()
        async for batch in source:
            while len(producer) > most - len(batch):
                producer.poll(0.01)
            taken = producer.produce_batch(TOPIC, [{"value": payload} for payload in batch])
            if taken < len(batch):
                raise RuntimeError("librdkafka's queue is full: records would be missing")
            producer.poll(0)
        if left := producer.flush(60):
            raise RuntimeError(f"{left} records were not acknowledged within 60 s")
        producer.raise_failure()
        source.acknowledged()

    @asynccontextmanager
    async def senders(self, port: int, count: int) -> AsyncIterator[list[Sender]]:
        topics = [f"{TOPIC}-{number}" for number in range(count)]
        create_topics(port, topics, self._nodes)
        async with _AwaitedProducer(port) as producer:
            yield [partial(producer.send, topic) for topic in topics]

    async def consume(self, port: int, sink: RecordSink) -> None:
        from confluent_kafka import Consumer

        create_topics(port, [TOPIC], self._nodes)
        consumer = Consumer(
            {
                "bootstrap.servers": f"{HOST}:{port}",
                "group.id": "bench",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 3,
            }
        )
        try:
            consumer.subscribe([TOPIC])
            deadline = time.monotonic() + SETTLED
            while not consumer.assignment():
                consumer.poll(0.1)
                if time.monotonic() > deadline:
                    raise TimeoutError("the group was not assigned its partition")
            await sink.ready()
            uncommitted = 0
            while not sink.done:
                # consume() waits until it has all it was asked for, poll() does not.
                if sink.cell.rate is None:
                    messages = consumer.consume(sink.cell.batch, 0.02)
                else:
                    messages = [message] if (message := consumer.poll(1.0)) else []
                for message in messages:
                    if message.error():
                        raise RuntimeError(str(message.error()))
                sink.take([message.value() for message in messages])
                uncommitted += len(messages)
                if uncommitted >= COMMIT_EVERY:
                    consumer.commit(asynchronous=True)
                    uncommitted = 0
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()


class _AwaitedProducer:
    """One producer for all topics, as Kafka recommends; a thread serves its acknowledgements."""

    def __init__(self, port: int) -> None:
        from confluent_kafka import Producer

        self._loop = asyncio.get_running_loop()
        self._producer = Producer({**SAFE, "bootstrap.servers": f"{HOST}:{port}", "linger.ms": 0})
        self._done: list[tuple[asyncio.Future[None], Any]] = []
        self._ended = False
        self._thread = threading.Thread(target=self._serve, name="acknowledgements", daemon=True)

    async def __aenter__(self) -> _AwaitedProducer:
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended = True
        await asyncio.to_thread(self._thread.join)

    def send(self, topic: str, payload: bytes) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        self._producer.produce(
            topic, payload, on_delivery=lambda error, _: self._done.append((future, error))
        )
        return future

    def _serve(self) -> None:
        while not self._ended:
            self._producer.poll(0.1)
            if self._done:
                done, self._done = self._done, []
                self._loop.call_soon_threadsafe(_settle, done)


def _settle(done: list[tuple[asyncio.Future[None], Any]]) -> None:
    for future, error in done:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(RuntimeError(str(error)))


def _home() -> Path:
    home = KAFKA.found()
    assert home is not None  # only if available
    return home


def _producer(port: int, *, linger_ms: int) -> Any:
    from confluent_kafka import Producer

    class CheckedProducer(Producer):  # type: ignore[misc]
        """Remembers the first record that was not delivered."""

        failure: Any = None

        def raise_failure(self) -> None:
            if self.failure is not None:
                raise RuntimeError(f"a record was not delivered: {self.failure}")

    def failed(error: Any, _: Any) -> None:
        producer.failure = producer.failure or error

    producer = CheckedProducer(
        {
            **SAFE,
            "bootstrap.servers": f"{HOST}:{port}",
            "linger.ms": linger_ms,
            "delivery.report.only.error": True,
            "on_delivery": failed,
        }
    )
    return producer


def create_topics(port: int, names: list[str], copies: int) -> None:
    """Create topics with one partition each; waits until enough brokers have joined. Blocks."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": f"{HOST}:{port}"})
    deadline = time.monotonic() + SETTLED
    while len(admin.list_topics(timeout=10).brokers) < copies:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{copies} brokers did not join within {SETTLED:g} s")
        time.sleep(0.1)
    new = [NewTopic(name, num_partitions=1, replication_factor=copies) for name in names]
    for name, future in admin.create_topics(new, request_timeout=SETTLED).items():
        try:
            future.result(SETTLED)
        except KafkaException as error:
            raise RuntimeError(f"{name} was not created: {error}") from None
