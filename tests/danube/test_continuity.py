"""Stock clients at work behind one address while everything that can happen to a cluster happens.

The application sees no error, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

import sulina
from sulina import Client
from sulina.metadata.etcd.server import find_etcd
from tests.danube.load import StockLoad
from tests.danube.stock import Stock
from tests.support.local_cluster import ClusterUp

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def moved(native: Client, topic: str, to: str) -> None:
    """Move a topic unless it is there, and wait for it."""
    while (found := await native.admin("topic.lookup", {"topic": topic}))["broker"] != to:
        if found["moving_to"] is None:
            await native.admin("topic.move", {"topic": topic, "broker": to})
        await asyncio.sleep(0.1)


async def left(native: Client, topic: str, broker: str) -> None:
    """Wait until another broker serves a topic."""
    while (await native.admin("topic.lookup", {"topic": topic}))["broker"] == broker:
        await asyncio.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_applications_behind_one_address_notice_nothing(stock: Stock, tmp_path: Path) -> None:
    find_etcd()
    counts = ("--brokers", "3", "--storage", "3", "--etcd", "1")
    with ClusterUp(tmp_path / "data", *counts) as cluster:

        async def back() -> None:
            while (await asyncio.to_thread(cluster.event))["event"] != "started":
                pass

        url = cluster.ready["danube_url"]
        async with (
            sulina.connect(cluster.url, operation_timeout=60) as native,
            StockLoad(stock, url, "/default/steady", "EXCLUSIVE") as load,
            StockLoad(stock, url, "/default/shared", "SHARED") as other,
        ):
            topic = load.topic

            async def flows() -> None:
                await asyncio.gather(load.flows(), other.flows())

            await moved(native, topic, "broker-1")
            await flows()

            await native.admin("broker.drain", {"broker": "broker-1"})
            await left(native, topic, "broker-1")
            await flows()
            await native.admin("broker.activate", {"broker": "broker-1"})

            for broker, how in (("broker-2", signal.SIGTERM), ("broker-3", signal.SIGKILL)):
                await moved(native, topic, broker)
                await moved(native, other.topic, broker)
                await flows()
                os.kill(cluster.pids[broker], how)
                await flows()
                await back()
                await flows()

            for process in ("etcd-1", "storage-1"):
                os.kill(cluster.pids[process], signal.SIGKILL)
                await flows()
                await back()
                await flows()

            for report in await asyncio.gather(load.end(), other.end()):
                assert not report.errors
                assert not report.missing
