"""Kills a broker, and measures how long until each of its topics accepts records again.

One broker of three owns all topics, each with an open ledger and a connected producer. It is killed
with kill -9, and each producer publishes a record at that moment. The time of a topic is from the
kill to the acknowledgement at its producer, including detection, reassignment, recovery of the
ledger, and the client's reconnection to the new owner. Alternatively the broker is frozen
(SIGSTOP), like a lost machine: connections are not refused, and the lease must expire.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.cluster.processes import (
    ask,
    connect,
    cpu_seconds,
    each,
    measured_cluster,
    open_topics,
    topic_names,
)
from broker_containers.local_cluster.ports import ClusterSize
from broker_containers.local_cluster.processes import LocalCluster
from sulina import Client, Producer

KILLED = "broker-1"


async def failover(topics: int, lease: int, *, freeze: bool = False) -> dict[str, Any]:
    """Seconds from the kill until the other brokers noticed, and until topics were served."""
    async with (
        measured_cluster(ClusterSize(3, 3, 3), lease=lease) as cluster,
        connect(cluster, without=KILLED) as client,
        AsyncExitStack() as stack,
    ):
        others = [name for name in cluster.ports.brokers if name != KILLED]
        for other in others:
            await ask(client, "broker.drain", broker=other)
        producers: list[Producer] = []

        async def prepare(name: str) -> None:
            producer = await stack.enter_async_context(client.producer(name, send_timeout=300.0))
            await (await producer.send(b"before"))
            producers.append(producer)

        began = time.monotonic()
        await each(topic_names(topics), prepare)
        prepared = time.monotonic() - began
        for other in others:
            await ask(client, "broker.activate", broker=other)
        rows = await ask(client, "broker.list")
        owned = {row["broker"]: row["topics"] for row in rows}
        assert owned[KILLED] >= topics, owned  # including system topics

        before = cpu_seconds(cluster)
        killed = time.monotonic()
        if freeze:
            os.kill(cluster.brokers[KILLED].child.pid, signal.SIGSTOP)
        else:
            cluster.brokers[KILLED].child.kill()
        noticed = asyncio.create_task(_noticed(cluster, client, killed))
        served: list[float] = []

        async def publish(producer: Producer) -> None:
            await (await producer.send(b"after"))
            served.append(time.monotonic() - killed)

        async with asyncio.TaskGroup() as publishing:
            for producer in producers:
                publishing.create_task(publish(producer))
        served.sort()
        gone, placed, opened = await noticed
        rows = await ask(client, "broker.list")
        used = {name: round(cpu - before[name], 2) for name, cpu in cpu_seconds(cluster).items()}
        return {
            "topics": topics,
            "by": "SIGSTOP" if freeze else "SIGKILL",
            "lease_seconds": lease,
            "prepared": prepared,
            "noticed": gone,
            "all_have_owners": placed,
            "all_open": opened,
            "first_served": served[0],
            "half_served": served[len(served) // 2],
            "all_served": served[-1],
            "after_noticed": served[-1] - gone,
            "topics_of": {row["broker"]: row["topics"] for row in rows},
            "cpu_seconds": used,
            "cpu_seconds_of_all": round(sum(used.values()), 2),
        }


async def _noticed(
    cluster: LocalCluster, client: Client, killed: float
) -> tuple[float, float, float]:
    """When the cluster noticed the loss, when topics had new owners, and when they were open."""
    gone = placed = 0.0
    while True:
        rows = await ask(client, "cluster.describe")
        now = time.monotonic() - killed
        if KILLED not in [row["broker"] for row in rows["brokers"]]:
            gone = gone or now
            if sum(row["topics"] for row in rows["brokers"]) == rows["topics"]:
                placed = placed or now
                others = [row["broker"] for row in rows["brokers"]]
                opened = [await open_topics(cluster, name) for name in others]
                if sum(opened) >= rows["topics"]:
                    return gone, placed, time.monotonic() - killed
        await asyncio.sleep(0.25)
