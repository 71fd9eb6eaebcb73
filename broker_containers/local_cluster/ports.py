"""The ports of a cluster on one machine.

They are stored in the data folder, so that a restart uses the same ones: etcd members know each
other by their ports, and clients know the brokers by theirs.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from sulina.errors import Refused
from sulina.runtime.real_random import real_random

LOCAL: Final = "127.0.0.1"
BROKER_PORT: Final = 6655
HTTP_PORT: Final = 8080
STORAGE_PORT: Final = 6660
METRICS_PORT: Final = 6670
ETCD_PORT: Final = 2379
_FILE: Final = "cluster.json"
_LASTING_PORTS: Final = range(20_000, 32_768)
"""Below the ports of outgoing connections: one of those could be in use when a cluster starts again
on the ports by which its etcd members know each other."""
_ETCD_FLAGS: Final = ("--auto-compaction-mode=periodic", "--auto-compaction-retention=10m")


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """How many processes of each type."""

    brokers: int = 3
    storage: int = 3
    etcd: int = 3


@dataclass(frozen=True, slots=True)
class RequestedPorts:
    """The ports of the first broker; the other brokers use those after them. 0: any free port."""

    host: str = LOCAL
    port: int = BROKER_PORT
    http_port: int = HTTP_PORT
    admin_port: int = 0
    grpc_port: int = 0
    grpc_shared: bool = False
    """Whether Danube's clients reach all brokers through ``grpc_port``."""

    def __post_init__(self) -> None:
        if self.host in ("", "0.0.0.0", "::"):
            raise Refused(
                "brokers send their address to clients, so --host must be one address of this "
                "machine that clients can reach"
            )


@dataclass(frozen=True, slots=True)
class ClusterPorts:
    """The ports of all processes, by name, in order."""

    brokers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Ports for Sulina clients and for HTTP."""
    storage: Mapping[str, int] = field(default_factory=dict)
    etcd: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Ports for clients and for the other members."""
    admin: Mapping[str, int] = field(default_factory=dict)
    """The brokers' ports for Danube's admin tools."""
    grpc: Mapping[str, int] = field(default_factory=dict)
    """The brokers' ports for Danube's clients."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """The storage nodes' ports for metrics and health."""
    grpc_shared: int = 0
    """The port through which Danube's clients reach all brokers; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """Options of the processes besides their ports."""

    host: str = LOCAL
    write_quorum: int = 3
    ack_quorum: int = 2
    broker: tuple[str, ...] = ()
    """Further options of ``sulina broker run``."""
    storage: tuple[str, ...] = ()
    """Further options of ``sulina storage``."""
    etcd: tuple[str, ...] = _ETCD_FLAGS
    etcd_proxy_ports: Mapping[str, Mapping[str, int]] | None = None
    """Broker -> member -> port, for brokers that reach members through a proxy."""
    storage_proxy_ports: Mapping[str, Mapping[str, int]] | None = None
    """The same for storage nodes."""


def plan_ports(folder: Path, size: ClusterSize, requested: RequestedPorts) -> ClusterPorts:
    """The ports for a cluster in ``folder``, which are written there before they are returned.

    Raises ``Refused`` if a requested port is in use, or if the folder holds a cluster with more
    storage nodes or a different number of etcd members.
    """
    before = _read(folder)
    _check(folder, before, size)
    ports = _Ports(requested.host)
    brokers = {
        name: (
            ports.wanted(requested.port, number, before.brokers.get(name, (0, 0))[0], "--port"),
            ports.wanted(
                requested.http_port, number, before.brokers.get(name, (0, 0))[1], "--http-port"
            ),
        )
        for number, name in enumerate(_names("broker", size.brokers), 1)
    }
    admin = {
        name: ports.wanted(requested.admin_port, number, before.admin.get(name, 0), "--admin-port")
        for number, name in enumerate(brokers, 1)
    }
    shared = 0
    if requested.grpc_shared:
        shared = ports.wanted(requested.grpc_port, 1, before.grpc_shared, "--grpc-port")
    grpc = {
        # With many brokers these ports overlap with others: take the next free ones.
        name: ports.some([before.grpc.get(name, 0)], requested.grpc_port)
        for name in brokers
    }
    # Another cluster, which may be stopped now, has the default ports in its folder: its etcd
    # members could not start again if these here took them.
    free = requested.port != BROKER_PORT
    inner = _Ports(LOCAL, ports.given)
    storage = {
        name: inner.some([before.storage.get(name, 0)], 0 if free else STORAGE_PORT)
        for name in _names("storage", size.storage)
    }
    metrics = {
        name: inner.some([before.metrics.get(name, 0)], 0 if free else METRICS_PORT)
        for name in storage
    }
    etcd = {}
    for name in _names("etcd", size.etcd):
        client, peer = before.etcd.get(name, (0, 0))
        client = inner.some([client], 0 if free else ETCD_PORT)
        if not peer:
            peer = inner.some([client + 1], 0 if free else ETCD_PORT)
        elif not inner.take(peer):
            raise Refused(
                f"{LOCAL}:{peer} is in use, and the other etcd members know {name} by this port: "
                "stop the process that uses it"
            )
        etcd[name] = (client, peer)
    plan = ClusterPorts(brokers, storage, etcd, admin, grpc, metrics, shared)
    _write(folder, plan)
    return plan


def _names(kind: str, count: int) -> Iterator[str]:
    return (f"{kind}-{number}" for number in range(1, count + 1))


def _check(folder: Path, before: ClusterPorts, size: ClusterSize) -> None:
    if before.etcd and len(before.etcd) != size.etcd:
        raise Refused(
            f"{folder} holds a cluster with --etcd {len(before.etcd)}, which can't be changed: "
            "start it with this number, or choose another folder with --data"
        )
    if len(before.storage) > size.storage:
        raise Refused(
            f"{folder} holds a cluster with --storage {len(before.storage)}: messages are on all "
            "of these nodes, so start at least as many, or choose another folder with --data"
        )


def _read(folder: Path) -> ClusterPorts:
    path = folder / _FILE
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        return ClusterPorts(
            {name: (int(one), int(two)) for name, (one, two) in found["brokers"].items()},
            {name: int(port) for name, port in found["storage"].items()},
            {name: (int(one), int(two)) for name, (one, two) in found["etcd"].items()},
            {name: int(port) for name, port in found.get("admin", {}).items()},
            {name: int(port) for name, port in found.get("grpc", {}).items()},
            {name: int(port) for name, port in found.get("metrics", {}).items()},
            int(found.get("grpc_shared", 0)),
        )
    except FileNotFoundError:
        if folder.is_dir() and any(folder.glob("journal/*.log")):
            raise Refused(
                f"{folder} holds the data of a `sulina up` without --brokers: choose another "
                "folder with --data"
            ) from None
        return ClusterPorts()
    except (ValueError, KeyError, AttributeError, TypeError):
        raise Refused(
            f"{path} is not valid: restore the file, which holds the ports by which etcd members "
            "know each other"
        ) from None


def _write(folder: Path, plan: ClusterPorts) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f"{_FILE}.new"
    with beside.open("w") as file:
        json.dump(asdict(plan), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(folder / _FILE)


class _Ports:
    """Allocates free ports of ``host``, each once."""

    def __init__(self, host: str, given: Iterable[int] = ()) -> None:
        self._host = host
        self.given = set(given)

    def wanted(self, first: int, number: int, before: int, flag: str) -> int:
        """The port number ``first + number - 1``; if ``first`` is 0, the previous port or a free
        one."""
        if not first:
            return self.some([before], 0)
        port = first + number - 1
        if port > 65535:
            raise Refused(f"{flag} {first} is too high for this many brokers: choose a lower port")
        if not self.take(port):
            raise Refused(
                f"can't listen on {self._host}:{port}, which is in use: choose other ports with "
                f"{flag}, or free ones with {flag} 0"
            )
        return port

    def some(self, preferred: Iterable[int], first: int) -> int:
        """One of ``preferred``, or the first free port from ``first`` on; if that is 0, any."""
        near = range(first, first + 100) if first else range(0)
        anywhere = real_random().sample(_LASTING_PORTS, len(_LASTING_PORTS))
        for port in itertools.chain(preferred, near, anywhere):
            if port and self.take(port):
                return port
        raise Refused(f"no port of {self._host} is free: stop what uses them")

    def take(self, port: int) -> bool:
        """Allocate ``port``; False if it is in use."""
        if port in self.given or not 0 < port < 65536:
            return False
        with socket.socket(_family(self._host)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self._host, port))
            except OSError:
                return False
        self.given.add(port)
        return True


def _family(host: str) -> socket.AddressFamily:
    try:
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    except OSError as error:
        raise Refused(
            f"{host!r} is not an address of this machine ({error}): choose another with --host"
        ) from None
