"""Totals over all topics of a broker that never decrease, although topics open and close.

A topic's counters exist while the topic is open. They are remembered from one collection to the
next, so that a closed topic's counts stay in the totals. (A topic that opens and closes between
two collections is not counted.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from operator import add

from broker_containers.metrics.exposition import Exposition, MetricType
from broker_containers.subscriptions.dispatcher import SubscriptionCounters
from broker_containers.topics.topic import Topic, TopicCounters


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
    """The totals of one broker."""

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
            text.one(f"sulina_broker_{name}_total", MetricType.COUNTER, help_, value)
        present = (
            ("producers", "Producers of all topics.", gauges.producers),
            ("consumers", "Consumers of all topics.", gauges.consumers),
            ("subscriptions", "Subscriptions of all topics.", gauges.subscriptions),
            ("backlog_messages", "Unacknowledged messages of all subscriptions.", gauges.backlog),
        )
        for name, help_, value in present:
            text.one(f"sulina_broker_{name}", MetricType.GAUGE, help_, value)
