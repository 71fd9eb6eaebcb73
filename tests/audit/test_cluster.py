"""The audit trail of a real cluster whose processes are killed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

import sulina
from sulina.audit import TOPIC, AuditOutcome
from sulina.errors import SulinaError
from tests.audit.test_trail import problems, trail
from tests.auth.broker import ROOT
from tests.support.local_cluster import ClusterUp

PATIENCE = 90.0


async def create(url: str, namespace: str) -> None:
    """Create a namespace, however often it takes: the owner of the trail may be gone."""
    async with asyncio.timeout(PATIENCE), sulina.connect(url, token=ROOT) as client:
        while True:
            try:
                await client.admin.namespaces.create(namespace)
            except SulinaError:
                if namespace in await client.admin.namespaces.list():
                    return
            else:
                return
            await asyncio.sleep(0.2)


@pytest.mark.slow
@pytest.mark.timeout(360)
async def test_the_chains_stay_whole_when_brokers_are_killed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.write_text(ROOT)
    root.chmod(0o600)
    sizes = ("--brokers", "2", "--storage", "3", "--etcd", "1", "--auth", str(root))
    with ClusterUp(tmp_path / "data", *sizes) as cluster:
        for number in range(3):
            await create(cluster.url, f"before-{number}")
        async with sulina.connect(cluster.url, token=ROOT) as client:
            owner = (await client.admin.topics.lookup(TOPIC)).broker
        os.kill(cluster.pids[str(owner)], signal.SIGKILL)
        for number in range(3):
            await create(cluster.url, f"after-{number}")
        async with sulina.connect(cluster.url, token=ROOT) as client:
            done = await trail(client, operation="namespace.create", outcome=AuditOutcome.DONE)
            made = {each.resource for each in done}
            assert made >= {f"{when}-{n}" for when in ("before", "after") for n in range(3)}
            assert await problems(client) == []
