"""Brokers that stop answering, and random faults between a producer and its broker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

import sulina
from sulina.errors import Fenced, Overloaded, StorageFull, SulinaError, UnknownOutcome
from sulina.runtime.seam import Runtime
from sulina.wire.commands import Command
from sulina.wire.decode import Frame
from tests.client.bench import Bench
from tests.client.memory_network import MemoryNetwork
from tests.client.scripted_broker import ScriptedBroker
from tests.metadata.manual_clock import ManualClock

TOPIC = "/default/t"
EVERYTHING = set(Command)


class TwoBrokers:
    """Brokers at ``one`` and ``two``, and a client that knows both and publishes to the first."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.one, self.two = ScriptedBroker(), ScriptedBroker()
        self.one.id, self.two.id = "one", "two"
        self.two.urls[TOPIC] = "sulina://one:1"
        ways = {name: MemoryNetwork(getattr(self, name).accept) for name in ("one", "two")}
        self.client = sulina.connect(
            "sulina://one:1,two:1", runtime=Runtime(self.clock, self, random.Random(7))
        )
        self._ways = {**ways, "another-name-of-one": ways["one"]}

    async def dial(
        self,
        protocol: asyncio.BufferedProtocol,
        host: str,
        port: int,
        *,
        secure: bool,
        name: str = "",
    ) -> None:
        await self._ways[host].dial(protocol, host, port, secure=secure)

    async def send(self, producer: sulina.Producer) -> asyncio.Task[None]:
        """Publish a record; the task ends when it is acknowledged."""
        ticket = await producer.send(b"record")

        async def acknowledged() -> None:
            await ticket

        return asyncio.create_task(acknowledged())


@pytest.fixture
async def brokers() -> AsyncIterator[TwoBrokers]:
    brokers = TwoBrokers()
    await brokers.client.open()
    yield brokers
    brokers.one.silent.clear()
    closing = asyncio.create_task(brokers.client.close())
    while not closing.done():
        await brokers.clock.advance(0.25)
    await closing


async def test_producers_leave_a_silent_broker_when_another_one_serves_their_topic(
    brokers: TwoBrokers,
) -> None:
    producer = await brokers.client.producer(TOPIC).open()
    brokers.one.silent = EVERYTHING
    sent = await brokers.send(producer)
    await brokers.clock.advance(6.5)
    assert not sent.done(), "the broker is silent, and nobody else serves its topic"
    assert len(brokers.one.peers) == 1, "and nobody dialled it again"
    brokers.two.urls.clear()
    await brokers.clock.advance(1.0)
    await sent
    assert brokers.two.records(TOPIC) == 1


async def test_a_broker_that_was_slow_and_answers_again_keeps_its_clients(
    brokers: TwoBrokers,
) -> None:
    producer = await brokers.client.producer(TOPIC).open()
    brokers.one.silent = EVERYTHING
    await brokers.clock.advance(6.5)
    brokers.one.silent = set()
    await brokers.clock.advance(10.0)
    sent = await brokers.send(producer)
    await brokers.clock.advance(0.5)
    await sent
    assert brokers.one.records(TOPIC) == 1
    assert len(brokers.one.peers) == 1, "over the same connection"


async def test_another_address_of_the_silent_broker_is_not_another_broker(
    brokers: TwoBrokers,
) -> None:
    producer = await brokers.client.producer(TOPIC).open()
    brokers.two.urls[TOPIC] = "sulina://another-name-of-one:1"
    brokers.one.silent = EVERYTHING - {Command.CONNECT}
    await brokers.clock.advance(8.0)
    brokers.one.silent = set()
    await brokers.clock.advance(1.0)
    sent = await brokers.send(producer)
    await brokers.clock.advance(0.5)
    await sent
    first, *_ = brokers.one.peers
    assert len(first.producers) == 1, "the producer stayed where it was"
    assert brokers.one.records(TOPIC) == 1


async def test_without_others_to_ask_a_silent_connection_ends_as_it_always_did() -> None:
    clock, broker = ManualClock(), ScriptedBroker()
    runtime = Runtime(clock, MemoryNetwork(broker.accept), random.Random(7))
    client = await sulina.connect("sulina://one:1", runtime=runtime).open()
    producer = await client.producer(TOPIC).open()
    broker.silent = {Command.PING}
    await clock.advance(30.0)
    assert len(broker.peers) > 1
    broker.silent = set()
    await clock.advance(5.0)
    ticket = await producer.send(b"record")
    await clock.advance(1.0)
    await ticket
    closing = asyncio.create_task(client.close())
    while not closing.done():
        await clock.advance(0.25)


class Storm:
    """Decides at random what becomes of each frame, but never skips one: as a broker, it takes
    nothing after a frame that it failed to take, until the producer is created again."""

    def __init__(self, bench: Bench, chance: random.Random) -> None:
        self._bench = bench
        self._chance = chance
        self._failing: SulinaError | None = None
        self.blows = True

    def verdict(self, number: int) -> SulinaError | str | None:
        if number == 0:
            self._failing = None
        if not self.blows:
            return None
        if self._failing is None and self._chance.random() < 0.1:
            kind = self._chance.choice([Overloaded, StorageFull, Fenced, UnknownOutcome])
            self._failing = kind("a storm")
        if self._failing is not None:
            return self._failing
        return "silence" if self._chance.random() < 0.2 else None

    def gust(self) -> None:
        """Perhaps cut the connections, or close the way for a while."""
        if self._chance.random() < 0.15:
            self._bench.network.cut()
        self._bench.network.reachable = self._chance.random() < 0.9


@pytest.mark.parametrize("seed", range(6))
async def test_a_producer_in_a_storm_loses_and_repeats_nothing(bench: Bench, seed: int) -> None:
    chance = random.Random(seed)
    storm = Storm(bench, chance)
    client = await bench.client(reconnect_timeout=10_000)
    producer = client.producer(
        TOPIC,
        send_timeout=10_000,
        batch_records=chance.choice([1, 5, 50]),
        linger_ms=chance.choice([0, 1, 20]),
    )
    await producer.open()
    bench.broker.publishing = storm.verdict
    sent: list[bytes] = []
    tickets: list[tuple[int, sulina.Ticket]] = []
    for _ in range(60):
        count = chance.choice([1, 1, 3, 40])
        payloads = [b"%d" % number for number in range(len(sent), len(sent) + count)]
        sent += payloads
        if count == 1:
            tickets.append((len(sent) - 1, await producer.send(payloads[0])))
        else:
            tickets.append((len(sent) - 1, await producer.send_many(payloads)))
        storm.gust()
        await bench.clock.advance(chance.choice([0, 0.001, 0.1, 2.0]))
    storm.blows = False
    bench.network.reachable = True
    bench.network.cut()  # what was never answered is asked again
    await bench.eventually(producer.close())
    stored = [p for data in bench.broker.stored[TOPIC] for p in Frame(data).payloads]
    assert stored == sent
    for offset, ticket in tickets:
        assert (await ticket).offset in (offset, -1)
