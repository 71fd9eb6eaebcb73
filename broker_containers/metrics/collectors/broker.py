"""All metrics of a broker, collected when somebody asks for them.

Nothing here is on the way of a message: topics count as they go, and this reads their counters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from broker_containers.broker.broker import Broker
from broker_containers.metrics.collectors.process import LoopLag, ProcessMetrics
from broker_containers.metrics.collectors.storage import write_tier
from broker_containers.metrics.collectors.topics import TopicMetrics
from broker_containers.metrics.exposition import Exposition, MetricType, Write
from sulina.version import __version__


class BrokerMetrics:
    """The metrics of one broker. Use as ``async with``: it watches the event loop meanwhile."""

    def __init__(self, broker: Broker, limit: int) -> None:
        self._broker = broker
        self._topics = TopicMetrics(broker.clock, limit)
        self._process = ProcessMetrics()
        self._lag = LoopLag(broker.clock)
        self._watching: asyncio.Task[None] | None = None
        self._collecting = asyncio.Lock()
        self._others: list[Write] = []
        self._connections: dict[str, Callable[[], int]] = {}

    def add(self, write: Write) -> None:
        """Let ``write`` add families of its own to every collection."""
        self._others.append(write)

    def add_connections(self, counts: Mapping[str, Callable[[], int]]) -> None:
        """How many clients are connected, by door."""
        self._connections.update(counts)

    async def __aenter__(self) -> BrokerMetrics:
        self._watching = asyncio.create_task(self._lag.run(), name="loop-lag")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    async def collect(self) -> bytes:
        """The text of all metrics; takes turns with everything else on the event loop."""
        async with self._collecting:
            text = Exposition()
            broker = self._broker
            identity = {"broker_id": broker.settings.broker_id, "version": __version__}
            text.each(
                "danube_broker_info", MetricType.GAUGE, "Who this is; always 1.", [(identity, 1)]
            )
            await self._topics.write(text, list(broker.loaded()))
            text.histogram(
                "danube_producer_send_latency_ms",
                "Milliseconds from a frame's arrival until it is durable.",
                broker.publish_latency.seen,
            )
            text.one(
                "sulina_tail_cache_bytes",
                MetricType.GAUGE,
                "Memory taken by frames kept for consumers at the tail.",
                broker.cache.bytes,
            )
            text.one(
                "sulina_ledgers_overloaded",
                MetricType.GAUGE,
                "1 while too much waits to become durable and publishers are held back.",
                int(broker.ledgers.overloaded),
            )
            text.each(
                "sulina_connections",
                MetricType.GAUGE,
                "Clients that are connected, by door.",
                (({"door": door}, count()) for door, count in self._connections.items()),
            )
            write_tier(text, broker)
            for write in self._others:
                write(text)
            text.histogram(
                "sulina_event_loop_lag_seconds",
                "By how much the event loop was late, four times a second.",
                self._lag.seen,
            )
            self._process.write(text)
            return text.encode()
