"""Operations on namespaces and topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypedDict, Unpack

from sulina.metadata.keys.ledger_list import LedgerRef, LedgerState
from sulina.metadata.keys.policy import Policy
from sulina.model import Action, Delivery
from sulina.operations.declaration import (
    CLUSTER,
    DELETE,
    GET,
    PATCH,
    POST,
    SIGNED_IN,
    OperationGroup,
    Right,
    RunsOn,
    operation,
)
from sulina.operations.json_forms import Between
from sulina.operations.json_types import Count, Name, TopicText
from sulina.operations.subscriptions import SubscriptionRow

MANAGE_TOPIC = Right(Action.TOPICS, "{topic}")
SEE_TOPIC = Right(None, "{topic}")
MANAGE_NAMESPACE = Right(Action.NAMESPACES, "/{namespace}/*")


_LimitOfNamespace = Annotated[int | None, Between(), "null leaves it to the brokers' settings."]


class NamespaceLimits(TypedDict, total=False):
    """Limits to change; 0 is no limit, None leaves it to the brokers' settings."""

    max_producers_per_topic: _LimitOfNamespace
    max_subscriptions_per_topic: _LimitOfNamespace
    max_consumers_per_topic: _LimitOfNamespace
    max_consumers_per_subscription: _LimitOfNamespace
    max_message_size: _LimitOfNamespace
    retention_ms: Annotated[
        int | None, Between(), "Records older than this may be deleted, consumed or not."
    ]
    retention_bytes: Annotated[
        int | None, Between(), "The oldest records beyond this size may be deleted."
    ]
    delete_consumed: Annotated[
        bool | None, "Records that every subscription has acknowledged may be deleted."
    ]
    ttl_ms: Annotated[
        int | None, Between(), "No subscription delivers records that were published earlier."
    ]
    local_retention_ms: Annotated[
        int | None,
        Between(),
        "Entries of tiered ledgers that are older may be deleted; 0: the brokers' setting.",
    ]
    local_retention_bytes: Annotated[
        int | None,
        Between(),
        "This much of the newest data stays as entries, too; 0: the brokers' setting.",
    ]
    local_delete_consumed: Annotated[
        bool | None,
        "Entries of tiered ledgers that every subscription has acknowledged may be deleted.",
    ]
    backlog_bytes: Annotated[
        int | None, Between(), "How far, in bytes, the slowest subscription may be behind."
    ]
    backlog_drop_oldest: Annotated[
        bool | None,
        "Beyond backlog_bytes, delete the oldest records instead of refusing producers.",
    ]
    delete_unused_ms: Annotated[
        int | None,
        Between(),
        "A topic that nobody used for this long may be deleted with its data.",
    ]
    compact: Annotated[bool, "Of tiered records with the same key, only the newest is kept."]
    tombstone_retention_ms: Annotated[
        Count, "How long compaction keeps tombstones; 0 keeps them for good."
    ]
    freshness_ms: Annotated[
        Count, "How soon after publishing a record is in an object; 0: the brokers' setting."
    ]
    merge_bytes: Annotated[
        Count, "Size up to which small objects are merged; 0: the brokers' setting."
    ]


_LimitOfTopic = Annotated[int | None, Between(), "null leaves it to the namespace."]
_IfItWere = Annotated[int | None, Between(), "Show it as if the policy said so."]
_FlagOfTopic = Annotated[bool | None, "null leaves it to the namespace."]


class TopicLimits(TypedDict, total=False):
    """Limits to change; 0 is no limit, None leaves it to the namespace."""

    max_producers_per_topic: _LimitOfTopic
    max_subscriptions_per_topic: _LimitOfTopic
    max_consumers_per_topic: _LimitOfTopic
    max_consumers_per_subscription: _LimitOfTopic
    max_message_size: _LimitOfTopic
    retention_ms: _LimitOfTopic
    retention_bytes: _LimitOfTopic
    delete_consumed: _FlagOfTopic
    ttl_ms: _LimitOfTopic
    local_retention_ms: _LimitOfTopic
    local_retention_bytes: _LimitOfTopic
    local_delete_consumed: _FlagOfTopic
    backlog_bytes: _LimitOfTopic
    backlog_drop_oldest: _FlagOfTopic
    delete_unused_ms: _LimitOfTopic
    compact: _FlagOfTopic
    tombstone_retention_ms: _LimitOfTopic
    freshness_ms: _LimitOfTopic
    merge_bytes: _LimitOfTopic


@dataclass(frozen=True, slots=True)
class NamespaceDetails:
    """A namespace and the limits it sets for its topics."""

    namespace: Name
    topics: Count
    policy: Policy


class NamespaceOperations(OperationGroup, name="namespace"):
    """Operations on namespaces."""

    @operation(GET("/namespaces"), right=Right(Action.NAMESPACES))
    async def list(self) -> tuple[Name, ...]:
        """List the namespaces."""

    @operation(POST("/namespaces", 201), right=MANAGE_NAMESPACE)
    async def create(self, namespace: Name) -> None:
        """Create a namespace."""

    @operation(GET("/namespaces/{namespace}"), right=MANAGE_NAMESPACE)
    async def describe(self, namespace: Name) -> NamespaceDetails:
        """Show a namespace and the limits it sets."""

    @operation(DELETE("/namespaces/{namespace}"), right=MANAGE_NAMESPACE)
    async def delete(self, namespace: Name) -> None:
        """Delete an empty namespace."""

    @operation(PATCH("/namespaces/{namespace}/policy"), right=MANAGE_NAMESPACE)
    async def policy(self, namespace: Name, **limits: Unpack[NamespaceLimits]) -> Policy:
        """Show or change the limits that a namespace sets for its topics; 0 is no limit."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in a list. Producers and consumers are those of the broker that answers."""

    topic: TopicText
    delivery: Delivery
    partitions: Annotated[Count, "0 if the topic is not partitioned."]
    producers: Count
    consumers: Count
    records: Annotated[
        int | None, Between(), "null if only another broker, which writes the topic, knows."
    ]


class PolicySource(StrEnum):
    """Where a limit in force comes from."""

    TOPIC = "topic"
    NAMESPACE = "namespace"
    CLUSTER = "cluster"
    DEFAULT = "default"


class TopicOrder(StrEnum):
    """What a page of topics is sorted by."""

    NAME = "name"
    RECORDS = "records"
    RECORDS_IN = "records_in"
    RECORDS_OUT = "records_out"
    BACKLOG = "backlog"
    CONSUMERS = "consumers"


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic in a page, with all its partitions. Rates are those of the last seconds."""

    topic: TopicText
    delivery: Delivery
    partitions: Annotated[Count, "0 if the topic is not partitioned."]
    records: Annotated[int | None, Between(), "null if no broker has counted them."]
    bytes: Annotated[Count, "As the ledger list knows; the ledger being written counts when full."]
    records_in: Annotated[float, "Per second."]
    bytes_in: Annotated[float, "Per second."]
    records_out: Annotated[float, "Per second."]
    bytes_out: Annotated[float, "Per second."]
    backlog: Annotated[Count, "Unacknowledged messages of all subscriptions."]
    subscriptions: Count
    producers: Count
    consumers: Count


@dataclass(frozen=True, slots=True)
class TopicPage:
    """Some of the topics that were found, and how many there are."""

    topics: tuple[TopicSummary, ...]
    total: Count


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic that was created."""

    topic: TopicText


@dataclass(frozen=True, slots=True)
class LedgerSpan:
    """A ledger as its topic's owner sees it."""

    id: Count
    state: LedgerState
    first_offset: Count
    last_offset: int | None
    bytes: Count


@dataclass(frozen=True, slots=True)
class TopicLog:
    """A topic without partitions, or one partition, at its owner."""

    topic: TopicText
    start_offset: Count
    end_offset: Count
    epoch: Count
    ledgers: tuple[LedgerSpan, ...]
    producers: tuple[Name, ...]
    subscriptions: tuple[SubscriptionRow, ...]
    counters: Mapping[str, int]
    compacted_to: Annotated[
        Count, "Below this offset there is one record of each key; 0 if it was never compacted."
    ] = 0


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """A topic with its partitions; ``logs`` has the topic itself if it has none."""

    topic: TopicText
    delivery: Delivery
    partitions: Count
    created_us: Count
    logs: tuple[TopicLog, ...]


@dataclass(frozen=True, slots=True)
class TopicLedgers:
    """The ledgers of a topic, as the metadata has them."""

    topic: TopicText
    epoch: Count
    ledgers: tuple[LedgerRef, ...]


@dataclass(frozen=True, slots=True)
class TopicLocation:
    """Which broker serves a topic, and its addresses."""

    topic: TopicText
    broker: Annotated[str, Between(1), "The topic's owner."]
    epoch: Count
    moving_to: str | None
    url: Annotated[str, "For clients of the binary protocol."]
    http: Annotated[str, "The owner's HTTP door."]


@dataclass(frozen=True, slots=True)
class TopicOwner:
    """A topic that is served, and by which broker."""

    topic: TopicText
    broker: Name
    moving_to: str | None


@dataclass(frozen=True, slots=True)
class TopicMove:
    """A move that was started."""

    topic: TopicText
    source: Name
    target: Name


@dataclass(frozen=True, slots=True)
class LedgerFate:
    """A ledger, and when it goes. Times are microseconds since 1970."""

    ledger: Count
    first_offset: Count
    last_offset: int | None
    bytes: Count
    newest_us: Annotated[Count, "The publish time of its newest record; 0 if it has none."]
    entries: Annotated[bool, "Whether storage nodes have it."]
    object: Annotated[bool, "Whether the object store has it."]
    leaves_us: Annotated[
        int | None, "When it leaves the topic, if nothing more is published or acknowledged."
    ]
    reason: Annotated[str | None, "The field of the policy that removes it."]
    deleted_us: Annotated[int | None, "When its data is deleted; until then it can be restored."]


@dataclass(frozen=True, slots=True)
class TopicRetention:
    """What retention removes of a topic without partitions, or of one partition."""

    topic: TopicText
    now_us: Annotated[Count, "The time by the owner's clock."]
    removed: Annotated[tuple[LedgerFate, ...], "What was removed, and can be restored."]
    ledgers: tuple[LedgerFate, ...]


@dataclass(frozen=True, slots=True)
class RetentionUndone:
    """What was restored."""

    topic: TopicText
    ledgers: Count
    start_offset: Annotated[Count, "Where the topic begins now."]


class TopicOperations(OperationGroup, name="topic"):
    """Operations on topics."""

    @operation(
        GET("/topics"),
        right=Right(
            Action.NAMESPACES, "/{namespace}/*", Action.TOPICS, missing=Right(Action.TOPICS)
        ),
    )
    async def list(
        self,
        *,
        namespace: str | None = None,
        all: Annotated[bool, "Include each partition."] = False,
    ) -> tuple[TopicRow, ...]:
        """List the topics of one namespace or of all."""

    @operation(GET("/topic-search"), right=SIGNED_IN)
    async def search(
        self,
        *,
        text: Annotated[str, "A part of the name, in upper or lower case."] = "",
        namespace: str | None = None,
        order: TopicOrder = TopicOrder.NAME,
        descending: bool = False,
        skip: Annotated[Count, "How many to leave out."] = 0,
        limit: Annotated[int, Between(1, 2_000), "Return at most this many."] = 50,
    ) -> TopicPage:
        """Find topics by name, among those that the caller may look up, in pages."""

    @operation(POST("/topics", 201), right=MANAGE_TOPIC)
    async def create(
        self,
        topic: TopicText,
        *,
        delivery: Delivery = Delivery.RELIABLE,
        partitions: Annotated[Count, "0 for a topic without partitions."] = 0,
        expected_records: Annotated[
            Count, "Records per second, in and out: a hint for placement."
        ] = 0,
        expected_bytes: Annotated[Count, "Bytes per second, in and out: a hint."] = 0,
    ) -> TopicCreated:
        """Create a topic."""

    @operation(GET("/topics/{topic}"), right=SEE_TOPIC)
    async def describe(self, topic: TopicText) -> TopicDetails:
        """Show a topic, its logs and ledgers."""

    @operation(DELETE("/topics/{topic}"), right=MANAGE_TOPIC)
    async def delete(self, topic: TopicText) -> None:
        """Delete a topic with its partitions, messages and subscriptions."""

    @operation(GET("/topics/{topic}/partitions"), right=SEE_TOPIC)
    async def partitions(self, topic: TopicText) -> tuple[TopicLog, ...]:
        """List the partitions of a topic, or the topic itself if it has none."""

    @operation(GET("/topics/{topic}/log"), right=SEE_TOPIC, runs_on=RunsOn.TOPIC_OWNER)
    async def log(self, topic: TopicText) -> TopicLog:
        """Show a topic without partitions, or one partition, as its owner sees it."""

    @operation(PATCH("/topics/{topic}/policy"), right=MANAGE_TOPIC, read_right=SEE_TOPIC)
    async def policy(self, topic: TopicText, **limits: Unpack[TopicLimits]) -> Policy:
        """Show the limits in force for a topic, or change some.

        0 is no limit; null leaves a limit to the namespace.
        """

    @operation(GET("/topics/{topic}/retention"), right=SEE_TOPIC, runs_on=RunsOn.TOPIC_OWNER)
    async def retention(
        self,
        topic: TopicText,
        *,
        retention_ms: _IfItWere = None,
        retention_bytes: _IfItWere = None,
        delete_consumed: Annotated[bool | None, "Show it as if the policy said so."] = None,
    ) -> TopicRetention:
        """Show what retention removes of a topic without partitions, or of one partition, and when.

        Changes nothing. With arguments, as if these were the policy's.
        """

    @operation(
        POST("/topics/{topic}/retention/undo"), right=MANAGE_TOPIC, runs_on=RunsOn.TOPIC_OWNER
    )
    async def undo_retention(self, topic: TopicText) -> RetentionUndone:
        """Restore what retention removed, as long as its data is kept.

        Refused while the policy would remove it again.
        """

    @operation(GET("/topics/{topic}/policy/sources"), right=SEE_TOPIC)
    async def policy_sources(self, topic: TopicText) -> Mapping[str, PolicySource]:
        """Show where each limit in force for a topic comes from."""

    @operation(GET("/topics/{topic}/ledgers"), right=SEE_TOPIC)
    async def ledgers(self, topic: TopicText) -> TopicLedgers:
        """List the ledgers of a topic as the metadata has them."""

    @operation(
        POST("/topics/{topic}/move"), right=MANAGE_TOPIC, runs_on=RunsOn.LEADER, needs_cluster=True
    )
    async def move(
        self,
        topic: TopicText,
        *,
        broker: Annotated[str | None, "The target; the least loaded broker if omitted."] = None,
    ) -> TopicMove:
        """Start to move a topic to another broker."""

    @operation(GET("/lookup/{topic}"), right=SEE_TOPIC)
    async def lookup(self, topic: TopicText) -> TopicLocation:
        """Find the broker that serves a topic."""

    @operation(GET("/owners"), right=CLUSTER)
    async def owners(
        self, *, namespace: str | None = None, broker: str | None = None
    ) -> tuple[TopicOwner, ...]:
        """List the topics that are served, and by which broker."""
