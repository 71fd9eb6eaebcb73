"""Metrics of topics and subscriptions: totals, and individual series for a bounded number.

Topics that were opened first have individual series, so the set is stable between collections;
``sulina_metrics_left_out`` counts the others. Writes in portions and yields to the event loop
between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from operator import add
from typing import Generic, TypeVar

from broker_containers.metrics.collectors.danube import DanubeSeries
from broker_containers.subscriptions.counters import SubscriptionCounters
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topics.topic import Topic, TopicCounters
from sulina.metrics.exposition import Exposition, MetricType, escape
from sulina.runtime.seam import Clock


@dataclass(slots=True)
class _Sums:
    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    acknowledged: int = 0
    redelivered: int = 0

    def plus(self, other: _Sums) -> _Sums:
        return _Sums(*map(add, astuple(self), astuple(other)))

    def add_topic(self, counters: TopicCounters) -> None:
        self.messages_in += counters.records_in
        self.bytes_in += counters.bytes_in

    def add_subscription(self, counters: SubscriptionCounters) -> None:
        self.messages_out += counters.delivered
        self.bytes_out += counters.bytes_out
        self.acknowledged += counters.acknowledged
        self.redelivered += counters.redelivered


@dataclass(slots=True)
class _Gauges:
    producers: int = 0
    consumers: int = 0
    subscriptions: int = 0
    backlog: int = 0


@dataclass(slots=True)
class Counting:
    """One collection in progress. Counters are keyed by identity: they compare equal by value."""

    topics: dict[int, TopicCounters] = field(default_factory=dict)
    subscriptions: dict[int, SubscriptionCounters] = field(default_factory=dict)
    sums: _Sums = field(default_factory=_Sums)
    gauges: _Gauges = field(default_factory=_Gauges)

    def topic(self, topic: Topic) -> None:
        self.topics[id(topic.counters)] = topic.counters
        self.sums.add_topic(topic.counters)
        gauges = self.gauges
        gauges.producers += len(topic.producers)
        gauges.subscriptions += len(topic.subscriptions)
        for found in topic.subscriptions.values():
            counters = found.counters
            self.subscriptions[id(counters)] = counters
            self.sums.add_subscription(counters)
            gauges.consumers += len(found.consumers)
            gauges.backlog += found.backlog


class Totals:
    """The totals of one broker, which never decrease, although topics open and close.

    A topic's counters exist while the topic is open. They are remembered from one collection to
    the next, so that a closed topic's counts stay in the totals. (A topic that opens and closes
    between two collections is not counted.)
    """

    def __init__(self) -> None:
        self._gone = _Sums()
        self._counted = Counting()

    @contextmanager
    def counting(self) -> Iterator[Counting]:
        """Pass every open topic to the yielded object. After an error nothing has changed."""
        now = Counting()
        yield now
        for key, of_topic in self._counted.topics.items():
            if key not in now.topics:
                self._gone.add_topic(of_topic)
        for key, of_subscription in self._counted.subscriptions.items():
            if key not in now.subscriptions:
                self._gone.add_subscription(of_subscription)
        self._counted = now

    def write(self, text: Exposition) -> None:
        sums = self._gone.plus(self._counted.sums)
        gauges = self._counted.gauges
        counters = (
            ("messages_in", "Messages published to any topic.", sums.messages_in),
            ("bytes_in", "Bytes of the frames published to any topic.", sums.bytes_in),
            ("messages_out", "Messages delivered to any consumer.", sums.messages_out),
            ("bytes_out", "Bytes of the frames delivered to any consumer.", sums.bytes_out),
            ("acknowledged", "Messages acknowledged by any subscription.", sums.acknowledged),
            ("redelivered", "Messages redelivered.", sums.redelivered),
        )
        for name, help_, value in counters:
            text.counter(f"sulina_broker_{name}_total", help_, value)
        present = (
            ("producers", "Producers of all topics.", gauges.producers),
            ("consumers", "Consumers of all topics.", gauges.consumers),
            ("subscriptions", "Subscriptions of all topics.", gauges.subscriptions),
            ("backlog_messages", "Unacknowledged messages of all subscriptions.", gauges.backlog),
        )
        for name, help_, value in present:
            text.gauge(f"sulina_broker_{name}", help_, value)


_TOPICS_AT_ONCE = 100

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Family(Generic[_T]):
    name: str
    help: str
    value: Callable[[_T], int]

    def write(self, text: Exposition, lines: list[str]) -> None:
        """Counters have names that end with ``_total``."""
        counts = self.name.endswith("_total")
        kind = MetricType.COUNTER if counts else MetricType.GAUGE
        text.family(self.name, kind, self.help, lines)


_TOPIC: Sequence[_Family[Topic]] = (
    _Family(
        "danube_topic_messages_in_total",
        "Messages published to the topic.",
        lambda topic: topic.counters.records_in,
    ),
    _Family(
        "danube_topic_bytes_in_total",
        "Bytes of the frames published to the topic.",
        lambda topic: topic.counters.bytes_in,
    ),
    _Family(
        "sulina_topic_frames_in_total",
        "Frames published to the topic.",
        lambda topic: topic.counters.frames_in,
    ),
    _Family(
        "sulina_topic_repeats_total",
        "Frames that producers sent again although they were stored.",
        lambda topic: topic.counters.repeats,
    ),
    _Family(
        "sulina_topic_stored_messages",
        "Messages stored and readable.",
        lambda topic: topic.log.end - topic.log.start,
    ),
    _Family(
        "danube_topic_active_producers",
        "Producers of the topic.",
        lambda topic: len(topic.producers),
    ),
    _Family(
        "danube_topic_active_consumers",
        "Consumers of the topic.",
        lambda topic: topic.consumer_count,
    ),
    _Family(
        "danube_topic_active_subscriptions",
        "Subscriptions of the topic.",
        lambda topic: len(topic.subscriptions),
    ),
)

_SUBSCRIPTION: Sequence[_Family[Subscription]] = (
    _Family(
        "danube_subscription_lag_messages",
        "Messages published and not acknowledged (upper bound).",
        lambda found: found.backlog,
    ),
    _Family(
        "danube_subscription_active_consumers",
        "Consumers of the subscription.",
        lambda found: len(found.consumers),
    ),
    _Family(
        "danube_consumer_messages_out_total",
        "Messages delivered to the subscription's consumers, including redeliveries.",
        lambda found: found.counters.delivered,
    ),
    _Family(
        "danube_consumer_bytes_out_total",
        "Bytes of the frames delivered to the subscription's consumers.",
        lambda found: found.counters.bytes_out,
    ),
    _Family(
        "sulina_subscription_acknowledged_total",
        "Messages acknowledged.",
        lambda found: found.counters.acknowledged,
    ),
    _Family(
        "danube_subscription_nack_total",
        "Messages negatively acknowledged by consumers.",
        lambda found: found.counters.nacked,
    ),
    _Family(
        "danube_subscription_redelivery_total",
        "Messages redelivered.",
        lambda found: found.counters.redelivered,
    ),
    _Family(
        "danube_subscription_dlq_total",
        "Messages moved to the dead-letter topic.",
        lambda found: found.counters.dead_lettered,
    ),
    _Family(
        "sulina_subscription_ack_timeouts_total",
        "Messages not acknowledged before the ack timeout.",
        lambda found: found.counters.timed_out,
    ),
    _Family(
        "sulina_subscription_dropped_total",
        "Messages dropped by the failure policy.",
        lambda found: found.counters.dropped,
    ),
    _Family(
        "sulina_subscription_skipped_total",
        "Messages skipped because they were deleted before delivery.",
        lambda found: found.counters.skipped,
    ),
    _Family(
        "sulina_subscription_expired_total",
        "Messages passed over because they expired before anybody took them.",
        lambda found: found.counters.expired,
    ),
    _Family(
        "sulina_subscription_stalled",
        "1 while messages cannot be read from storage.",
        lambda found: int(found.stalled is not None),
    ),
)


class TopicMetrics:
    """Writes the metrics of all topics; ``limit`` bounds the number with individual series."""

    def __init__(self, clock: Clock, limit: int) -> None:
        self._clock = clock
        self._limit = limit
        self._totals = Totals()

    async def write(self, text: Exposition, topics: Sequence[Topic]) -> None:
        """The caller makes sure that only one collection runs at a time."""
        with self._totals.counting() as counting:
            for first in range(0, len(topics), _TOPICS_AT_ONCE):
                for topic in topics[first : first + _TOPICS_AT_ONCE]:
                    counting.topic(topic)
                await self._clock.sleep(0)
        self._totals.write(text)
        text.gauge("danube_broker_topics_owned", "Open topics.", len(topics))
        await self.write_series(text, topics)

    async def write_series(self, text: Exposition, topics: Sequence[Topic]) -> None:
        """The series of those topics that the reader sees, and how many are left out."""
        sees = text.sees
        topics = [topic for topic in topics if sees(str(topic.name))]
        of_topics: list[list[str]] = [[] for _ in _TOPIC]
        of_subscriptions: list[list[str]] = [[] for _ in _SUBSCRIPTION]
        for_danube = DanubeSeries()
        shown_topics = shown_subscriptions = all_subscriptions = 0
        for first in range(0, len(topics), _TOPICS_AT_ONCE):
            for topic in topics[first : first + _TOPICS_AT_ONCE]:
                name = str(topic.name)
                seen = [each for each in topic.subscriptions.values() if sees(name, each.name)]
                all_subscriptions += len(seen)
                if shown_topics == self._limit:
                    continue
                shown_topics += 1
                label = f'{{topic="{name}"'
                _add(of_topics, _TOPIC, label, topic)
                for_danube.add(topic)
                for found in seen:
                    if shown_subscriptions == self._limit:
                        break
                    shown_subscriptions += 1
                    both = f'{label},subscription="{escape(found.name)}"'
                    _add(of_subscriptions, _SUBSCRIPTION, both, found)
            await self._clock.sleep(0)
        for topic_family, lines in zip(_TOPIC, of_topics, strict=True):
            topic_family.write(text, lines)
            await self._clock.sleep(0)
        for family, lines in zip(_SUBSCRIPTION, of_subscriptions, strict=True):
            family.write(text, lines)
            await self._clock.sleep(0)
        for_danube.write(text)
        text.gauge(
            "sulina_metrics_left_out",
            "Topics and subscriptions without individual series; totals include them.",
            [
                ({"what": "topics"}, len(topics) - shown_topics),
                ({"what": "subscriptions"}, all_subscriptions - shown_subscriptions),
            ],
        )


def _add(into: list[list[str]], families: Sequence[_Family[_T]], label: str, of: _T) -> None:
    for lines, family in zip(into, families, strict=True):
        lines.append(f"{family.name}{label}}} {family.value(of)}")
