"""Where the Danube admin door listens, and its limits."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """Limits of the Danube admin door: everything that a client can make large or long."""

    max_calls: int = 128
    """Maximum calls in progress, of all clients; further ones get RESOURCE_EXHAUSTED."""
    max_connections: int = 1024
    """Maximum connections; further ones are closed. Silent ones are closed after five seconds."""
    max_message_bytes: int = 256 << 10
    """Maximum size of a request."""
    call_seconds: float = 30.0
    """Timeout of a call, unless the client sets a shorter one."""
    goodbye_seconds: float = 3.0
    """How long calls in progress may take when the broker stops."""


@dataclass(frozen=True, slots=True)
class AdminListen:
    """Where to listen."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 lets the system choose a free port."""
    tls: ssl.SSLContext | None = None
    """Without it there is no TLS."""
    settings: AdminSettings = field(default_factory=AdminSettings)
