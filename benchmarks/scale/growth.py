"""Cost per record and per unit as topics, producers, sizes and history grow."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import sulina
from benchmarks.cell import Cell, CellFailure
from benchmarks.cluster.processes import each
from benchmarks.conduct import run_cell
from benchmarks.program import data_folder
from benchmarks.scale.server import ScaledServer, acked, loop_for, scaled_server
from benchmarks.stats import percentile
from benchmarks.systems import OURS, SYSTEMS
from sulina import Producer

IN_FLIGHT = 64
RECORD = 1024
CHUNK = 1 << 20
GB = 10**9


async def topics(count: int, seconds: float, out: Path) -> dict[str, Any]:
    """``count`` topics with a producer each; always 64 records of 1 KiB in flight together."""
    return await _loops(count, count, IN_FLIGHT, seconds, out)


async def producers(count: int, seconds: float, out: Path) -> dict[str, Any]:
    """``count`` producers on one topic, with one record of 1 KiB in flight each."""
    return await _loops(count, 1, count, seconds, out)


async def _loops(
    count: int, topic_count: int, in_flight: int, seconds: float, out: Path
) -> dict[str, Any]:
    payload = os.urandom(RECORD)
    with scaled_server(out) as server:
        await server.lift_quotas()
        empty = server.memory()
        async with server.connect() as client, AsyncExitStack() as stack:
            opened: list[Producer] = []

            async def open_one(number: int) -> None:
                topic = f"/default/scale-{number % topic_count}"
                producer = await stack.enter_async_context(client.producer(topic, linger_ms=0))
                await acked(producer, payload)
                opened.append(producer)

            began = time.monotonic()
            await each(range(count), open_one)
            ready = time.monotonic() - began
            await loop_for(min(seconds, 2.0), opened, in_flight, payload)
            memory = server.memory()
            cpu, own = server.cpu(), time.process_time()
            samples = sorted(await loop_for(seconds, opened, in_flight, payload))
            cpu, own = server.cpu() - cpu, time.process_time() - own
            return {
                "units": count,
                "opened_seconds": ready,
                "records_per_s": len(samples) / seconds,
                "p50_ms": percentile(samples, 0.5) * 1e3,
                "p99_ms": percentile(samples, 0.99) * 1e3,
                "server_cpu_us_per_record": cpu * 1e6 / len(samples),
                "client_cpu_us_per_record": own * 1e6 / len(samples),
                "memory": memory,
                "memory_per_unit": (memory - empty) / count,
            }


async def sizes(size: int, seconds: float, out: Path) -> dict[str, Any]:
    """One producer and one consumer at full speed with records of ``size`` bytes."""
    system = SYSTEMS[OURS]
    cell = Cell(OURS, size, system.batch(size), seconds, 2 << 30, warm_up=min(seconds, 2.0))
    with data_folder(out / "data", "scale") as folder:
        outcome = await asyncio.to_thread(
            run_cell, system, cell, folder / "cell", lambda _elapsed, _received: None
        )
    if isinstance(outcome, CellFailure):
        raise RuntimeError(outcome.reason)
    copied = outcome.records * size
    return {
        "units": size,
        "records_per_s": outcome.records_per_s,
        "mb_per_s": outcome.mb_per_s,
        "server_cpu_ns_per_byte": outcome.cpu.server * 1e9 / copied,
        "client_cpu_ns_per_byte": (outcome.cpu.producer + outcome.cpu.consumer) * 1e9 / copied,
        "memory": outcome.peak_memory,
    }


async def history(gigabytes: list[float], seconds: float, out: Path) -> list[dict[str, Any]]:
    """One topic that grows: cost of publishing, memory and the time to start, at each amount."""
    points: list[dict[str, Any]] = []
    with scaled_server(out) as server:
        written = 0
        for target in gigabytes:
            room = shutil.disk_usage(out).free
            if target * GB - written > room - 10 * GB:
                print(f"{target:g} GB are left out: the disk has {room / GB:.0f} GB free")
                break
            written = await _write_until(server, int(target * GB), written)
            points.append(await _history_point(server, written, seconds))
    return points


async def _write_until(server: ScaledServer, target: int, written: int) -> int:
    block = [os.urandom(RECORD) for _ in range(CHUNK // RECORD)]
    async with (
        server.connect() as client,
        client.producer("/default/history", delivery=sulina.Delivery.RELIABLE) as producer,
    ):
        while written < target:
            await producer.send_many(block)
            written += CHUNK
        await producer.flush()
    return written


async def _history_point(server: ScaledServer, written: int, seconds: float) -> dict[str, Any]:
    payload = os.urandom(RECORD)
    memory = server.memory()
    async with server.connect() as client, client.producer("/default/history") as producer:
        cpu = server.cpu()
        samples = sorted(await loop_for(seconds, [producer], IN_FLIGHT, payload))
        cpu = server.cpu() - cpu
    listening = server.restart()
    began = time.monotonic()
    async with server.connect() as client, client.producer("/default/history") as producer:
        await acked(producer, payload)
        served = time.monotonic() - began
        subscription = f"s-{written}"
        start = sulina.Start.earliest()
        began = time.monotonic()
        async with client.consumer("/default/history", subscription, start=start) as consumer:
            async for _ in consumer.batches():
                break
        first = time.monotonic() - began
    return {
        "units": written / GB,
        "records_per_s": len(samples) / seconds,
        "p99_ms": percentile(samples, 0.99) * 1e3,
        "server_cpu_us_per_record": cpu * 1e6 / len(samples),
        "memory": memory,
        "memory_after_restart": server.memory(),
        "listening_after_kill": listening,
        "served_after_listening": served,
        "first_batch_from_the_start": first,
    }
