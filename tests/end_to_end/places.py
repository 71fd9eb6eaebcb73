"""Sulina as real processes that can lose their journals: a cluster, or all in one.

Each runs with ``--tier-local 0``: entries go as soon as their object is verified and on the list.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from broker_containers.local_cluster.ports import ClusterSize
from tests.procedures.machine import Machine, machine
from tests.support.server import SulinaProcess

_LOCAL: Final = ("--tier-local", "0")
_COMMAND_SECONDS: Final = 1800.0


class Place(Protocol):
    """A running Sulina over a tier."""

    url: str

    async def lose_journals(self) -> int:
        """Stop everything, delete what storage has on disk, come back as the handbook says.

        Returns how many bytes were deleted.
        """


@asynccontextmanager
async def open_place(folder: Path, tier: str, *, embedded: bool) -> AsyncIterator[Place]:
    """Start one over a new folder; dead when left."""
    folder.mkdir(parents=True)
    if embedded:
        with SulinaProcess(folder / "data", "--tier", tier, *_LOCAL) as process:
            yield Embedded(process)
        return
    counts = ClusterSize(brokers=1, storage=3, etcd=1)
    options = {"storage": ("--tier", tier), "broker": _LOCAL}
    async with machine(folder, counts, **options) as made:
        yield Cluster(made, tier)


class Cluster:
    """A broker, three storage nodes, etcd: six processes with the object store."""

    def __init__(self, made: Machine, tier: str) -> None:
        self.url = made.url
        self._machine = made
        self._tier = tier

    async def lose_journals(self) -> int:
        """All storage nodes are new ones afterwards: docs/operations.md, Lose all storage nodes."""
        here = self._machine
        cluster = here.cluster
        await here.stop(cluster.brokers.values())
        await here.stop(cluster.storage.values())
        await here.stop(cluster.etcd.values())
        gone = sum(_wipe(cluster.folder / "storage" / name) for name in cluster.storage)
        await here.start(cluster.etcd.values())
        await here.start(cluster.storage.values())
        place = ("--etcd", here.etcd_url, *here.nodes, "--tier", self._tier)
        await sulina_says("cluster", "rebuild", *place)
        await here.start(cluster.brokers.values())
        return gone


class Embedded:
    """``sulina up``: one process."""

    def __init__(self, process: SulinaProcess) -> None:
        self.url = process.url
        self._process = process

    async def lose_journals(self) -> int:
        """Nothing but the folder ``journal`` goes; the metadata is beside it."""
        self._process.stop()
        gone = _wipe(self._process.data / "journal")
        self._process.start()
        return gone


async def sulina_says(*arguments: str) -> Any:
    """What a command of ``sulina`` says in JSON. Raises ``RuntimeError`` if it does not succeed."""
    command = [sys.executable, "-m", "sulina.cli", *arguments, "--json"]
    ran = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=_COMMAND_SECONDS
    )
    if ran.returncode:
        said = (ran.stderr or ran.stdout).strip()
        raise RuntimeError(f"`sulina {' '.join(arguments)}` ended with {ran.returncode}: {said}")
    return json.loads(ran.stdout)


def _wipe(folder: Path) -> int:
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    shutil.rmtree(folder)
    return size
