"""Where the Danube door listens, which URL its clients are given, and its limits."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PORT: Final = 6650
MAX_MESSAGE_BYTES: Final = (4 << 20) - (4 << 10)
"""The largest message accepted or delivered, attributes included: stock clients receive 4 MiB."""
FRAME_RECORDS: Final = 4096
FRAME_BYTES: Final = 1 << 20
"""Messages that wait together share a frame up to this size."""
PEER_SECONDS: Final = 20.0
"""Timeout of a call that is forwarded to another broker."""


@dataclass(frozen=True, slots=True)
class DanubeSettings:
    """Intervals of the door, in seconds. No option sets them; tests shorten them."""

    reopen_seconds: float = 0.7
    """How long to hold a stream that can't be served before ending it: stock clients open the next
    one immediately."""
    forward_after_seconds: float = 6.0
    """A client that has called the wrong broker for this long has missed its health check, and its
    calls are forwarded."""
    silent_seconds: float = 60.0
    """Producers, and consumers without a stream, are detached after this long without a call."""
    sweep_seconds: float = 1.0
    """How often silent clients are looked for."""
    quiet_seconds: float = 6.0
    """Clients that have not asked a stopping broker for this long know where their topics are now:
    consumers learn of a move by their health check, every 5 s."""
    goodbye_seconds: float = 2.0
    """How long calls in progress may take when the broker stops."""


@dataclass(frozen=True, slots=True)
class DanubeListen:
    """Where to listen, and the URLs that clients are given."""

    host: str = "127.0.0.1"
    port: int = PORT
    """0 lets the system choose a free port."""
    tls: ssl.SSLContext | None = None
    """Without it there is no TLS."""
    advertise: str = ""
    """The URL of this broker for clients; built from ``advertise_host`` and the port if empty."""
    advertise_host: str = ""
    """The host of that URL; ``host`` if empty."""
    proxy_url: str = ""
    """The one URL that leads to all brokers, if clients can't reach each broker by its own."""
    shared_name: str = ""
    """The name that leads to all brokers inside their network, and that their certificates are for;
    to clients that use it, it is what ``proxy_url`` is to others."""
    peer_authorities: Path | None = None
    """The authorities of other brokers' certificates (PEM); by default the system's."""
    settings: DanubeSettings = field(default_factory=DanubeSettings)

    @property
    def scheme(self) -> str:
        """The scheme of the URLs."""
        return "http" if self.tls is None else "https"
