"""A cluster of processes that had something of everything to do, and what it exports."""

from __future__ import annotations

import asyncio
import contextlib
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sulina
from sulina import Client, FailurePolicy, Start
from sulina.errors import Refused
from tests.monitoring.scraped import Scraped
from tests.support.local_cluster import ClusterUp

ROOT_TOKEN = "root-token-of-the-monitoring-tests"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TOPIC, DEAD = "/default/panels", "/default/dead"
_TRACED = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
_SIZE = ("--brokers", "1", "--storage", "1", "--etcd", "1")


@dataclass(frozen=True, slots=True)
class Watched:
    """A running cluster of one broker and one storage node, after its work."""

    url: str
    broker_port: int
    node_port: int
    broker: Scraped
    node: Scraped
    token_file: Path


@contextmanager
def watched_cluster(folder: Path) -> Iterator[Watched]:
    """Start it, let it work, read its metrics."""
    (folder / "objects").mkdir()
    tier = ("--tier", f"file://{folder / 'objects'}")
    catalog = ("--catalog", f"sqlite:///{folder / 'catalog.db'}")
    with _root_token(), ClusterUp(folder / "data", *_SIZE, *tier, *catalog) as cluster:
        broker = int(cluster.ready["brokers"][0]["http_port"])
        node = int(cluster.ready["storage"][0]["metrics_port"])
        asyncio.run(_work(cluster.url))
        with contextlib.suppress(urllib.error.HTTPError):
            _read(broker, token="wrong")  # a refusal, which is counted
        token = folder / "token"
        token.write_text(ROOT_TOKEN)
        pages = Scraped.of(_read(broker, token=ROOT_TOKEN)), Scraped.of(_read(node))
        yield Watched(cluster.url, broker, node, *pages, token)


@contextmanager
def _root_token() -> Iterator[None]:
    os.environ["SULINA_ROOT_TOKEN"] = ROOT_TOKEN
    try:
        yield
    finally:
        del os.environ["SULINA_ROOT_TOKEN"]


def _read(port: int, *, token: str = "") -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


async def _work(url: str) -> None:
    """Publish, refuse, deliver, give up, tier."""
    async with sulina.connect(url, token=ROOT_TOKEN) as client, asyncio.timeout(100):
        await client.admin("topic.create", {"topic": TOPIC})
        await client.admin("topic.policy", {"topic": TOPIC, "max_message_size": 100})
        await client.admin.quotas.namespace("default", topics=50)
        await _publish(client)
        await _give_up(client)
        await client.admin.ledgers.offload(TOPIC)


async def _publish(client: Client) -> None:
    async with client.producer(TOPIC) as producer:
        for _ in range(4):
            await (await producer.send(b"x" * 50, attributes=_TRACED))
        with contextlib.suppress(Refused):
            await (await producer.send(b"x" * 101))


async def _give_up(client: Client) -> None:
    policy = FailurePolicy(max_redelivery_count=1, dead_letter_topic=DEAD)
    start = Start.earliest()
    async with client.consumer(TOPIC, "s", start=start, failure_policy=policy) as taker:
        for _ in range(4):
            await taker.ack(await taker.receive())
