"""What can be set for the client of storage nodes."""

from __future__ import annotations

from dataclasses import dataclass

from sulina.runtime.tls_files import TlsFiles


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """The defaults suit a cluster in one region."""

    message_bytes: int = 1 << 20
    """Appends that wait are sent together, up to so much in one message (or one larger entry)."""
    max_pending_bytes: int = 128 << 20
    """Unanswered appends of one node; beyond, an append fails with ``Overloaded``."""
    ping_seconds: float = 2.0
    """A silent peer is pinged after so long, and given up after as long again."""
    connect_timeout: float = 2.0
    """An attempt to connect that takes longer has failed."""
    first_backoff: float = 0.05
    last_backoff: float = 2.0
    """Between two attempts to reach a node, rising from the first to the last."""
    check_seconds: float = 1.0
    """How often each node is asked how it is."""
    check_timeout: float = 1.0
    """A node that takes longer is not healthy."""
    first_avoid: float = 1.0
    last_avoid: float = 60.0
    """How long a node that failed is not chosen: twice as long each time it fails again soon."""
    tls: TlsFiles | None = None
    """With it, nodes must speak TLS; a node that asks for certificates is shown the one in it."""
