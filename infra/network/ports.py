"""The default ports of Sulina's servers and of etcd."""

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
"""All ports of a broker."""
DIRECT: Final = (BINARY, GRPC, HTTP)
"""The ports at which clients inside the network reach brokers without the load balancer."""
