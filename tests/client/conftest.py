"""A client over a network in memory to a scripted broker, on a clock that tests move."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import sulina
from sulina.runtime.seam import Runtime
from tests.client.bench import Bench
from tests.client.memory_network import MemoryNetwork
from tests.client.scripted_broker import ScriptedBroker
from tests.metadata.manual_clock import ManualClock


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    broker, clock = ScriptedBroker(), ManualClock()
    network = MemoryNetwork(broker.accept)
    bench = Bench(broker, network, clock)
    yield bench
    await bench.close()


@pytest.fixture
async def client(bench: Bench) -> sulina.Client:
    return await bench.client()


@pytest.fixture
def runtime(bench: Bench) -> Runtime:
    return bench.runtime
