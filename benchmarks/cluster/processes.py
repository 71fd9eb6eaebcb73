"""A cluster of processes on free ports of this machine, to be measured."""

from __future__ import annotations

import asyncio
import os
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import psutil

import sulina
from benchmarks import watch
from broker_containers.local_cluster.ports import (
    ClusterSize,
    ProcessOptions,
    RequestedPorts,
    plan_ports,
)
from broker_containers.local_cluster.processes import LocalCluster
from sulina import Client
from sulina.errors import Retriable, UnknownOutcome

_T = TypeVar("_T")
_AT_ONCE = 64


@asynccontextmanager
async def measured_cluster(
    counts: ClusterSize, *, lease: int = 8, data: Path | None = None
) -> AsyncIterator[LocalCluster]:
    """Start all processes, and kill them at the end. etcd syncs to disk, as in production."""
    with TemporaryDirectory(prefix="sulina-bench-", dir=data) as folder:
        plan = plan_ports(Path(folder), counts, RequestedPorts(port=0, http_port=0))
        quorum = min(3, counts.storage)
        options = ProcessOptions(
            write_quorum=quorum,
            ack_quorum=quorum // 2 + 1,
            broker=("--lease-seconds", str(lease), "--log-level", "info"),
        )
        cluster = LocalCluster(Path(folder), plan, options)
        try:
            for tier in cluster.tiers:
                for process in tier.values():
                    process.child.start()
                for process in tier.values():
                    await process.ready()
            yield cluster
        finally:
            for process in cluster.processes.values():
                process.child.kill()


def connect(cluster: LocalCluster, *, without: str = "", timeout: float = 120.0) -> Client:
    """A client of all brokers, or of all except one."""
    ports = [ports[0] for name, ports in cluster.ports.brokers.items() if name != without]
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    return sulina.connect(f"sulina://{addresses}", operation_timeout=timeout)


async def each(items: Iterable[_T], work: Callable[[_T], Awaitable[None]]) -> None:
    """Process all items with limited concurrency."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as workers:
        for _ in range(_AT_ONCE):
            workers.create_task(worker())


async def ask(client: Client, method: str, **arguments: Any) -> Any:
    """Retry an admin call until it is answered."""
    while True:
        try:
            return await client.admin(method, arguments)
        except (Retriable, UnknownOutcome):
            await asyncio.sleep(0.1)


def cpu_seconds(cluster: LocalCluster) -> dict[str, float]:
    """The CPU time of each process so far; this process is the client."""
    pids = {name: each.child.pid for name, each in cluster.processes.items() if each.child.running}
    return {
        name: watch.cpu_seconds([psutil.Process(pid)])
        for name, pid in {"client": os.getpid(), **pids}.items()
    }


def topic_names(count: int) -> list[str]:
    """The names of ``count`` topics."""
    return [f"/default/topic-{number:05}" for number in range(count)]


async def open_topics(cluster: LocalCluster, broker: str) -> int:
    """The number of topics that a broker serves, according to its metrics."""
    return await asyncio.to_thread(_open_topics, cluster.ports.brokers[broker][1])


def _open_topics(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("danube_broker_topics_owned"):
                return int(float(line.rpartition(" ")[2]))
    raise AssertionError("the broker's metrics do not include its number of topics")
