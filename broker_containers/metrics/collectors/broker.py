"""All metrics of a broker, collected on request.

Topics count as they work; this only reads their counters, so collecting adds no cost per message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import psutil

from broker_containers.broker.broker import Broker
from broker_containers.metrics.collectors.storage import write_tier
from broker_containers.metrics.collectors.topics import TopicMetrics
from broker_containers.metrics.exposition import Exposition, Sees, Write
from broker_containers.quotas.quotas import Quotas, limit_names
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.topics.histogram import LAG_SECONDS, Histogram
from sulina.metadata.keys.quotas import QuotaScope
from sulina.runtime.machine_watch import MachineWatch
from sulina.runtime.seam import Clock
from sulina.version import __version__

_EVERY_SECONDS = 0.25
_MOST_SUBJECTS = 1_000


class ProcessMetrics:
    """Reads process statistics from the operating system at each collection."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    def write(self, text: Exposition) -> None:
        with self._process.oneshot():
            times = self._process.cpu_times()
            memory = self._process.memory_info()
            files = self._process.num_fds()
            threads = self._process.num_threads()
            started = self._process.create_time()
        text.counter(
            "process_cpu_seconds_total",
            "CPU time in seconds, user and system.",
            round(times.user + times.system, 3),
        )
        text.gauge("process_resident_memory_bytes", "Resident memory.", memory.rss)
        text.gauge("process_virtual_memory_bytes", "Virtual memory.", memory.vms)
        text.gauge("process_open_fds", "Open file descriptors.", files)
        text.gauge("process_threads", "Threads.", threads)
        text.gauge("process_start_time_seconds", "Start time (Unix seconds).", started)


class LoopLag:
    """Measures how late the event loop wakes a sleeping task."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seen = Histogram(LAG_SECONDS)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            wanted = self._clock.now() + _EVERY_SECONDS
            await self._clock.sleep(_EVERY_SECONDS)
            self.seen.add(max(self._clock.now() - wanted, 0.0))


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

    async def collect(self, sees: Sees | None = None, *, whole: bool = True) -> bytes:
        """The text of all metrics. Yields to the event loop between portions.

        With ``sees``, it names only what the reader may see; without ``whole``, it has nothing but
        the series of topics and subscriptions.
        """
        async with self._collecting:
            broker = self._broker
            text = Exposition(sees, broker.settings.broker_id)
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
            self._process.write(text)
            return text.encode()


def of_machine(watch: MachineWatch, clock: Clock) -> Write:
    """What the machine lacks: file descriptors, a steady clock, valid certificates."""

    def write(text: Exposition) -> None:
        text.gauge("process_max_fds", "File descriptors allowed.", watch.descriptors.limit)
        text.gauge(
            "sulina_descriptors_scarce",
            "1 while so few file descriptors are free that new connections are refused.",
            int(watch.descriptors.scarce),
        )
        text.counter(
            "sulina_clock_jumps_total",
            "How often the wall clock moved a second more or less than the monotonic clock.",
            watch.clock_jumps,
        )
        text.gauge(
            "sulina_clock_last_jump_seconds",
            "The last jump of the wall clock, negative if it went back.",
            watch.last_jump_seconds,
        )
        now = clock.wall_us() / 1e6
        text.gauge(
            "sulina_certificate_expires_seconds",
            "Seconds until each certificate of this broker expires, negative afterwards.",
            (({"file": file.name}, round(at - now)) for file, at in watch.expires.items()),
        )

    return write


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
