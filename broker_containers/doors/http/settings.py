"""What can be set on the HTTP door. Everything a client can make large has a bound."""

from __future__ import annotations

from dataclasses import dataclass


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
