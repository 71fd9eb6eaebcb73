"""The ports of Sulina's parts, as their own defaults have them."""

from __future__ import annotations

from typing import Final

BINARY: Final = 6655
GRPC: Final = 6650
HTTP: Final = 8080
ADMIN: Final = 50051
STORAGE: Final = 6660
ETCD: Final = 2379
ETCD_PEERS: Final = 2380
HTTPS: Final = 443

BROKER: Final = (BINARY, GRPC, HTTP, ADMIN)
"""Every door of a broker."""
