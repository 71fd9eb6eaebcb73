"""Random trouble between a producer and its broker: all is stored, once and in order."""

from __future__ import annotations

import random

import pytest

import sulina
from sulina.errors import Fenced, Overloaded, StorageFull, SulinaError, UnknownOutcome
from sulina.wire.decode import Frame
from tests.client.bench import Bench

TOPIC = "/default/t"


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


@pytest.mark.parametrize("seed", range(12))
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
