"""What can be set on a broker. Every bound has a default that suits two cores and a few GB."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_containers.subscriptions.dispatcher import SubscriptionLimits
from broker_containers.topic_log.managed_ledger import LedgerSettings
from broker_containers.topics.tiering import TieringSettings


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Limits of one broker's HTTP door."""

    max_connections: int = 256
    """Beyond these a connection is told 503 and closed."""
    request_seconds: float = 30.0
    """From a request's headers to its answer."""
    silent_seconds: float = 15.0
    """How long a new connection may take to send its first request."""
    keepalive_seconds: float = 75.0
    """How long an idle connection is kept; longer than load balancers keep theirs (60 s)."""
    goodbye_seconds: float = 3.0
    """How long requests under way may take when the broker stops."""
    max_body_bytes: int = 64 << 10
    """Of a request that administers."""
    max_message_bytes: int = 8 << 20
    """Of a request that publishes; no more than a frame may have."""
    max_waiting_bytes: int = 32 << 20
    """Published over HTTP and not yet durable, all topics together."""
    max_peek_messages: int = 1000
    max_peek_bytes: int = 1 << 20
    """Of one answer; a single larger message comes all the same."""
    metrics_topics: int = 1000
    """Topics, and subscriptions, with metrics of their own; the others are in the sums."""
    cors_origins: tuple[str, ...] = ()
    """Web sites that may call from a browser; ``*`` for all."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Limits and intervals of one broker."""

    broker_id: str = "broker-1"
    cache_bytes: int = 256 << 20
    """Frames kept in memory for consumers at the tail, all topics together."""
    max_frame_bytes: int = 16 << 20
    """The largest frame a producer may send."""
    max_delay_seconds: int = 30 * 86_400
    """How far ahead the delivery time of a record may lie."""
    cursor_flush_seconds: float = 0.5
    """How far a stored cursor may lie behind, at most; acknowledged records may come again."""
    retention_seconds: float = 10.0
    """How often old data is looked for."""
    auto_create_topics: bool = True
    max_requests: int = 256
    """Requests of one connection under way at once."""
    max_peers: int = 65_536
    """Producers and consumers of one connection."""
    max_connections: int = 10_000
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
    tier: TieringSettings = field(default_factory=TieringSettings)
    subscription: SubscriptionLimits = field(default_factory=SubscriptionLimits)
    http: HttpSettings = field(default_factory=HttpSettings)
