"""Settings of a broker. The defaults suit two cores and a few GB of memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_containers.schemas.compatibility import JsonRules
from broker_containers.subscriptions.dispatcher import SubscriptionLimits
from broker_containers.topic_log.managed_ledger import LedgerSettings
from broker_containers.topics.tiering import TieringSettings


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Limits of a broker's HTTP door."""

    max_connections: int = 256
    """Further connections replace idle ones, or get 503 unless they check the broker's health."""
    request_seconds: float = 30.0
    """Timeout of a request, from its headers to its response."""
    silent_seconds: float = 15.0
    """How long a new connection may take to send its first request."""
    keepalive_seconds: float = 75.0
    """How long an idle connection is kept; longer than load balancers keep theirs (60 s)."""
    goodbye_seconds: float = 3.0
    """How long requests in progress may take when the broker stops."""
    max_body_bytes: int = 64 << 10
    """Maximum body of an administrative request."""
    max_message_bytes: int = 8 << 20
    """Maximum body of a publish request; the frame limit applies as well."""
    max_waiting_bytes: int = 32 << 20
    """Maximum bytes published over HTTP and not yet durable, all topics together."""
    max_peek_messages: int = 1000
    max_peek_bytes: int = 1 << 20
    """Per response, about; a message that takes more is refused."""
    metrics_topics: int = 1000
    """Topics and subscriptions with individual metrics; the others count in the totals."""
    cors_origins: tuple[str, ...] = ()
    """Web sites that browsers may call from; ``*`` allows all."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which a broker without tokens may be called, besides its own; ``*`` allows all."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Limits and intervals of a broker."""

    broker_id: str = "broker-1"
    cache_bytes: int = 256 << 20
    """Memory for the newest frames of all topics together."""
    max_frame_bytes: int = 16 << 20
    """Maximum size of a frame that a producer sends."""
    max_delay_seconds: int = 30 * 86_400
    """How far in the future a record's delivery time may be."""
    cursor_flush_seconds: float = 0.5
    """How often changed cursors are stored; later acknowledgements are lost in a crash."""
    retention_seconds: float = 10.0
    """How often retention policies are applied."""
    auto_create_topics: bool = True
    json_schema_rules: JsonRules = JsonRules.EXACT
    """How the registry compares versions of a JSON Schema."""
    max_requests: int = 256
    """Maximum number of concurrent requests per connection."""
    max_peers: int = 65_536
    """Maximum number of producers and consumers per connection."""
    max_connections: int = 10_000
    max_unidentified: int = 512
    """Maximum number of connections per door that have not shown a valid token, if clients need
    tokens. Beyond it, a new connection replaces an idle one or is refused. HTTP: at most half
    of its connections."""
    max_unidentified_per_address: int = 128
    """The same per client address."""
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
    tier: TieringSettings = field(default_factory=TieringSettings)
    subscription: SubscriptionLimits = field(default_factory=SubscriptionLimits)
    http: HttpSettings = field(default_factory=HttpSettings)
