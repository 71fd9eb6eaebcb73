"""A closed loop: many producers, each on a topic of its own, with one record in flight each."""

from __future__ import annotations

import asyncio
import os
import time
from array import array
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.cell import Cell, LoopReport, SharedCounters

AT_ONCE = 50
Sender = Callable[[bytes], Awaitable[object]]
"""Sends one record to its topic and returns when the record is acknowledged."""


async def some_at_once(make: Callable[[int], Awaitable[Sender]], count: int) -> list[Sender]:
    """``make(0)`` to ``make(count - 1)``, a limited number of them at a time, in order."""
    made: list[Sender] = []
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        made += await asyncio.gather(*(make(number) for number in numbers))
    return made


async def prime(cell: Cell, senders: Sequence[Sender]) -> None:
    """Send one record to each topic, a limited number at a time: the first one opens its files."""
    payload = os.urandom(cell.size)
    for first in range(0, len(senders), AT_ONCE):
        await asyncio.gather(*(send(payload) for send in senders[first : first + AT_ONCE]))


async def run_loops(
    cell: Cell,
    senders: Sequence[Sender],
    shared: SharedCounters,
    clock: Callable[[], int] = time.monotonic_ns,
) -> LoopReport:
    """Send with all ``senders`` until the cell is over; the warm-up is not part of the report.

    ``clock`` tells nanoseconds. The first error of a sender ends all of them and is raised.
    """
    payload = os.urandom(cell.size)
    begun = clock()
    warm = begun + int(cell.warm_up * 1e9)
    end = warm + int(cell.seconds * 1e9)
    latencies = array("q")
    acknowledged = counted = 0
    cpu = 0.0

    async def loop(send: Sender) -> None:
        nonlocal acknowledged, counted, cpu
        while (sent := clock()) < end:
            await send(payload)
            now = clock()
            acknowledged += 1
            if now < warm:
                continue
            if not shared.measuring:
                shared.start_measuring()
                cpu = time.process_time()
            # A send that outlasts the cell counts for the latency, but not for the rate.
            latencies.append(now - sent)
            counted += now <= end
            if acknowledged % 1000 == 0:
                shared.received = acknowledged

    async with asyncio.TaskGroup() as running:
        for send in senders:
            running.create_task(loop(send))
    used = time.process_time() - cpu
    if not counted:
        raise RuntimeError(f"no record was acknowledged within {cell.seconds:g} s")
    return LoopReport(counted, latencies.tobytes(), used)
