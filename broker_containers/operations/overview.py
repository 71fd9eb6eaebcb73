"""Handlers of the operations that show everything at once; each broker adds what it samples."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from broker_containers.broker.broker import Broker
from broker_containers.metrics.traffic import SAMPLE_SECONDS, TrafficSampler
from broker_containers.operations.running import Operations, handles
from broker_containers.security.access import ACTING
from sulina.operations.overview import (
    BrokerOverview,
    Concern,
    Overview,
    OverviewOperations,
    PartState,
    SubscriptionConcern,
    TierState,
    TrafficSample,
)
from sulina.version import __version__

_INTERVAL_US = round(SAMPLE_SECONDS * 1e6)


class OverviewHandlers:
    """This broker's samples, and those of all brokers added up."""

    def __init__(self, broker: Broker, operations: Operations, sampler: TrafficSampler) -> None:
        self._broker = broker
        self._operations = operations
        self._sampler = sampler
        self.parts: Callable[[], Awaitable[Mapping[str, PartState]]] | None = None
        """What the broker needs; set by the door that checks it."""
        self.folder: Path | None = None
        """Where messages are stored, if that is on this machine."""

    @handles(OverviewOperations.show)
    async def show(self) -> Overview:
        clock = self._broker.clock
        own, answers = await asyncio.gather(
            self._own(), self._operations.of_others(OverviewOperations.show, {}, clock)
        )
        brokers = [own, *(each for answer in answers for each in answer.brokers)]
        answered = {each.broker for each in brokers}
        return Overview(
            answered_by=own.broker,
            total=_total([each.now for each in brokers]),
            brokers=tuple(sorted(brokers, key=lambda each: each.broker)),
            silent=tuple(each for each in self._operations.others() if each not in answered),
            attention=len(self._sampler.concerns) + sum(each.attention for each in answers),
            sample_seconds=SAMPLE_SECONDS,
        )

    @handles(OverviewOperations.history)
    async def history(self) -> tuple[TrafficSample, ...]:
        answers = await self._operations.of_others(
            OverviewOperations.history, {}, self._broker.clock
        )
        return added_up([self._sampler.history, *answers])

    @handles(OverviewOperations.attention)
    async def attention(self, *, limit: int = 100) -> tuple[SubscriptionConcern, ...]:
        answers = await self._operations.of_others(
            OverviewOperations.attention, {"limit": 1000}, self._broker.clock
        )
        sees, order = ACTING.get().sees, list(Concern)
        found = [
            concern
            for concerns in (self._sampler.concerns, *answers)
            for concern in concerns
            if sees(concern.topic, concern.subscription)
        ]
        found.sort(key=lambda each: (order.index(each.concern), -each.backlog))
        return tuple(found[:limit])

    async def _own(self) -> BrokerOverview:
        broker, gauges = self._broker, self._sampler.gauges
        space = None if self.folder is None else shutil.disk_usage(self.folder)
        return BrokerOverview(
            broker=broker.settings.broker_id,
            version=__version__,
            topics=gauges.topics,
            subscriptions=gauges.subscriptions,
            producers=gauges.producers,
            consumers=gauges.consumers,
            cache_bytes=broker.cache.bytes,
            overloaded=bool(broker.ledgers.overloaded),
            disk_bytes=None if space is None else space.total,
            disk_free_bytes=None if space is None else space.free,
            now=self._sampler.now,
            tier=_tier(broker),
            parts={} if self.parts is None else await self.parts(),
            busiest=self._sampler.busiest(),
        )


def added_up(histories: Iterable[Iterable[TrafficSample]]) -> tuple[TrafficSample, ...]:
    """All brokers together, interval by interval.

    The newest interval is left out while it lacks a broker, which would look like a drop.
    """
    intervals: dict[int, dict[int, TrafficSample]] = {}
    for broker, samples in enumerate(histories):
        for sample in samples:
            # One per broker: a late sample may be in the same interval as the next one.
            intervals.setdefault(sample.wall_us // _INTERVAL_US, {})[broker] = sample
    found = [intervals[key] for key in sorted(intervals)]
    if len(found) > 1 and len(found[-1]) < len(found[-2]):
        found.pop()
    return tuple(_total(each.values()) for each in found)


def _tier(broker: Broker) -> TierState | None:
    if broker.tier is None:
        return None
    lag, counters = broker.tiering.lag(), broker.tiering.counters
    return TierState(
        ready=broker.tiering.ready,
        lag_seconds=lag.seconds,
        untiered_ledgers=lag.ledgers,
        untiered_bytes=lag.bytes,
        objects=counters.objects,
        failures=counters.failures,
    )


def _total(samples: Iterable[TrafficSample]) -> TrafficSample:
    """All brokers together, in one interval."""
    each = list(samples)
    return TrafficSample(
        wall_us=max(one.wall_us for one in each),
        records_in=sum(one.records_in for one in each),
        bytes_in=sum(one.bytes_in for one in each),
        records_out=sum(one.records_out for one in each),
        bytes_out=sum(one.bytes_out for one in each),
        backlog=sum(one.backlog for one in each),
        p50_ms=max((one.p50_ms for one in each if one.p50_ms is not None), default=None),
        p99_ms=max((one.p99_ms for one in each if one.p99_ms is not None), default=None),
    )
