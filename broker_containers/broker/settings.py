"""Settings of a broker. The defaults suit two cores and a few GB of memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from broker_containers import settable
from broker_containers.schemas.compatibility import JsonRules
from broker_containers.subscriptions.limits import SubscriptionLimits
from broker_containers.topic_log.ledger_settings import LedgerSettings
from broker_containers.topics.tiering import TieringSettings
from sulina.metadata.keys.policy import Policy, require_consistent


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Limits of a broker's HTTP door."""

    # fmt: off
    max_connections: int = settable.count(256, 1, 1 << 20, settable.RESTART,
        "Maximum number of HTTP connections; further ones replace idle ones, or get 503 unless "
        "they check the broker's health.")
    request_seconds: float = settable.seconds(30.0, 0.1, 600, settable.RESTART,
        "Timeout of a request, from its headers to its response.")
    silent_seconds: float = settable.seconds(15.0, 0.1, 600, settable.RESTART,
        "How long a new connection may take to send its first request.")
    keepalive_seconds: float = settable.seconds(75.0, 1, 3600, settable.RESTART,
        "How long an idle connection is kept; longer than load balancers keep theirs.")
    goodbye_seconds: float = settable.seconds(3.0, 0, 600, settable.RESTART,
        "How long requests in progress may take when the broker stops.")
    max_body_bytes: int = settable.bytes(64 << 10, 1 << 10, 64 << 20, settable.RESTART,
        "Maximum body of an administrative request.")
    max_message_bytes: int = settable.bytes(8 << 20, 1 << 10, 64 << 20, settable.RESTART,
        "Maximum body of a publish request; broker.max_frame_bytes applies as well.")
    max_waiting_bytes: int = settable.bytes(32 << 20, 1, 1 << 40, settable.NOW,
        "Maximum bytes published over HTTP and not yet durable, all topics together.")
    max_peek_messages: int = settable.count(1000, 1, 1 << 20, settable.NOW,
        "Maximum number of messages in a peek response.")
    max_peek_bytes: int = settable.bytes(1 << 20, 1 << 10, 64 << 20, settable.NOW,
        "Maximum size of a peek response, about; a message that takes more is refused.")
    metrics_topics: int = settable.count(1000, 0, 1 << 20, settable.RESTART,
        "Topics and subscriptions with individual metrics; the others count in the totals.")
    cors_origins: tuple[str, ...] = settable.patterns((), settable.RESTART,
        "Web sites that browsers may call from; * allows all.")
    allowed_hosts: tuple[str, ...] = settable.patterns((), settable.RESTART,
        "Host names by which brokers without tokens may be called over HTTP, besides localhost, IP "
        "addresses and their own; * allows all.")
    # fmt: on


_MOST_MS = int(100 * settable.YEAR * 1000)


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Limits of topics for which neither they nor their namespace set any; 0 is no limit."""

    # fmt: off
    max_producers_per_topic: int = settable.count(0, 0, 1 << 30, settable.ALL,
        "Maximum number of producers of a topic.")
    max_subscriptions_per_topic: int = settable.count(0, 0, 1 << 30, settable.ALL,
        "Maximum number of subscriptions of a topic.")
    max_consumers_per_topic: int = settable.count(0, 0, 1 << 30, settable.ALL,
        "Maximum number of consumers of a topic, all subscriptions counted.")
    max_consumers_per_subscription: int = settable.count(0, 0, 1 << 30, settable.ALL,
        "Maximum number of consumers of a subscription.")
    max_message_size: int = settable.bytes(10 << 20, 0, 64 << 20, settable.ALL,
        "Maximum size of a message, before compression.")
    retention_ms: int = settable.count(0, 0, _MOST_MS, settable.ALL,
        "Milliseconds after which records may be deleted, consumed or not.")
    retention_bytes: int = settable.bytes(0, 0, 1 << 60, settable.ALL,
        "A topic's oldest records beyond this size may be deleted, consumed or not.")
    delete_consumed: bool = settable.flag(False, settable.ALL,
        "Records that every subscription has acknowledged may be deleted.")
    ttl_ms: int = settable.count(0, 0, _MOST_MS, settable.ALL,
        "Milliseconds after which no subscription delivers a record.")
    local_retention_ms: int = settable.count(0, 0, _MOST_MS, settable.ALL,
        "Milliseconds after which entries of tiered ledgers may be deleted; 0: tier.local_seconds.")
    local_retention_bytes: int = settable.bytes(0, 0, 1 << 60, settable.ALL,
        "How much of the newest data stays as entries; 0: tier.local_bytes.")
    local_delete_consumed: bool = settable.flag(False, settable.ALL,
        "Entries of tiered ledgers that every subscription has acknowledged may be deleted.")
    backlog_bytes: int = settable.bytes(0, 0, 1 << 60, settable.ALL,
        "How far the slowest subscription of a topic may be behind.")
    backlog_drop_oldest: bool = settable.flag(False, settable.ALL,
        "Whether the oldest records are deleted beyond backlog_bytes; if not, producers are "
        "refused.")
    delete_unused_ms: int = settable.count(0, 0, _MOST_MS, settable.ALL,
        "Milliseconds after which a topic that nobody used may be deleted.")
    compact: bool = settable.flag(False, settable.ALL,
        "Whether only the newest of tiered records with the same key is kept.")
    tombstone_retention_ms: int = settable.count(86_400_000, 0, _MOST_MS, settable.ALL,
        "Milliseconds for which compaction keeps tombstones; 0 keeps them for good.")
    freshness_ms: int = settable.count(0, 0, _MOST_MS, settable.ALL,
        "Milliseconds after which a record is in an object; 0: as tier.* says.")
    merge_bytes: int = settable.bytes(0, 0, 1 << 50, settable.ALL,
        "Size up to which small objects are merged; 0: as tier.* says.")
    # fmt: on

    def __post_init__(self) -> None:
        require_consistent(Policy(**asdict(self)), "the cluster")


@dataclass(frozen=True, slots=True)
class TablesSettings:
    """Where the tables of topics are; without a catalog, the broker shows none."""

    catalog: str = ""
    """See ``sulina.tables.catalogs``."""
    lake: str = ""
    """The folder or bucket that ledgers are tiered to."""
    database: str = "sulina"


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Limits and intervals of a broker."""

    # fmt: off
    broker_id: str = "broker-1"
    cache_bytes: int = settable.bytes(256 << 20, 1 << 20, 1 << 40, settable.NOW,
        "Memory for the newest frames of all topics together.")
    max_frame_bytes: int = settable.bytes(16 << 20, 64 << 10, 64 << 20, settable.NEW,
        "Maximum size of a frame that a producer sends.")
    max_delay_seconds: int = settable.whole_seconds(30 * 86_400, 0, settable.YEAR, settable.NOW,
        "How far in the future a record's delivery time may be.")
    cursor_flush_seconds: float = settable.seconds(0.5, 0.01, 60, settable.ROUND,
        "How often changed cursors are stored.")
    """Acknowledgements after that are lost in a crash."""
    retention_seconds: float = settable.seconds(10.0, 0.1, settable.DAY, settable.ROUND,
        "How often retention policies are applied.")
    grace_seconds: float = settable.seconds(0.0, 0, settable.YEAR, settable.ROUND,
        "How long ledgers without an object are kept after retention removed them from their "
        "topic; see tier.grace_seconds.")
    """0, because the space is needed, unlike that of objects."""
    audit_retention_seconds: int = settable.whole_seconds(400 * 86_400, 0, 100 * settable.YEAR,
        settable.ROUND, "How long audit records are kept; 0 is for ever.")
    audit_retention_bytes: int = settable.bytes(0, 0, 1 << 60, settable.ROUND,
        "The oldest audit records beyond this size are deleted; 0 keeps all.")
    """Not limited by default: whoever causes many records could have others deleted."""
    auto_create_topics: bool = settable.flag(True, settable.NOW,
        "Create a topic when it is first used.")
    json_schema_rules: JsonRules = settable.choice(JsonRules.EXACT, settable.ALL_NOW,
        "How the registry compares versions of a JSON Schema: by the data that they allow, or by "
        "Danube's rules.", choices=tuple(JsonRules))
    max_requests: int = settable.count(256, 1, 65536, settable.NOW,
        "Maximum number of concurrent requests per connection.")
    max_peers: int = settable.count(65_536, 1, 1 << 20, settable.NEW,
        "Maximum number of producers and consumers per connection.")
    max_connections: int = settable.count(10_000, 1, 1 << 20, settable.NEW,
        "Maximum number of connections over the binary protocol.")
    max_unidentified: int = settable.count(512, 1, 1 << 20, settable.RESTART,
        "Maximum number of connections per door that have not shown a valid token.")
    """If clients need tokens. Beyond it, a new connection replaces an idle one or is refused. HTTP:
    at most half of its connections."""
    max_unidentified_per_address: int = settable.count(128, 1, 1 << 20, settable.RESTART,
        "The same for the connections of one client address.")
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
    tier: TieringSettings = field(default_factory=TieringSettings)
    subscription: SubscriptionLimits = field(default_factory=SubscriptionLimits)
    policy: PolicySettings = field(default_factory=PolicySettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    tables: TablesSettings = field(default_factory=TablesSettings)
    # fmt: on
