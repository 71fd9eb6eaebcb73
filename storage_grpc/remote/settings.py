"""Settings of the storage node client."""

from __future__ import annotations

from dataclasses import dataclass

from sulina.runtime.tls_files import TlsFiles


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """TLS is configurable; the limits are fixed in production, and tests change them."""

    tls: TlsFiles | None = None
    """Connect with TLS, and present the certificate in it to nodes that ask for one."""
    zone: str = ""
    """The availability zone of this process; reads prefer storage nodes of the same zone."""
    max_pending_bytes: int = 128 << 20
    """Unanswered appends per node; beyond it an append fails with ``Overloaded``."""
    ping_seconds: float = 2.0
    """A silent peer is pinged after this time, and disconnected after as long again."""
    first_backoff: float = 0.05
    last_backoff: float = 2.0
    """Pauses between attempts to connect grow from the first to the last."""
    check_seconds: float = 1.0
    """How often each node is checked."""
    first_avoid: float = 1.0
    """How long a node is not chosen after a failure; doubled with each further failure."""
