"""The picture of the overview in README and docs: a cluster of three brokers with traffic.

Only with SULINA_SCREENSHOTS=docs/img. It shows the latencies and the disk of this machine.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
from pathlib import Path

import pytest

import sulina
from sulina.runtime.tasks import stop_tasks
from tests.console.browser import Browser
from tests.console.conftest import PICTURES, picture
from tests.support.local_cluster import ClusterUp

_SIZE = ("--brokers", "3", "--storage", "3", "--etcd", "3", "--audit", "on")
_SECONDS = float(os.environ.get("SULINA_SCREENSHOT_SECONDS", "240"))
pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(PICTURES is None, reason="for the pictures of the documents"),
]


async def _publish(client: sulina.Client, topic: str, batch: int) -> None:
    """Waves of orders, as customers send them."""
    async with client.producer(topic) as producer:
        for number in itertools.count():
            for one in range(int(batch * (2 + math.sin(number / 80)) / 2)):
                order = {"order": number, "item": "tea" if one % 3 else "coffee"}
                await producer.send(json.dumps(order).encode(), key=f"customer-{one}")
            await asyncio.sleep(0.1)


async def _consume(client: sulina.Client, topic: str, name: str, pause: int) -> None:
    """``pause`` is how many seconds it rests after every thousand messages."""
    async with client.consumer(topic, name) as consumer:
        async for message in consumer:
            await consumer.ack(message)
            if message.offset % 1000 == 999:
                await asyncio.sleep(pause)


async def test_the_overview_of_a_busy_cluster(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    tier = ("--tier", f"file://{tmp_path / 'lake'}", "--tier-after", "60")
    cluster = ClusterUp(tmp_path / "data", *_SIZE, *tier)
    await asyncio.to_thread(cluster.start)
    try:
        async with sulina.connect(cluster.url) as client:
            await client.admin.namespaces.create("shop")
            for topic in ("orders", "clicks", "stock", "invoices", "returns"):
                await client.admin.topics.create(f"/shop/{topic}")
            await client.admin.topics.policy("/shop/clicks", retention_bytes=1 << 30)
            tasks = [
                asyncio.create_task(each)
                for each in (
                    *(_publish(client, "/shop/orders", 40), _publish(client, "/shop/clicks", 80)),
                    *(_publish(client, "/shop/stock", 15), _publish(client, "/shop/invoices", 20)),
                    _consume(client, "/shop/orders", "billing", 0),
                    _consume(client, "/shop/orders", "search-index", 2),
                    _consume(client, "/shop/clicks", "analytics", 0),
                    _consume(client, "/shop/stock", "warehouse", 0),
                    _consume(client, "/shop/invoices", "ledger", 0),
                )
            ]
            try:
                await asyncio.sleep(_SECONDS)
                await browser.size(1440, 1080)
                await browser.theme("light")
                await browser.goto(f"http://127.0.0.1:{cluster.ready['brokers'][0]['http_port']}/")
                await browser.sees("Busiest topics", "broker-3", "/shop/clicks", "Changed last")
                await asyncio.sleep(1)
                await picture(browser, "overview_light")
            finally:
                await stop_tasks(*tasks)
    finally:
        await browser.size(1440, 900)
        await asyncio.to_thread(cluster.stop)
