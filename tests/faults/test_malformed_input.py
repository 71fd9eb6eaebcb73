"""Every kind of bad input on the real port, while others are at work and must not notice."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

import sulina
from sulina import Start
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command
from tests.faults.attacker import attacker
from tests.faults.attacks import ATTACKS, TOPIC
from tests.faults.model import Model, Received
from tests.faults.seeds import number_from_environment, seeded
from tests.support.server import SulinaProcess

SECONDS = number_from_environment("SULINA_FUZZ_SECONDS", 6)
ATTACKERS = 4
IDLE = 1000
MOST_GROWTH = 256 << 20
"""Bytes that the broker may grow by: its cache, and what connections may hold."""

_GOOD = "/default/good"


class _Bystanders:
    """A producer and a consumer that do nothing wrong, and must not be disturbed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._model = Model()
        self._sender = self._model.sender("good", _GOOD, largest=2000)
        self._received = Received(in_order=True)
        self._working = True

    async def run(self) -> None:
        async with sulina.connect(self._url) as client, asyncio.TaskGroup() as tasks:
            consuming = tasks.create_task(self._consume(client))
            await self._produce(client)
            while self._received.prefix < self._sender.count:
                await asyncio.sleep(0.01)
            consuming.cancel()
            await self._model.check_log(client, _GOOD)

    def stop(self) -> None:
        self._working = False

    async def _produce(self, client: sulina.Client) -> None:
        async with client.producer(_GOOD, name="good") as producer:
            while self._working:
                number = self._sender.count
                self._sender.count += 1
                # A broker that is kept busy for longer than this does disturb others.
                async with asyncio.timeout(10):
                    ticket = await producer.send(self._sender.payload(number))
                    self._sender.acknowledged[number] = await ticket
                await asyncio.sleep(0.002)

    async def _consume(self, client: sulina.Client) -> None:
        async with client.consumer(_GOOD, "good", start=Start.earliest()) as consumer:
            async for batch in consumer.batches():
                self._received.take(batch, self._model.check_batch(batch))
                self._received.acked.update(batch.offsets)
                await consumer.ack(batch)


@contextmanager
def _nobody_reconnects(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, "sulina.client"):
        yield
    assert not [record for record in caplog.records if record.name == "sulina.client"]


class _Memory:
    """Watches how much memory the broker takes."""

    def __init__(self, server: SulinaProcess) -> None:
        self._process = psutil.Process(server.pid)
        self._before = self._process.memory_info().rss

    def check(self) -> None:
        growth = self._process.memory_info().rss - self._before
        assert growth < MOST_GROWTH, f"the broker has grown by {growth >> 20} MiB"

    async def watch(self) -> None:
        """Check it until cancelled."""
        while True:
            self.check()
            await asyncio.sleep(0.05)


async def _attack(port: int, rng: random.Random, end: float) -> None:
    while asyncio.get_running_loop().time() < end:
        attack = rng.choice(ATTACKS)
        try:
            await attack(port, rng)
        except (ConnectionError, asyncio.IncompleteReadError):
            continue  # the broker has closed the connection, as it may
        except BaseException as error:
            error.add_note(f"the attack was {attack.__name__}")
            raise


async def _check_attacked_topic(client: sulina.Client) -> None:
    """Even the topic that took the blows goes on, with all its subscriptions."""
    async with client.producer(TOPIC) as producer:
        await (await producer.send(b"nothing"))
        found = await client.admin("subscription.list", {"topic": TOPIC})
        for subscription in found:
            where = {"topic": TOPIC, "subscription": subscription["subscription"]}
            await client.admin("subscription.seek", {**where, "start": "latest"})
        await (await producer.send(b"something", key="key"))
    for subscription in found:
        async with client.consumer(
            TOPIC, subscription["subscription"], type=subscription["type"]
        ) as consumer:
            assert (await consumer.receive(timeout=10)).payload == b"something"


@pytest.mark.slow
@pytest.mark.timeout(120 + 3 * SECONDS)
async def test_bad_input_of_any_kind_hurts_nobody_but_its_sender(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with seeded() as rng, SulinaProcess(tmp_path / "data", "--cache-mb", "64") as server:
        async with sulina.connect(server.url) as client:
            await client.admin("topic.create", {"topic": TOPIC})
        with _nobody_reconnects(caplog):
            async with asyncio.TaskGroup() as tasks:
                bystanders = _Bystanders(server.url)
                tasks.create_task(bystanders.run())
                watching = tasks.create_task(_Memory(server).watch())
                end = asyncio.get_running_loop().time() + SECONDS
                async with asyncio.TaskGroup() as attacks:
                    for _ in range(ATTACKERS):
                        attacks.create_task(_attack(server.port, random.Random(rng.random()), end))
                watching.cancel()
                bystanders.stop()
        async with sulina.connect(server.url) as client:
            await _check_attacked_topic(client)
        assert "Traceback" not in server.log(), server.log()


@pytest.mark.slow
async def test_a_thousand_idle_connections_hurt_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SulinaProcess(tmp_path / "data") as server, _nobody_reconnects(caplog):
        memory = _Memory(server)
        async with asyncio.TaskGroup() as tasks, AsyncExitStack() as connections:
            bystanders = _Bystanders(server.url)
            tasks.create_task(bystanders.run())
            for number in range(IDLE):
                idle = attacker(server.port, greeted=number % 2 == 0)
                await connections.enter_async_context(idle)
            memory.check()
            bystanders.stop()
        assert "Traceback" not in server.log(), server.log()


@pytest.mark.slow
async def test_answers_that_nobody_reads_do_not_fill_the_broker(tmp_path: Path) -> None:
    with SulinaProcess(tmp_path / "data", "--cache-mb", "8") as server:
        async with sulina.connect(server.url) as client:
            async with client.producer(_GOOD) as producer:
                for _ in range(24):
                    await producer.send(bytes(1 << 20))
            memory = _Memory(server)
            async with AsyncExitStack() as connections, asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(memory.watch())
                for _ in range(4):
                    reader = await connections.enter_async_context(attacker(server.port))
                    question = pb.ReadFrames(
                        topic=_GOOD, start=pb.Start(earliest=True), max_frames=100
                    )
                    question.max_bytes = 1 << 30
                    for request in range(1, 257):
                        reader.send(Command.READ_FRAMES, question, request=request)
                    await reader.sent()
                for number in range(200):  # time enough to answer, if that were the plan
                    await client.read(_GOOD, Start.offset(number % 24), max_records=1)
                watching.cancel()
