"""Measures a collection of metrics: ``python -m tests.http.bench --topics 10000``.

How long it takes, and for how long at most the event loop serves nobody else meanwhile; and the
same number of samples by the usual client library, which formats them in one go.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from broker_containers.broker.broker import Broker
from broker_containers.broker.settings import BrokerSettings
from broker_containers.metrics.collectors.broker import BrokerMetrics
from storage_grpc.ledgers import EmbeddedLedgers
from storage_grpc.memory_store import MemoryEntryStore
from sulina.metadata.embedded import EmbeddedStore
from sulina.model import Delivery, Start, SubscriptionType
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock

_ROUNDS = 5


class _Usual(Collector):
    """As many families and samples as ours has."""

    def __init__(self, topics: int, families: int) -> None:
        self._names = [f"/default/topic-{number}" for number in range(topics)]
        self._families = families

    def collect(self) -> Iterator[CounterMetricFamily]:
        for number in range(self._families):
            family = CounterMetricFamily(f"family_{number}", "Help.", labels=["topic"])
            for name in self._names:
                family.add_metric([name], 1)
            yield family


async def _longest_stall(stop: asyncio.Event) -> float:
    """The longest time between two turns of the loop."""
    longest, before = 0.0, time.perf_counter()
    while not stop.is_set():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, before = max(longest, now - before), now
    return longest


async def measure(topics: int, shown: int) -> None:
    clock = RealClock()
    store = await EmbeddedStore.open(clock)
    async with Broker(
        EmbeddedLedgers(MemoryEntryStore()), store, clock, BrokerSettings()
    ) as broker:
        for number in range(topics):
            name = TopicName("default", f"topic-{number}")
            topic = await broker.topic(name, delivery=Delivery.RELIABLE)
            start = Start.earliest()
            await broker.subscriptions.subscribe(topic, "s", SubscriptionType.SHARED, start, None)
        metrics = BrokerMetrics(broker, shown)
        for _ in range(_ROUNDS):
            stop = asyncio.Event()
            watching = asyncio.create_task(_longest_stall(stop))
            await asyncio.sleep(0)
            began = time.perf_counter()
            text = await metrics.collect()
            took = time.perf_counter() - began
            stop.set()
            sys.stdout.write(
                f"{topics} topics, {min(shown, topics)} shown: {took * 1000:.0f} ms, "
                f"longest stall {await watching * 1000:.1f} ms, {len(text) >> 10} KiB\n"
            )
    await store.close()
    registry = CollectorRegistry()
    registry.register(_Usual(min(shown, topics), 20))
    began = time.perf_counter()
    size = len(generate_latest(registry))
    took = time.perf_counter() - began
    sys.stdout.write(
        f"prometheus_client, as many samples, one stall: {took * 1000:.0f} ms, {size >> 10} KiB\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--shown", type=int, default=1000)
    options = parser.parse_args()
    asyncio.run(measure(options.topics, options.shown))


if __name__ == "__main__":
    main()
