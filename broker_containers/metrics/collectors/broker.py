"""All metrics of a broker, collected on request.

Topics count as they work; this only reads their counters, so collecting adds no cost per message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from broker_containers.broker.broker import Broker
from broker_containers.metrics.collectors.storage import write_tier
from broker_containers.metrics.collectors.topics import TopicMetrics
from broker_containers.quotas.quotas import Quotas, limit_names
from broker_containers.schemas.checks import SchemaChecks
from sulina.metadata.keys.quotas import QuotaScope
from sulina.metrics.exposition import Exposition, Sees, Write
from sulina.metrics.machine import LoopLag, ProcessMetrics
from sulina.version import __version__

_MOST_SUBJECTS = 1_000


class BrokerMetrics:
    """The metrics of one broker. Use as ``async with``: it measures event-loop lag meanwhile."""

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
        """Call ``write`` at every collection to add more families."""
        self._others.append(write)

    def add_connections(self, counts: Mapping[str, Callable[[], int]]) -> None:
        """Report the number of connected clients per door."""
        self._connections.update(counts)

    async def __aenter__(self) -> BrokerMetrics:
        self._watching = asyncio.create_task(self._lag.run(), name="loop-lag")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    async def collect(
        self, sees: Sees | None = None, *, whole: bool = True, open_metrics: bool = False
    ) -> bytes:
        """The text of all metrics. Yields to the event loop between portions.

        With ``sees``, it names only what the reader may see; without ``whole``, it has nothing but
        the series of topics and subscriptions. ``open_metrics`` adds exemplars.
        """
        async with self._collecting:
            broker = self._broker
            text = Exposition(sees, broker.settings.broker_id, open_metrics=open_metrics)
            if not whole:
                await self._topics.write_series(text, list(broker.loaded()))
                return text.encode()
            identity = {"broker_id": broker.settings.broker_id, "version": __version__}
            text.gauge("danube_broker_info", "This broker; always 1.", [(identity, 1)])
            await self._topics.write(text, list(broker.loaded()))
            text.histogram(
                "sulina_publish_latency_ms",
                "Milliseconds from receiving a frame of any topic until it is durable.",
                broker.publish_latency.seen,
            )
            text.gauge(
                "sulina_tail_cache_bytes",
                "Memory used by the newest frames, kept for consumers at the tail.",
                broker.cache.bytes,
            )
            text.gauge(
                "sulina_ledgers_overloaded",
                "1 while publishers are held back because too many bytes wait to become durable.",
                int(broker.ledgers.overloaded),
            )
            text.gauge(
                "sulina_connections",
                "Connected clients, by door.",
                (({"door": door}, count()) for door, count in self._connections.items()),
            )
            write_tier(text, broker)
            for write in self._others:
                write(text)
            text.histogram(
                "sulina_event_loop_lag_seconds",
                "How late the event loop ran, sampled four times a second.",
                self._lag.seen,
            )
            text.gauge("sulina_tasks", "Tasks of the event loop.", len(asyncio.all_tasks()))
            self._process.write(text)
            return text.encode()


def of_quotas(quotas: Quotas) -> Write:
    """Use and limit of each quota with a limit, for at most a thousand subjects."""

    def write(text: Exposition) -> None:
        use: list[tuple[Mapping[str, str], float]] = []
        allowed: list[tuple[Mapping[str, str], float]] = []
        for scope, name in quotas.subjects()[:_MOST_SUBJECTS]:
            if scope is QuotaScope.NAMESPACE and not text.sees(f"/{name}/*"):
                continue
            for limit in limit_names(scope):
                most = quotas.limit((scope, name), limit) if limit != "when_full" else 0
                used = quotas.use((scope, name), limit)
                if most and used is not None:
                    label = {"scope": scope, "name": name, "limit": limit}
                    use.append((label, used))
                    allowed.append((label, most))
        text.gauge("sulina_quota_use", "Use of each quota with a limit.", use)
        text.gauge("sulina_quota_limit", "The limit of each quota.", allowed)
        text.counter(
            "sulina_quota_refusals_total",
            "How often something was refused or delayed because a quota was reached, by limit.",
            (({"limit": limit}, count) for limit, count in sorted(quotas.refused.items())),
        )

    return write


def of_schemas(checks: SchemaChecks) -> Write:
    """Metrics of all topics together; the log names the topic of each failure."""

    def write(text: Exposition) -> None:
        text.counter(
            "sulina_schema_checks_total",
            "Messages and frames whose schema was checked.",
            checks.checked,
        )
        text.counter(
            "sulina_schema_failures_total",
            "Messages that do not match their topic's schema, by whether they were accepted.",
            (({"result": "refused"}, checks.refused), ({"result": "taken"}, checks.warned)),
        )

    return write
