"""Where the names and ports of a deployment are on this machine.

Task definitions and functions name servers as they are called inside the VPC. Here every server is
at 127.0.0.1, with ports of its own. Nothing else of a definition changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_containers.local_cluster.ports import LOCAL, ClusterPorts

BINARY: Final = 6655
GRPC: Final = 6650
HTTP: Final = 8080
ADMIN: Final = 50051
STORAGE: Final = 6660
METRICS: Final = 6670
ETCD: Final = 2379
ETCD_PEERS: Final = 2380
_EVERYWHERE: Final = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class AddressBook:
    """Addresses inside the VPC, as ``host:port``, and what stands for them here."""

    known: Mapping[str, str]

    def here(self, text: str, own: Mapping[int, int] | None = None) -> str:
        """``text`` with all addresses replaced; ``own`` are the ports of the server itself."""
        for port, mine in (own or {}).items():
            text = re.sub(rf"{re.escape(_EVERYWHERE)}:{port}\b", f"{LOCAL}:{mine}", text)
        for there, address in self.known.items():
            text = re.sub(rf"{re.escape(there)}\b", address, text)
        return text


def ports_of(name: str, ports: ClusterPorts) -> dict[int, int]:
    """The ports of a server by the ports that it has in its container."""
    if name in ports.etcd:
        client, peer = ports.etcd[name]
        return {ETCD: client, ETCD_PEERS: peer}
    if name in ports.storage:
        return {STORAGE: ports.storage[name], METRICS: ports.metrics[name]}
    binary, http = ports.brokers[name]
    return {BINARY: binary, HTTP: http, GRPC: ports.grpc[name], ADMIN: ports.admin[name]}


def address_book(account: Any, ports: ClusterPorts, listeners: Mapping[int, int]) -> AddressBook:
    """Look up the names of the deployment; ``listeners`` are the load balancer's ports here."""
    domain = account.client("servicediscovery").list_namespaces()["Namespaces"][0]["Name"]
    balancer = account.client("elbv2").describe_load_balancers()["LoadBalancers"][0]["DNSName"]
    known = {
        f"{name}.{domain}:{port}": f"{LOCAL}:{mine}"
        for name in (*ports.etcd, *ports.storage)
        for port, mine in ports_of(name, ports).items()
    }
    for port, mine in listeners.items():
        known[f"brokers.{domain}:{port}"] = known[f"{balancer}:{port}"] = f"{LOCAL}:{mine}"
    return AddressBook(known)
