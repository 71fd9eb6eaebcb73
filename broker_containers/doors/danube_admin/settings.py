"""Where the Danube admin door listens, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """Everything a client can make large or long has a bound."""

    max_calls: int = 128
    """Under way at once, all clients together; further ones are told RESOURCE_EXHAUSTED."""
    max_connections: int = 256
    """Further ones are closed."""
    max_message_bytes: int = 256 << 10
    """Of a request."""
    call_seconds: float = 30.0
    """From a call to its answer, if the client does not want it sooner."""
    unload_seconds: float = 60.0
    """How long UnloadBroker waits for topics to have gone, unless the call says."""
    max_unload_seconds: float = 600.0
    """The longest that a call may say."""
    max_unload_parallel: int = 32
    """Moves at once of UnloadBroker with chosen namespaces; unless the call says, 8."""
    goodbye_seconds: float = 3.0
    """How long calls under way may take when the broker stops."""


@dataclass(frozen=True, slots=True)
class AdminListen:
    """Where to listen. gRPC takes certificates as bytes, not as Python's TLS contexts."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes one that is free."""
    certificate: bytes | None = field(default=None, repr=False)
    """PEM, with its chain; without it there is no TLS."""
    key: bytes | None = field(default=None, repr=False)
    """PEM; may be left out if it is in the certificate's file."""
    settings: AdminSettings = field(default_factory=AdminSettings)
