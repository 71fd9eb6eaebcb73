"""Many idle connections, each with its own topic; kill -9 and the return of all; lookup storms."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psutil

from benchmarks.cluster.processes import each
from benchmarks.scale.server import acked, scaled_server
from benchmarks.stats import summarize
from sulina import Producer
from sulina.cli.running import loop_factory

ACTIVE = 100  # one of so many connections sends
RATE = 1000
STORM_CLIENTS = 8
STORM_IN_FLIGHT = 64


async def connections(count: int, seconds: float, out: Path) -> dict[str, Any]:
    """``count`` clients with a connection and a topic each: idle, 1 % active, and after kill -9."""
    with scaled_server(out) as server:
        await server.lift_quotas()
        empty, own_empty = server.memory(), _own_memory()
        async with AsyncExitStack() as stack:
            producers: list[Producer] = []

            async def open_one(number: int) -> None:
                client = await stack.enter_async_context(server.connect())
                topic = f"/default/idle-{number}"
                producer = await stack.enter_async_context(
                    client.producer(topic, send_timeout=600.0)
                )
                await acked(producer, b"first")
                producers.append(producer)

            began = time.monotonic()
            await each(range(count), open_one)
            opened = time.monotonic() - began
            gc.collect()
            gc.freeze()
            await asyncio.sleep(5)
            memory = server.memory()
            own = _own_memory()
            cpu = server.cpu()
            await asyncio.sleep(seconds)
            idle = (server.cpu() - cpu) / seconds
            cpu = server.cpu()
            sent = await _trickle(producers[::ACTIVE], seconds)
            active = (server.cpu() - cpu) / seconds
            killed = time.monotonic()
            listening = await asyncio.to_thread(server.restart)
            back: list[float] = []

            async def return_one(producer: Producer) -> None:
                await acked(producer, b"again")
                back.append(time.monotonic() - killed)

            async with asyncio.TaskGroup() as returning:
                for producer in producers:
                    returning.create_task(return_one(producer))
            back.sort()
            return {
                "connections": count,
                "opened_seconds": opened,
                "memory_per_connection": (memory - empty) / count,
                "memory_per_client": (own - own_empty) / count,
                "memory": memory,
                "idle_cores": idle,
                "active": len(producers[::ACTIVE]),
                "active_sends_per_s": sent / seconds,
                "active_cores": active,
                "listening_after_kill": listening,
                "half_back": back[len(back) // 2],
                "all_back": back[-1],
            }


async def _trickle(producers: list[Producer], seconds: float) -> int:
    """Each producer sends a record per second; returns how many were acknowledged."""
    sent = 0

    async def send(place: int, producer: Producer) -> None:
        nonlocal sent
        end = time.monotonic() + seconds
        await asyncio.sleep(place / len(producers))
        while time.monotonic() < end:
            await acked(producer, bytes(100))
            sent += 1
            await asyncio.sleep(1.0)

    async with asyncio.TaskGroup() as sending:
        for place, producer in enumerate(producers):
            sending.create_task(send(place, producer))
    return sent


def _own_memory() -> int:
    return int(psutil.Process().memory_info().rss)


async def lookups(seconds: float, out: Path) -> dict[str, Any]:
    """Publish latency at 1,000 records/s, alone and beside lookups as fast as they are answered."""
    with scaled_server(out) as server:
        async with server.connect() as client, client.producer("/default/beside") as producer:
            await _paced(producer, min(seconds, 2.0))
            alone = await _paced(producer, seconds)
            context = multiprocessing.get_context("spawn")
            asked = context.Value("q", 0)
            storm = context.Process(target=_storm, args=(server.url, asked), daemon=True)
            storm.start()
            try:
                while asked.value == 0:
                    await asyncio.sleep(0.05)
                before = asked.value
                beside = await _paced(producer, seconds)
                answered = (asked.value - before) / seconds
            finally:
                storm.kill()
                storm.join(10)
    return {
        "rate": RATE,
        "alone_ms": alone,
        "beside_ms": beside,
        "lookups_per_s": answered,
    }


async def _paced(producer: Producer, seconds: float) -> dict[str, float]:
    samples: list[float] = []
    payload = os.urandom(1024)

    async def one(due: float) -> None:
        await acked(producer, payload)
        samples.append((time.monotonic() - due) * 1e3)

    begun = time.monotonic()
    async with asyncio.TaskGroup() as sending:
        for number in range(int(RATE * seconds)):
            due = begun + number / RATE
            if (early := due - time.monotonic()) > 0:
                await asyncio.sleep(early)
            sending.create_task(one(due))
    found = summarize(samples)
    return {"p50": found.p50, "p99": found.p99, "p99.9": found.p999}


def _storm(url: str, asked: Any) -> None:
    """Ask for topics without a pause, from several connections, until killed."""

    async def run() -> None:
        import sulina

        async def client() -> None:
            async with sulina.connect(url) as connected:

                async def ask() -> None:
                    while True:
                        await connected.admin("topic.lookup", {"topic": "/default/beside"})
                        asked.value += 1

                await asyncio.gather(*(ask() for _ in range(STORM_IN_FLIGHT)))

        await asyncio.gather(*(client() for _ in range(STORM_CLIENTS)))

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(run())
