"""Sulina as real processes whose journals can be deleted: a cluster, or a single process.

Both run with ``--tier-local 0``: entries are deleted once their object is verified and listed.
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


class RunningDeployment(Protocol):
    """A running Sulina with a tier."""

    url: str

    async def lose_journals(self) -> int:
        """Stop everything, delete the journals, and restart as docs/operations.md describes.

        Returns how many bytes were deleted.
        """


@asynccontextmanager
async def open_deployment(
    folder: Path, tier: str, *, embedded: bool
) -> AsyncIterator[RunningDeployment]:
    """Start a deployment in a new folder; it is killed at the end."""
    folder.mkdir(parents=True)
    if embedded:
        with SulinaProcess(folder / "data", "--tier", tier, *_LOCAL) as process:
            yield EmbeddedDeployment(process)
        return
    counts = ClusterSize(brokers=1, storage=3, etcd=1)
    options = {"storage": ("--tier", tier), "broker": _LOCAL}
    async with machine(folder, counts, **options) as made:
        yield ClusterDeployment(made, tier)


class ClusterDeployment:
    """A broker, three storage nodes and etcd."""

    def __init__(self, made: Machine, tier: str) -> None:
        self.url = made.url
        self._machine = made
        self._tier = tier

    async def lose_journals(self) -> int:
        """Replace all storage nodes: docs/operations.md, Lose all storage nodes."""
        here = self._machine
        cluster = here.cluster
        await here.stop(cluster.brokers.values())
        await here.stop(cluster.storage.values())
        await here.stop(cluster.etcd.values())
        gone = sum(_wipe(cluster.folder / "storage" / name) for name in cluster.storage)
        await here.start(cluster.etcd.values())
        await here.start(cluster.storage.values())
        options = ("--etcd", here.etcd_url, *here.nodes, "--tier", self._tier)
        await run_sulina("cluster", "rebuild", *options)
        await here.start(cluster.brokers.values())
        return gone


class EmbeddedDeployment:
    """``sulina up``: one process."""

    def __init__(self, process: SulinaProcess) -> None:
        self.url = process.url
        self._process = process

    async def lose_journals(self) -> int:
        """Delete only the folder ``journal``; the metadata is next to it."""
        self._process.stop()
        gone = _wipe(self._process.data / "journal")
        self._process.start()
        return gone


async def run_sulina(*arguments: str) -> Any:
    """Run a ``sulina`` command; returns its JSON output. Raises ``RuntimeError`` if it fails."""
    command = [sys.executable, "-m", "sulina.cli", *arguments, "--json"]
    ran = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=_COMMAND_SECONDS
    )
    if ran.returncode:
        said = (ran.stderr or ran.stdout).strip()
        raise RuntimeError(f"`sulina {' '.join(arguments)}` exited with {ran.returncode}: {said}")
    return json.loads(ran.stdout)


def _wipe(folder: Path) -> int:
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    shutil.rmtree(folder)
    return size
