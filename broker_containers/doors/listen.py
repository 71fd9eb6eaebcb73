"""Where doors listen, and where clients reach them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from sulina.client.address import Address


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the binary or the HTTP door listens."""

    host: str = "127.0.0.1"
    port: int = 6655
    """0 lets the system choose a free port."""
    tls: ssl.SSLContext | None = None


@dataclass(slots=True)
class Addresses:
    """Where the doors of one broker are reached. Ports are set as the doors open."""

    host: str
    secure: bool
    """Whether the doors use TLS."""
    port: int = 0
    """Of the binary door."""
    http_port: int | None = None
    danube_admin_port: int | None = None
    grpc_port: int | None = None
    """Of the door for Danube's clients."""
    grpc_url: str = ""
    """Where Danube's clients reach the broker; empty without that door."""

    @property
    def url(self) -> str:
        """For Sulina's clients and other brokers."""
        scheme = "sulina+tls" if self.secure else "sulina"
        return f"{scheme}://{Address(self.host, self.port)}"

    @property
    def http_url(self) -> str:
        """Empty without an HTTP door."""
        return self._web_url(self.http_port)

    @property
    def danube_admin_url(self) -> str:
        """Empty without a Danube admin door."""
        return self._web_url(self.danube_admin_port)

    def _web_url(self, port: int | None) -> str:
        if port is None:
            return ""
        return f"{'https' if self.secure else 'http'}://{Address(self.host, port)}"
