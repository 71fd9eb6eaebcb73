"""Reports a broker's load: the resources it uses, and the traffic of each topic."""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker_containers.broker.broker import Broker
from broker_containers.cluster.membership import Membership
from broker_containers.cluster.tables import LOADS
from broker_containers.load.report import LoadReport, TopicLoad
from broker_containers.topics.topic import Topic
from sulina.errors import NotFound, Retriable, UnknownOutcome
from sulina.metadata.keys.path import part
from sulina.metadata.store import MetadataStore
from sulina.runtime.resources import ResourceMonitor
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)


class LoadReporter:
    """Run it in a task. A report expires with the broker's lease."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        membership: Membership,
        broker: Broker,
        monitor: ResourceMonitor,
        seconds: Callable[[], float],
        connections: Callable[[], int],
    ) -> None:
        """``connections`` returns the number of connected clients."""
        self._store = store
        self._clock = clock
        self._membership = membership
        self._broker = broker
        self._monitor = monitor
        self._seconds = seconds
        self._before: dict[str, tuple[float, ...]] = {}
        self._last = clock.now()
        self._connections = connections

    async def run(self) -> None:
        """Report periodically until cancelled."""
        while True:
            await self._clock.sleep(self._seconds())
            lease = self._membership.lease
            if lease is None:
                continue
            report = self.make()
            try:
                key = LOADS + part(self._membership.broker)
                await self._store.put(key, report.to_bytes(), lease=lease.id)
            except (Retriable, UnknownOutcome, NotFound) as error:
                _log.info("storing the load report failed; will retry: %s", error)

    def make(self) -> LoadReport:
        """The current load; rates are averages since the previous report."""
        now = self._clock.now()
        elapsed = max(now - self._last, 1e-3)
        before, self._before, self._last = self._before, {}, now
        loads = []
        for topic in self._broker.loaded():
            name, counts = str(topic.name), _counts(topic)
            self._before[name] = counts
            rates = [
                max(new - old, 0.0) / elapsed
                for new, old in zip(counts, before.get(name, counts), strict=True)
            ]
            loads.append(_load(topic, name, *rates))
        return LoadReport.bounded(
            self._membership.broker,
            self._clock.wall_us(),
            self._monitor.read(now),
            loads,
            connections=self._connections(),
        )


def _counts(topic: Topic) -> tuple[float, ...]:
    out = [found.counters for found in topic.subscriptions.values()]
    return (
        topic.counters.records_in,
        topic.counters.bytes_in,
        sum(each.delivered for each in out),
        sum(each.bytes_out for each in out),
    )


def _load(
    topic: Topic,
    name: str,
    records_in: float,
    bytes_in: float,
    records_out: float,
    bytes_out: float,
) -> TopicLoad:
    subscriptions = topic.subscriptions.values()
    records = max((found.backlog for found in subscriptions), default=0)
    mean = topic.counters.bytes_in / topic.counters.records_in if topic.counters.records_in else 0.0
    return TopicLoad(
        name,
        records_in,
        bytes_in,
        records_out,
        bytes_out,
        producers=len(topic.producers),
        consumers=topic.consumer_count,
        backlog=int(records * mean),
    )
