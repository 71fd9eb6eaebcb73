"""Samples the traffic of a broker every few seconds, for people who look at it.

One walk over all open topics serves every viewer. It yields to the event loop between portions.
Samples of the last hour are kept, so that a chart has a past when somebody opens it; all memory is
bounded by that, and by the number of open topics and subscriptions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final

from broker_containers.broker.broker import Broker
from broker_containers.subscriptions.counters import SubscriptionCounters
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
_RANKS: Final = {concern: rank for rank, concern in enumerate(Concern)}
_NOBODY: Final = (
    "no consumer is connected: start one, or delete the subscription if nobody needs it"
)
_RECENT: Final = 300.0
"""For how long a failure counts as one of now."""

Rates = tuple[float, float, float, float]
"""Records and bytes in, records and bytes out, per second."""
_IDLE: Final[Rates] = (0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class SeenTopic:
    """An open topic or partition, as the last walk found it."""

    name: str
    whole: str
    """The topic that it is a partition of, or itself."""
    counts: tuple[int, int, int, int]
    rates: Rates = _IDLE
    backlog: int = 0
    subscriptions: dict[str, _SeenSubscription] = field(default_factory=dict)


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
        self._topics: dict[Topic, SeenTopic] = {}
        self._busy: list[SeenTopic] = []
        """Those with traffic or a backlog."""
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

    def seen(self, topic: Topic) -> SeenTopic:
        """An open topic as the last walk found it, or without traffic if it was opened later."""
        return self._topics.get(topic) or _new(topic, (0, 0, 0, 0))

    def busiest(self) -> tuple[TopicTraffic, ...]:
        """The topics with the most traffic, in and out."""
        found = nlargest(_BUSIEST, self._busy, key=lambda seen: seen.rates[0] + seen.rates[2])
        return tuple(TopicTraffic(seen.name, *seen.rates, seen.backlog) for seen in found)

    async def take(self) -> None:
        """Take a sample now. An idle topic takes about two microseconds."""
        now = self._clock.now()
        elapsed, self._last = max(now - self._last, 1e-3), now
        before, topics = self._topics, dict[Topic, SeenTopic]()
        busy, concerns, gauges = list[SeenTopic](), list[SubscriptionConcern](), Gauges()
        totals: Rates = _IDLE
        for index, topic in enumerate(list(self._broker.loaded())):
            if index % _AT_ONCE == _AT_ONCE - 1:
                await self._clock.sleep(0)
            seen = before.get(topic)
            if seen is None:
                # Everything that it has counted is new, except at the first walk.
                seen = _new(topic, (0, 0, 0, 0) if self.history else _counts(topic))
            topics[topic] = seen
            gauges.producers += len(topic.producers)
            if topic.subscriptions:
                self._look_at_subscriptions(topic, seen, now, gauges, concerns)
            counts = _counts(topic)
            if counts != seen.counts:
                seen.rates = _rates(counts, seen.counts, elapsed)
                seen.counts = counts
                totals = _sum(totals, seen.rates)
                busy.append(seen)
            else:
                seen.rates = _IDLE
                if seen.backlog:
                    busy.append(seen)
        gauges.topics = len(topics)
        concerns.sort(key=lambda each: (_RANKS[each.concern], -each.backlog))
        self._topics, self._busy, self.gauges = topics, busy, gauges
        self.concerns = concerns[:_MOST_CONCERNS]
        self.now = TrafficSample(self._clock.wall_us(), *totals, gauges.backlog, *self._quantiles())
        self.history.append(self.now)
        taken, self._taken = self._taken, asyncio.Event()
        taken.set()

    def _look_at_subscriptions(
        self,
        topic: Topic,
        seen: SeenTopic,
        now: float,
        gauges: Gauges,
        concerns: list[SubscriptionConcern],
    ) -> None:
        seen.backlog = 0
        known, seen.subscriptions = seen.subscriptions, {}
        for name, found in topic.subscriptions.items():
            counters, backlog = found.counters, found.backlog
            seen.backlog += backlog
            gauges.consumers += len(found.consumers)
            failed = counters.redelivered + counters.dropped + counters.dead_lettered
            state = known.get(name)
            if state is None:
                state = _SeenSubscription(
                    counters.acknowledged, now, failed, now if failed else -_RECENT, now, backlog
                )
            seen.subscriptions[name] = state
            _follow(state, counters.acknowledged, failed, backlog, now)
            if backlog or now - state.failed_at < _RECENT:
                judged = _judge(found, state, now)
                # Those without consumers are the last in the list, and may be many.
                if judged is not None and (
                    judged[0] is not Concern.NO_CONSUMERS or len(concerns) < _MOST_CONCERNS
                ):
                    broker = self._broker.settings.broker_id
                    concerns.append(
                        SubscriptionConcern(
                            seen.name,
                            name,
                            broker,
                            *judged,
                            backlog,
                            state.growth,
                            len(found.consumers),
                        )
                    )
        gauges.subscriptions += len(topic.subscriptions)
        gauges.backlog += seen.backlog

    def _quantiles(self) -> tuple[float | None, float | None]:
        counts = self._broker.publish_latency.seen.counts()
        new = [now - before for now, before in zip(counts, self._latency, strict=True)]
        self._latency = counts
        if not any(new):
            return None, None
        seen = Histogram.of(LATENCY_MS, new)
        return seen.quantile(0.5), seen.quantile(0.99)


def _new(topic: Topic, counts: tuple[int, int, int, int]) -> SeenTopic:
    whole = topic.name.partition_of
    return SeenTopic(str(topic.name), str(topic.name if whole is None else whole[0]), counts)


def _counts(topic: Topic) -> tuple[int, int, int, int]:
    counters, delivered, sent = topic.counters, 0, 0
    for found in topic.subscriptions.values():
        delivered += found.counters.delivered
        sent += found.counters.bytes_out
    return counters.records_in, counters.bytes_in, delivered, sent


def _rates(new: tuple[int, int, int, int], old: tuple[int, int, int, int], elapsed: float) -> Rates:
    """None is negative: a subscription that was deleted takes its counts with it."""
    return (
        max(new[0] - old[0], 0) / elapsed,
        max(new[1] - old[1], 0) / elapsed,
        max(new[2] - old[2], 0) / elapsed,
        max(new[3] - old[3], 0) / elapsed,
    )


def _follow(
    seen: _SeenSubscription, acknowledged: int, failed: int, backlog: int, now: float
) -> None:
    if acknowledged != seen.acknowledged or not backlog:
        seen.acknowledged, seen.progress_at = acknowledged, now
    if failed != seen.failed:
        seen.failed, seen.failed_at = failed, now
    if now - seen.minute_at >= _MINUTE:
        seen.growth = (backlog - seen.minute_backlog) / (now - seen.minute_at)
        seen.grew = seen.grew + 1 if seen.growth > 0 else 0
        seen.minute_at, seen.minute_backlog = now, backlog


def _sum(one: Rates, other: Rates) -> Rates:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def _failures(counters: SubscriptionCounters) -> str:
    """What went wrong, and how often: ``3 messages were redelivered, 1 dropped``."""
    counted = (
        (counters.redelivered, "redelivered"),
        (counters.dead_lettered, "sent to dead letters"),
        (counters.dropped, "dropped"),
    )
    first, *others = [(times, word) for times, word in counted if times]
    times, word = first
    text = f"{times:,} {'message was' if times == 1 else 'messages were'} {word}"
    return ", ".join([text, *(f"{times:,} {word}" for times, word in others)])


def _judge(found: Subscription, seen: _SeenSubscription, now: float) -> tuple[Concern, str] | None:
    """Why a subscription needs attention, with cause and remedy; None if it does not."""
    backlog, counters, quiet = found.backlog, found.counters, now - seen.progress_at
    if (stalled := found.stalled) is not None:
        return Concern.STALLED, stalled
    if seen.failed and now - seen.failed_at < _RECENT:
        return Concern.FAILING, (
            f"{_failures(counters)}: look at these messages, and at the consumers' logs"
        )
    delayed = found.held_by_delay
    taken = any(found.in_flight(each) for each in found.consumers) if delayed else True
    if backlog and found.consumers and taken and quiet >= _MINUTE:
        return Concern.NO_PROGRESS, (
            f"nothing was acknowledged for {quiet:,.0f} s although consumers are connected: check "
            "that they acknowledge, and that they are not stuck"
        )
    if backlog and seen.grew > 1 and not (delayed and found.consumers):
        return Concern.GROWING, (
            f"the backlog grew by {seen.growth:,.{int(seen.growth < 10)}f} messages per second"
            + (": add consumers, or make them faster" if found.consumers else f" and {_NOBODY}")
        )
    if backlog and not found.consumers:
        return Concern.NO_CONSUMERS, f"messages wait and {_NOBODY}"
    return None
