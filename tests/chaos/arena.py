"""The cluster that is harmed: processes, and the wires from each broker to nodes and to etcd."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sulina
from broker_containers.local_cluster.ports import (
    ClusterSize,
    ProcessOptions,
    RequestedPorts,
    plan_ports,
)
from broker_containers.local_cluster.processes import LocalCluster, ManagedProcess
from sulina import Client
from sulina.errors import SulinaError, Unavailable
from tests.support.wire import Wire

PATIENCE = 120.0
"""Seconds for what must happen at some time, on a machine that is slow and has other work."""
_FAST_ETCD = ("--unsafe-no-fsync",)
"""Processes die here, the machine does not."""

Ways = dict[str, dict[str, Wire]]


class Broken(AssertionError):
    """Something that was promised did not happen."""


@dataclass(slots=True)
class Arena:
    """Made by :func:`arena`, with everything running."""

    cluster: LocalCluster
    to_storage: Ways
    """Broker -> storage node -> the wire between them."""
    to_etcd: Ways
    url: str
    lease: int
    client: Client
    """For administration."""
    broken: list[str] = field(default_factory=list)
    """Promises that were not kept."""

    async def start(self, process: ManagedProcess) -> None:
        """Start a process until it is ready, as a supervisor would."""
        end = time.monotonic() + PATIENCE
        while True:
            process.child.start()
            try:
                return await process.ready()
            except Unavailable as error:
                if time.monotonic() > end:
                    raise Broken(f"{process.name} could not be started again: {error}") from None
                await asyncio.sleep(0.5)

    async def stop(self, process: ManagedProcess) -> None:
        """Ask it to end, and wait. One that does not is a broken promise."""
        process.child.ask_to_end()
        end = time.monotonic() + PATIENCE
        while process.child.running:
            if time.monotonic() > end:
                self.broken.append(f"{process.name} did not stop in {PATIENCE:g} s")
                process.child.kill()
            await asyncio.sleep(0.05)

    async def admin(self, method: str, **arguments: Any) -> Any:
        """An answer, or None if the cluster can't do it now, which is no harm."""
        try:
            return await self.client.admin(method, arguments)
        except SulinaError:
            return None

    async def leader(self) -> str:
        """Who leads the cluster, or any broker if nobody knows."""
        found = await self.admin("cluster.describe")
        who = found["leader"] if found else None
        return who if who in self.cluster.brokers else next(iter(self.cluster.brokers))

    async def restart_brokers(self) -> None:
        """Kill all brokers, and start them again."""
        for broker in self.cluster.brokers.values():
            broker.child.kill()
        async with asyncio.TaskGroup() as starting:
            for broker in self.cluster.brokers.values():
                starting.create_task(self.start(broker))


@asynccontextmanager
async def arena(folder: Path, counts: ClusterSize, lease: int) -> AsyncIterator[Arena]:
    """A cluster that runs; dead when left."""
    plan = plan_ports(folder, counts, RequestedPorts(port=0, http_port=0))
    async with AsyncExitStack() as stack:

        async def wires(ports: dict[str, int]) -> Ways:
            return {
                broker: {
                    name: await stack.enter_async_context(Wire(port))
                    for name, port in ports.items()
                }
                for broker in plan.brokers
            }

        to_storage = await wires(dict(plan.storage))
        to_etcd = await wires({name: ports[0] for name, ports in plan.etcd.items()})
        options = ProcessOptions(
            write_quorum=min(3, counts.storage),
            ack_quorum=min(3, counts.storage) // 2 + 1,
            broker=("--log-level", "info", "--lease-seconds", str(lease)),
            storage=("--log-level", "info", "--journal-file-mb", "16"),
            etcd=_FAST_ETCD,
            storage_proxy_ports=_ports(to_storage),
            etcd_proxy_ports=_ports(to_etcd),
        )
        cluster = LocalCluster(folder, plan, options)
        for process in cluster.processes.values():
            stack.callback(process.child.kill)
        for tier in cluster.tiers:
            for process in tier.values():
                process.child.start()
            for process in tier.values():
                await process.ready()
        addresses = ",".join(f"127.0.0.1:{port}" for port, _ in plan.brokers.values())
        url = f"sulina://{addresses}"
        client = await stack.enter_async_context(sulina.connect(url, operation_timeout=10.0))
        yield Arena(cluster, to_storage, to_etcd, url, lease, client)


def _ports(ways: Ways) -> dict[str, dict[str, int]]:
    return {
        broker: {name: wire.port for name, wire in wires.items()} for broker, wires in ways.items()
    }
