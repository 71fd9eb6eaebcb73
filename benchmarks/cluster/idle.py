"""Measures the memory per idle topic, and how long a broker with many takes to start.

Each topic has one stored record. Memory is the resident memory of the broker's process; the
start lasts from the start of the process until every topic is open.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import psutil

from benchmarks.cluster.processes import (
    ask,
    connect,
    each,
    measured_cluster,
    open_topics,
    topic_names,
)
from broker_containers.local_cluster.ports import ClusterSize
from broker_containers.local_cluster.processes import LocalCluster

BROKER = "broker-1"


async def idle(topics: int) -> dict[str, Any]:
    """Bytes and seconds."""
    async with measured_cluster(ClusterSize(1, 3, 1)) as cluster:
        broker = cluster.brokers[BROKER]
        empty = _memory(broker.child.pid)
        async with connect(cluster) as client:

            async def make(name: str) -> None:
                async with client.producer(name, send_timeout=300.0) as producer:
                    await (await producer.send(b"x" * 100))

            began = time.monotonic()
            await each(topic_names(topics), make)
            made = time.monotonic() - began
        await asyncio.sleep(10)
        full = _memory(broker.child.pid)
        print(f"made in {made:.0f} s, memory {empty >> 20} -> {full >> 20} MiB", file=sys.stderr)
        starts = {}
        for how in ("stopped", "killed"):
            if how == "stopped":
                broker.child.ask_to_end()
                while broker.child.running:
                    await asyncio.sleep(0.05)
            else:
                broker.child.kill()
            began = time.monotonic()
            broker.child.start()
            await broker.ready()
            ready = time.monotonic() - began
            await _all_open(cluster, topics)
            starts[how] = {"ready": ready, "all_open": time.monotonic() - began}
            print(f"started after it was {how}: {starts[how]}", file=sys.stderr)
        await asyncio.sleep(10)
        again = _memory(broker.child.pid)
        async with connect(cluster) as client:
            began = time.monotonic()
            await ask(client, "topic.describe", topic=topic_names(topics)[-1])
            described = time.monotonic() - began
        return {
            "topics": topics,
            "made": made,
            "memory_empty": empty,
            "memory_full": full,
            "memory_after_restart": again,
            "memory_per_topic": (full - empty) / topics,
            "memory_per_topic_after_restart": (again - empty) / topics,
            "start": starts,
            "one_described": described,
        }


def _memory(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


async def _all_open(cluster: LocalCluster, topics: int) -> None:
    while await open_topics(cluster, BROKER) < topics:
        await asyncio.sleep(2.0)  # collecting the metrics of many topics takes time
