"""The handler of ``topic.search``: one page of topics, sorted, of any number of topics.

Names come from memory. Each broker answers with the numbers of the topics that it has open, no
more of them than the page needs, so the answer's cost does not grow with what is not shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import reduce
from heapq import nlargest, nsmallest
from typing import Any, Final

from broker_containers.broker.broker import Broker
from broker_containers.metrics.traffic import SeenTopic, TrafficSampler
from broker_containers.operations.running import Operations, handles
from broker_containers.security.access import ACTING, Need
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.topic import Topic
from sulina.errors import Retriable
from sulina.metadata.keys import ledgers, topics
from sulina.model import EVERYTHING, Delivery
from sulina.names import TopicName
from sulina.operations.topics import (
    TopicOperations,
    TopicOrder,
    TopicPage,
    TopicSummary,
)
from sulina.runtime.deadline import within

_MOST_ASKED: Final = 2_000
_SECONDS: Final = 2.0
"""How long the page waits for the metadata."""
_NUMBERS: Final[dict[TopicOrder, Callable[[Topic, SeenTopic], float]]] = {
    TopicOrder.RECORDS: lambda topic, seen: topic.log.end - topic.log.start,
    TopicOrder.RECORDS_IN: lambda topic, seen: seen.rates[0],
    TopicOrder.RECORDS_OUT: lambda topic, seen: seen.rates[2],
    TopicOrder.BACKLOG: lambda topic, seen: seen.backlog,
    TopicOrder.CONSUMERS: lambda topic, seen: topic.consumer_count,
}
_OF_ROW: Final[dict[TopicOrder, Callable[[TopicSummary], Any]]] = {
    TopicOrder.NAME: lambda row: row.topic,
    TopicOrder.RECORDS: lambda row: row.records or 0,
    TopicOrder.RECORDS_IN: lambda row: row.records_in,
    TopicOrder.RECORDS_OUT: lambda row: row.records_out,
    TopicOrder.BACKLOG: lambda row: row.backlog,
    TopicOrder.CONSUMERS: lambda row: row.consumers,
}


class TopicSearchHandlers:
    """Finds topics by their names."""

    def __init__(self, broker: Broker, operations: Operations, sampler: TrafficSampler) -> None:
        self._broker = broker
        self._operations = operations
        self._sampler = sampler

    @handles(TopicOperations.search)
    async def search(
        self,
        *,
        text: str = "",
        namespace: str | None = None,
        order: TopicOrder = TopicOrder.NAME,
        descending: bool = False,
        skip: int = 0,
        limit: int = 50,
    ) -> TopicPage:
        visible = visible_topics(self._broker, text.lower(), namespace)
        enough = min(skip + limit, _MOST_ASKED) if ACTING.get().sees_all else _MOST_ASKED
        given: dict[str, Any] = {"text": text, "order": order, "descending": descending}
        if namespace is not None:
            given["namespace"] = namespace
        answers = await self._operations.of_others(
            TopicOperations.search, {**given, "limit": enough}, self._broker.clock
        )
        groups = self._opened(visible)
        chosen = self._first(groups, order, skip + limit, descending=descending)
        rows = {name: self._row(name, groups[name]) for name in chosen}
        for row in (row for page in answers for row in page.topics if row.topic in visible):
            before = rows.get(row.topic)
            rows[row.topic] = row if before is None else _added(before, row)
        opened = sorted(rows.values(), key=_OF_ROW[order], reverse=descending)
        if self._operations.asked_by_broker:
            return TopicPage(tuple(opened[:limit]), len(opened))
        if order is TopicOrder.NAME:
            page = sorted(visible, reverse=descending)[skip : skip + limit]
        else:
            # Topics that no broker has open have no traffic: all their numbers count as 0.
            closed = sorted(visible - rows.keys() - groups.keys())
            ranked = [row.topic for row in opened]
            page = ([*ranked, *closed] if descending else [*closed, *ranked])[skip : skip + limit]
        found = await asyncio.gather(*(self._known(name, rows.get(name)) for name in page))
        return TopicPage(tuple(row for row in found if row is not None), len(visible))

    def _opened(self, names: Collection[str]) -> dict[str, list[Topic]]:
        """The open topics and partitions by the topic that they belong to."""
        groups: dict[str, list[Topic]] = {}
        for topic in self._broker.loaded():
            seen = self._sampler.seen(topic)
            # A topic's own name may look like that of a partition.
            name = seen.whole if seen.whole in names else seen.name
            if name in names:
                groups.setdefault(name, []).append(topic)
        return groups

    def _first(
        self,
        groups: Mapping[str, list[Topic]],
        order: TopicOrder,
        count: int,
        *,
        descending: bool,
    ) -> list[str]:
        """The first ``count`` names in this order; the numbers of others are not needed."""
        choose = nlargest if descending else nsmallest
        if order is TopicOrder.NAME:
            return choose(count, groups)
        number, seen = _NUMBERS[order], self._sampler.seen
        return choose(
            count, groups, key=lambda name: sum(number(each, seen(each)) for each in groups[name])
        )

    def _row(self, name: str, topics: list[Topic]) -> TopicSummary:
        first, *others = (self._summary(name, topic) for topic in topics)
        return reduce(_added, others, first)

    def _summary(self, name: str, topic: Topic) -> TopicSummary:
        log, (records_in, bytes_in, records_out, bytes_out) = (
            topic.log,
            self._sampler.seen(topic).rates,
        )
        return TopicSummary(
            topic=name,
            delivery=topic.delivery,
            partitions=0,
            records=log.end - log.start,
            bytes=sum(ref.bytes for ref in log.refs) if isinstance(log, ManagedLedger) else 0,
            records_in=records_in,
            bytes_in=bytes_in,
            records_out=records_out,
            bytes_out=bytes_out,
            backlog=sum(each.backlog for each in topic.subscriptions.values()),
            subscriptions=len(topic.subscriptions),
            producers=len(topic.producers),
            consumers=topic.consumer_count,
        )

    async def _known(self, name: str, row: TopicSummary | None) -> TopicSummary | None:
        """Without the metadata, what brokers know of a topic is better than no page."""
        try:
            return await within(self._broker.clock, _SECONDS, self._complete(name, row))
        except (Retriable, TimeoutError):
            return _closed(name, Delivery.RELIABLE) if row is None else row

    async def _complete(self, name: str, row: TopicSummary | None) -> TopicSummary | None:
        """With what only the metadata knows; None if the topic was deleted meanwhile."""
        store, topic = self._broker.store, TopicName.parse(name)
        record = await topics.get(store, topic)
        if record is None:
            return None
        if row is None:
            row = _closed(name, record.delivery)
            if record.delivery is Delivery.RELIABLE and not record.partitions:
                refs = (await ledgers.get(store, topic)).list.ledgers
                last = refs[-1].last_offset if refs else -1
                count = None if last is None else last + 1 - (refs[0].first_offset if refs else 0)
                row = replace(row, records=count, bytes=sum(ref.bytes for ref in refs))
        return replace(row, partitions=record.partitions)


def visible_topics(broker: Broker, text: str, namespace: str | None) -> set[str]:
    """The names with ``text``, in lower case, that the caller of this operation may see."""
    names = broker.quotas.stored.topics()
    prefix = "/" if namespace is None else f"/{namespace}/"
    found = {name for name in names if text in name.lower() and name.startswith(prefix)}
    access = ACTING.get()
    if access.sees_all and access.allows(Need(None, EVERYTHING)):
        return found
    return {name for name in found if access.sees(name)}


def _closed(name: str, delivery: Delivery) -> TopicSummary:
    return TopicSummary(name, delivery, 0, None, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0)


def _added(one: TopicSummary, other: TopicSummary) -> TopicSummary:
    """Two partitions of a topic; they have the same subscriptions."""
    return replace(
        one,
        records=(one.records or 0) + (other.records or 0),
        bytes=one.bytes + other.bytes,
        records_in=one.records_in + other.records_in,
        bytes_in=one.bytes_in + other.bytes_in,
        records_out=one.records_out + other.records_out,
        bytes_out=one.bytes_out + other.bytes_out,
        backlog=one.backlog + other.backlog,
        subscriptions=max(one.subscriptions, other.subscriptions),
        producers=one.producers + other.producers,
        consumers=one.consumers + other.consumers,
    )
