"""A small cluster of processes that an operator looks after, part by part."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
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
from sulina import Start
from sulina.metadata.etcd.server import find_etcd


class Machine:
    """Made by :func:`machine`, with everything running."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    @property
    def url(self) -> str:
        """All brokers."""
        ports = [port for port, _ in self.cluster.ports.brokers.values()]
        return "sulina://" + ",".join(f"127.0.0.1:{port}" for port in ports)

    @property
    def etcd_url(self) -> str:
        """The one member of etcd."""
        ((client, _),) = self.cluster.ports.etcd.values()
        return f"http://127.0.0.1:{client}"

    @property
    def nodes(self) -> list[str]:
        """Options that name every storage node."""
        places = self.cluster.ports.storage.items()
        return [f"--storage-node={name}=127.0.0.1:{port}" for name, port in places]

    async def start(self, processes: Iterable[ManagedProcess]) -> None:
        """Start them, and wait until they are ready."""
        started = list(processes)
        for process in started:
            process.child.start()
        for process in started:
            await process.ready()

    async def stop(self, processes: Iterable[ManagedProcess]) -> None:
        """Ask them to end, and wait until they have."""
        asked = list(processes)
        for process in asked:
            process.child.ask_to_end()
        for process in asked:
            while process.child.running:
                await asyncio.sleep(0.05)

    def kill(self, processes: Iterable[ManagedProcess]) -> None:
        """As a power cut would."""
        for process in processes:
            process.child.kill()

    def back_up(self, file: Path) -> None:
        """A copy of the metadata, by etcd's own tool."""
        _tool("etcdctl", "--endpoints", self.etcd_url, "snapshot", "save", str(file))

    def lose_etcd(self) -> None:
        """Its member ends, and its disk is gone."""
        self.kill(self.cluster.etcd.values())
        for name in self.cluster.etcd:
            shutil.rmtree(self.cluster.folder / "etcd" / name)

    def restore(self, file: Path) -> None:
        """The copy becomes the member's data, by etcd's own tool."""
        ((name, (_, peer)),) = self.cluster.ports.etcd.items()
        here = f"http://127.0.0.1:{peer}"
        _tool(
            *("etcdutl", "snapshot", "restore", str(file), "--name", name),
            *("--initial-cluster", f"{name}={here}", "--initial-advertise-peer-urls", here),
            *("--data-dir", str(self.cluster.folder / "etcd" / name)),
        )

    def sulina(self, *arguments: str, code: int = 0) -> Any:
        """What a command says in JSON."""
        command = [sys.executable, "-m", "sulina.cli", *arguments, "--json"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        assert ran.returncode == code, ran.stdout + ran.stderr
        return json.loads(ran.stdout)


@asynccontextmanager
async def machine(
    folder: Path,
    counts: ClusterSize,
    *,
    later: Collection[str] = (),
    storage: tuple[str, ...] = (),
    broker: tuple[str, ...] = (),
) -> AsyncIterator[Machine]:
    """A cluster that runs, but for those that come ``later``; dead when left.

    ``storage`` are further options of storage nodes, ``broker`` of brokers.
    """
    find_etcd()
    plan = plan_ports(folder, counts, RequestedPorts(port=0, http_port=0))
    options = ProcessOptions(
        broker=("--lease-seconds", "3", *broker),
        storage=("--journal-file-mb", "16", *storage),
        etcd=("--unsafe-no-fsync",),
    )
    made = Machine(LocalCluster(folder, plan, options))
    try:
        for tier in made.cluster.tiers:
            await made.start(one for name, one in tier.items() if name not in later)
        yield made
    finally:
        made.kill(made.cluster.processes.values())


async def publish(url: str, topic: str, numbers: range) -> None:
    """Records with these numbers, each acknowledged."""
    async with sulina.connect(url) as client, client.producer(topic, name="p") as producer:
        tickets = [await producer.send(b"%d" % number) for number in numbers]
        for ticket in tickets:
            await ticket


async def everything(url: str, topic: str) -> list[int]:
    """The numbers in a topic, from its beginning."""
    found: list[int] = []
    start = Start.earliest()
    async with sulina.connect(url) as client:
        while True:
            part = await client.read(topic, start)
            found += [int(bytes(payload)) for batch in part for payload in batch.payloads]
            if part.at_end:
                return found
            start = Start.offset(part.next_offset)


def _tool(name: str, *arguments: str) -> None:
    program = str(Path(find_etcd()).with_name(name))
    environment = {**os.environ, "ETCDCTL_API": "3"}
    subprocess.run([program, *arguments], check=True, capture_output=True, env=environment)
