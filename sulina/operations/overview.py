"""Operations that show the whole cluster at a glance: rates, backlogs, health, what needs care.

Every broker samples its own topics every few seconds and keeps the samples of the last hour. The
broker that is asked adds up what all brokers answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from sulina.operations.declaration import CLUSTER, GET, SIGNED_IN, OperationGroup, operation
from sulina.operations.json_forms import Between
from sulina.operations.json_types import Count, Name, TopicText

_PerSecond = Annotated[float, "Per second."]


@dataclass(frozen=True, slots=True)
class TrafficSample:
    """Traffic in one interval. Rates are averages over the interval."""

    wall_us: Annotated[Count, "When the interval ended."]
    records_in: _PerSecond
    bytes_in: _PerSecond
    records_out: _PerSecond
    bytes_out: _PerSecond
    backlog: Annotated[Count, "Unacknowledged messages of all subscriptions."]
    p50_ms: Annotated[float | None, "Publish latency; null if nothing was published."]
    p99_ms: Annotated[float | None, "The highest of any broker; null if nothing was published."]


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """A topic or partition in the order of its traffic."""

    topic: TopicText
    records_in: _PerSecond
    bytes_in: _PerSecond
    records_out: _PerSecond
    bytes_out: _PerSecond
    backlog: Count


@dataclass(frozen=True, slots=True)
class PartState:
    """Whether a part that a broker needs serves."""

    ok: bool
    detail: str
    warning: Annotated[str, "What is wrong although it serves; empty if nothing is."] = ""


@dataclass(frozen=True, slots=True)
class TierState:
    """Closed ledgers on their way to the object store."""

    ready: Annotated[bool, "Whether an object store is available."]
    lag_seconds: Annotated[float, "Age of the oldest record that is not tiered yet."]
    untiered_ledgers: Count
    untiered_bytes: Count
    objects: Annotated[Count, "Ledgers tiered since the broker started."]
    failures: Annotated[Count, "Failed attempts since the broker started."]


@dataclass(frozen=True, slots=True)
class BrokerOverview:
    """One broker at a glance."""

    broker: Name
    version: str
    topics: Annotated[Count, "Open topics and partitions."]
    subscriptions: Count
    producers: Count
    consumers: Count
    cache_bytes: Count
    overloaded: Annotated[bool, "Whether publishers wait because the disk does not keep up."]
    disk_bytes: Annotated[int | None, Between(), "Of the data's file system; null if elsewhere."]
    disk_free_bytes: Annotated[int | None, Between()]
    now: TrafficSample
    tier: Annotated[TierState | None, "null without an object store."]
    parts: Annotated[Mapping[str, PartState], "What the broker needs, by name."]
    busiest: Annotated[tuple[TopicTraffic, ...], "Its topics with the most traffic."]


@dataclass(frozen=True, slots=True)
class Overview:
    """The cluster at a glance."""

    answered_by: Name
    total: TrafficSample
    brokers: tuple[BrokerOverview, ...]
    silent: Annotated[tuple[Name, ...], "Brokers that did not answer in time."]
    attention: Annotated[Count, "Subscriptions that need attention."]
    sample_seconds: Annotated[float, "The interval between samples."]


class Concern(StrEnum):
    """Why a subscription needs attention, the worst first."""

    STALLED = "stalled"
    FAILING = "failing"
    NO_PROGRESS = "no_progress"
    GROWING = "growing"
    NO_CONSUMERS = "no_consumers"


@dataclass(frozen=True, slots=True)
class SubscriptionConcern:
    """A subscription that needs attention."""

    topic: TopicText
    subscription: Name
    broker: Name
    concern: Concern
    detail: Annotated[str, "The cause and the remedy."]
    backlog: Count
    growth: Annotated[float, "Messages per second by which the backlog grew in the last minute."]
    consumers: Count


class OverviewOperations(OperationGroup, name="overview"):
    """Operations on everything at once."""

    @operation(GET("/overview"), right=CLUSTER)
    async def show(self) -> Overview:
        """Show rates, backlog, latency and health of all brokers."""

    @operation(GET("/overview/history"), right=CLUSTER)
    async def history(self) -> tuple[TrafficSample, ...]:
        """List the samples of the last hour, the oldest first, all brokers added up."""

    @operation(GET("/overview/attention"), right=SIGNED_IN)
    async def attention(
        self, *, limit: Annotated[int, Between(1, 1000), "List at most this many."] = 100
    ) -> tuple[SubscriptionConcern, ...]:
        """List subscriptions that are stalled, fail or fall behind, the worst first.

        It lists those that the caller may look up.
        """
