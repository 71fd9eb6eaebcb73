"""The processes of a cluster on one machine: how each is started, and when it is ready.

The output of a process is in ``<data>/<type>/<name>.log``. Brokers and storage nodes write a line
of JSON there when they are ready.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from broker_containers.local_cluster.ports import LOCAL, ClusterPorts, ProcessOptions
from sulina.errors import Unavailable
from sulina.metadata.etcd.server import EtcdServers, MemberSpec
from sulina.metadata.etcd.settings import EtcdEndpoint
from sulina.runtime.child_process import ChildProcess
from sulina.runtime.real_clock import RealClock

READY_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05
_PYTHON: Final = (sys.executable, "-m", "sulina.cli")


class ManagedProcess(Protocol):
    """A process of the cluster."""

    name: str
    log: Path
    child: ChildProcess

    async def ready(self) -> None:
        """Wait until it is ready. Raises ``Unavailable`` if it ends or takes too long."""


class ServerProcess:
    """A broker or a storage node."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, *, seconds: float = READY_SECONDS
    ) -> None:
        self.name = name
        self.log = log
        self._seconds = seconds
        self.said: dict[str, Any] = {}
        """The line that it wrote when it was ready."""
        self.child = ChildProcess((*_PYTHON, *command, "--json"), log)
        self._clock = RealClock()
        self._seen = 0

    async def ready(self) -> None:
        """Wait for the ready line of this process in its log."""
        end = self._clock.now() + self._seconds
        while not self._find():
            if not self.child.running:
                raise Unavailable(f"{self.name} ended: {last_line(self.child)}")
            if self._clock.now() > end:
                raise Unavailable(
                    f"{self.name} was not ready within {self._seconds:g} s: {last_line(self.child)}"
                )
            await self._clock.sleep(_POLL_SECONDS)

    def _find(self) -> bool:
        if not self.log.exists():
            return False
        with self.log.open("rb") as file:
            file.seek(self._seen)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._seen += len(line)
                if line.startswith(b'{"event": "ready"'):
                    said = json.loads(line)
                    if said["pid"] == self.child.pid:
                        self.said = said
                        return True
        return False


class EtcdProcess:
    """An etcd member."""

    def __init__(self, name: str, servers: EtcdServers, log: Path) -> None:
        self.name = name
        self.log = log
        self.child = servers.members[name]
        self._servers = servers

    async def ready(self) -> None:
        await self._servers.wait_ready(self.name, READY_SECONDS)


class LocalCluster:
    """All processes of a cluster, not started. Raises ``Unavailable`` if etcd is not installed."""

    def __init__(self, folder: Path, ports: ClusterPorts, options: ProcessOptions) -> None:
        folder = folder.absolute()
        self.folder = folder
        self.ports = ports
        self._options = options
        for kind in ("etcd", "storage", "brokers"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
        specs = [MemberSpec(name, *ports) for name, ports in ports.etcd.items()]
        self._servers = EtcdServers(folder / "etcd", specs, RealClock(), flags=options.etcd)
        self.etcd = {
            name: EtcdProcess(name, self._servers, folder / "etcd" / f"{name}.log")
            for name in ports.etcd
        }
        self.storage = {
            name: ServerProcess(name, self._storage(name, port), folder / "storage" / f"{name}.log")
            for name, port in ports.storage.items()
        }
        self.brokers = {
            name: ServerProcess(
                name, self._broker(name, *ports), folder / "brokers" / f"{name}.log"
            )
            for name, ports in ports.brokers.items()
        }

    @property
    def tiers(self) -> tuple[Mapping[str, ManagedProcess], ...]:
        """Groups of processes in the order of their start; each needs the groups before it."""
        return {**self.etcd, **self.storage}, dict(self.brokers)

    @property
    def processes(self) -> dict[str, ManagedProcess]:
        """All processes by name."""
        return {**self.etcd, **self.storage, **self.brokers}

    def _storage(self, name: str, port: int) -> tuple[str, ...]:
        data = self.folder / "storage" / name
        metrics = str(self.ports.metrics.get(name, 0))
        place = ("--data", str(data), "--host", LOCAL, "--port", str(port))
        return (
            *("storage", "--id", name, *place, "--metrics-port", metrics),
            *self._options.storage,
        )

    def _broker(self, name: str, port: int, http_port: int) -> tuple[str, ...]:
        options = self._options
        etcd_proxy_ports = (options.etcd_proxy_ports or {}).get(name, {})
        storage_proxy_ports = (options.storage_proxy_ports or {}).get(name, {})
        members = ",".join(
            str(EtcdEndpoint(LOCAL, etcd_proxy_ports.get(member, client)))
            for member, (client, _) in self.ports.etcd.items()
        )
        nodes = [
            f"--storage-node={node}={EtcdEndpoint(LOCAL, storage_proxy_ports.get(node, own))}"
            for node, own in self.ports.storage.items()
        ]
        return (
            *("broker", "run", "--id", name, "--etcd", f"http://{members}", *nodes),
            *("--host", options.host, "--port", str(port), "--http-port", str(http_port)),
            *("--admin-port", str(self.ports.admin.get(name, 0))),
            *("--grpc-port", str(self.ports.grpc.get(name, 0))),
            *("--write-quorum", str(options.write_quorum)),
            *("--ack-quorum", str(options.ack_quorum), *options.broker),
        )


def last_line(child: ChildProcess) -> str:
    """The last line of its output, for an error message."""
    lines = child.said().splitlines()
    return lines[-1] if lines else "it wrote nothing"
