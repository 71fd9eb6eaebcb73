"""Samples the traffic of a broker every few seconds, for people who look at it.

One walk over all open topics serves every viewer. It yields to the event loop between portions.
Samples of the last hour are kept, so that a chart has a past when somebody opens it; all memory is
bounded by that, and by the number of open topics and subscriptions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from broker_containers.broker.broker import Broker
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topics.topic import Topic
from sulina.metrics.histogram import LATENCY_MS, Histogram
from sulina.operations.overview import Concern, SubscriptionConcern, TopicTraffic, TrafficSample
from sulina.runtime.tasks import stop_tasks

SAMPLE_SECONDS: Final = 5.0
_KEPT: Final = 720
_AT_ONCE: Final = 500
_BUSIEST: Final = 10
_MOST_CONCERNS: Final = 1000
_MINUTE: Final = 60.0
_RECENT: Final = 300.0
"""For how long a failure counts as one of now."""

Rates = tuple[float, float, float, float]
"""Records and bytes in, records and bytes out, per second."""
_IDLE: Final[Rates] = (0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class _SeenTopic:
    counts: tuple[int, int, int, int]
    rates: Rates
    backlog: int


@dataclass(slots=True)
class _SeenSubscription:
    acknowledged: int
    progress_at: float
    """When something was last acknowledged, or there was nothing to acknowledge."""
    failed: int
    failed_at: float
    minute_at: float
    minute_backlog: int
    growth: float = 0.0
    grew: int = 0
    """For how many minutes in a row the backlog has grown."""


@dataclass(slots=True)
class Gauges:
    """Counted by the last walk."""

    topics: int = 0
    subscriptions: int = 0
    producers: int = 0
    consumers: int = 0
    backlog: int = 0


class TrafficSampler:
    """The traffic of one broker. Use as ``async with``: it samples meanwhile."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._clock = broker.clock
        self._task: asyncio.Task[None] | None = None
        self._topics: dict[str, _SeenTopic] = {}
        self._subscriptions: dict[tuple[str, str], _SeenSubscription] = {}
        self._last = self._clock.now()
        self._latency = broker.publish_latency.seen.counts()
        self._taken = asyncio.Event()
        self.gauges = Gauges()
        self.now = TrafficSample(self._clock.wall_us(), *_IDLE, 0, None, None)
        self.history: deque[TrafficSample] = deque(maxlen=_KEPT)
        self.concerns: list[SubscriptionConcern] = []
        """The worst first."""

    async def __aenter__(self) -> TrafficSampler:
        self._task = asyncio.create_task(self._run(), name="traffic-sampler")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            await stop_tasks(self._task)

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(SAMPLE_SECONDS)
            await self.take()

    async def next(self) -> None:
        """Wait for the next sample."""
        await self._taken.wait()

    def rates(self, topic: str) -> Rates:
        """Of an open topic or partition, in the last interval."""
        seen = self._topics.get(topic)
        return _IDLE if seen is None else seen.rates

    def busiest(self) -> tuple[TopicTraffic, ...]:
        """The topics with the most traffic, in and out."""
        found = nlargest(
            _BUSIEST, self._topics.items(), key=lambda each: each[1].rates[0] + each[1].rates[2]
        )
        return tuple(
            TopicTraffic(name, *seen.rates, seen.backlog)
            for name, seen in found
            if any(seen.rates) or seen.backlog
        )

    async def take(self) -> None:
        """Take a sample now."""
        now = self._clock.now()
        elapsed, self._last = max(now - self._last, 1e-3), now
        topics: dict[str, _SeenTopic] = {}
        subscriptions: dict[tuple[str, str], _SeenSubscription] = {}
        gauges, concerns = Gauges(), list[SubscriptionConcern]()
        totals: Rates = _IDLE
        for index, topic in enumerate(list(self._broker.loaded())):
            if index % _AT_ONCE == _AT_ONCE - 1:
                await self._clock.sleep(0)
            name = str(topic.name)
            seen = self._topic(name, topic, elapsed)
            topics[name] = seen
            totals = _sum(totals, seen.rates)
            gauges.topics += 1
            gauges.producers += len(topic.producers)
            gauges.backlog += seen.backlog
            for found in topic.subscriptions.values():
                gauges.subscriptions += 1
                gauges.consumers += len(found.consumers)
                state = self._subscription(name, found, now)
                subscriptions[name, found.name] = state
                concern = self._concern(name, found, state, now)
                if concern is not None:
                    concerns.append(concern)
        order = list(Concern)
        concerns.sort(key=lambda each: (order.index(each.concern), -each.backlog))
        self._topics, self._subscriptions, self.gauges = topics, subscriptions, gauges
        self.concerns = concerns[:_MOST_CONCERNS]
        self.now = TrafficSample(self._clock.wall_us(), *totals, gauges.backlog, *self._quantiles())
        self.history.append(self.now)
        taken, self._taken = self._taken, asyncio.Event()
        taken.set()

    def _topic(self, name: str, topic: Topic, elapsed: float) -> _SeenTopic:
        delivered = sent = backlog = 0
        for found in topic.subscriptions.values():
            delivered += found.counters.delivered
            sent += found.counters.bytes_out
            backlog += found.backlog
        counts = topic.counters.records_in, topic.counters.bytes_in, delivered, sent
        before = self._topics.get(name)
        if before is None or any(new < old for new, old in zip(counts, before.counts, strict=True)):
            # Opened since the last walk, or again: everything that it has counted is new. What was
            # there before the first walk is not.
            old = counts if not self.history else (0, 0, 0, 0)
        else:
            old = before.counts
        rates = (
            (counts[0] - old[0]) / elapsed,
            (counts[1] - old[1]) / elapsed,
            (counts[2] - old[2]) / elapsed,
            (counts[3] - old[3]) / elapsed,
        )
        return _SeenTopic(counts, rates, backlog)

    def _subscription(self, topic: str, found: Subscription, now: float) -> _SeenSubscription:
        counters, backlog = found.counters, found.backlog
        failed = counters.redelivered + counters.dropped + counters.dead_lettered
        seen = self._subscriptions.get((topic, found.name))
        if seen is None:
            return _SeenSubscription(
                counters.acknowledged, now, failed, now if failed else -_RECENT, now, backlog
            )
        if counters.acknowledged != seen.acknowledged or not backlog:
            seen.acknowledged, seen.progress_at = counters.acknowledged, now
        if failed != seen.failed:
            seen.failed, seen.failed_at = failed, now
        if now - seen.minute_at >= _MINUTE:
            seen.growth = (backlog - seen.minute_backlog) / (now - seen.minute_at)
            seen.grew = seen.grew + 1 if seen.growth > 0 else 0
            seen.minute_at, seen.minute_backlog = now, backlog
        return seen

    def _concern(
        self, topic: str, found: Subscription, seen: _SeenSubscription, now: float
    ) -> SubscriptionConcern | None:
        judged = _judge(found, seen, now)
        if judged is None:
            return None
        broker = self._broker.settings.broker_id
        return SubscriptionConcern(
            topic, found.name, broker, *judged, found.backlog, seen.growth, len(found.consumers)
        )

    def _quantiles(self) -> tuple[float | None, float | None]:
        counts = self._broker.publish_latency.seen.counts()
        new = [now - before for now, before in zip(counts, self._latency, strict=True)]
        self._latency = counts
        if not any(new):
            return None, None
        seen = Histogram.of(LATENCY_MS, new)
        return seen.quantile(0.5), seen.quantile(0.99)


def _sum(one: Rates, other: Rates) -> Rates:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def _judge(found: Subscription, seen: _SeenSubscription, now: float) -> tuple[Concern, str] | None:
    """Why a subscription needs attention, with cause and remedy; None if it does not."""
    backlog, counters, quiet = found.backlog, found.counters, now - seen.progress_at
    if (stalled := found.stalled) is not None:
        return Concern.STALLED, stalled
    if seen.failed and now - seen.failed_at < _RECENT:
        return Concern.FAILING, (
            f"{counters.redelivered:,} messages were redelivered, {counters.dead_lettered:,} "
            f"became dead letters, {counters.dropped:,} were dropped: look at these messages, and "
            "at the consumers' logs"
        )
    if backlog and found.consumers and quiet >= _MINUTE:
        return Concern.NO_PROGRESS, (
            f"nothing was acknowledged for {quiet:,.0f} s although consumers are connected: check "
            "that they acknowledge, and that they are not stuck"
        )
    if backlog and seen.grew > 1:
        return Concern.GROWING, (
            f"the backlog grew by {seen.growth:,.1f} messages per second: add consumers, or make "
            "them faster"
        )
    if backlog and not found.consumers:
        return Concern.NO_CONSUMERS, (
            "messages wait and no consumer is connected: start one, or delete the subscription if "
            "nobody needs it"
        )
    return None
