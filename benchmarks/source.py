"""The producer's side of a cell: which records to send, and when.

Payloads are random bytes, so that compression does not help. The first 16 bytes of a checked record
are its time and sequence number. At full speed, only the first and last record of each batch are
checked, because at a million records per second the stamping itself would be measured.

At a fixed rate, records are due in ticks of one millisecond, and a record's time is when it was
due, not when the client accepted it: delays by the client count.
"""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from benchmarks.cell import Cell, ProducerReport, SharedCounters

STAMP = struct.Struct("<qq")  # CLOCK_MONOTONIC in ns, sequence number
TICK_NS = 1_000_000
LATE_FACTOR = 2  # a system that cannot keep the rate gets this many times the duration,
LATE_SECONDS = 5  # or so many seconds more


class RecordSource:
    """Provides a driver's batches, and notes when the first was sent and the last acknowledged.

    A driver connects, awaits :meth:`ready`, iterates over the source and sends each batch, waits
    for every acknowledgement, and then calls :meth:`acknowledged`, before it disconnects.
    """

    def __init__(
        self, cell: Cell, shared: SharedCounters, ready: Callable[[], Awaitable[None]]
    ) -> None:
        self.cell = cell
        self._shared = shared
        self._ready = ready
        self._filler = os.urandom(cell.size - STAMP.size)
        self._sent = 0
        self._warm_sent = 0
        self._warm_received = 0
        self._begun_ns = 0
        self._last_ack_ns = 0
        self._cpu = 0.0

    async def ready(self) -> None:
        """Report that the producer is connected, and wait for the start signal."""
        await self._ready()
        self._start_measuring()

    def acknowledged(self) -> None:
        """To be called when everything sent has been acknowledged as durable."""
        self._last_ack_ns = time.monotonic_ns()
        self._cpu = time.process_time() - self._cpu

    def report(self) -> ProducerReport:
        """The report, after :meth:`acknowledged`."""
        if not self._last_ack_ns:
            raise RuntimeError("the driver returned without calling acknowledged()")
        return ProducerReport(
            self._sent,
            self._warm_sent,
            self._warm_received,
            self._begun_ns,
            self._last_ack_ns,
            self._cpu,
        )

    def _start_measuring(self) -> None:
        """Start the measurement, or start it again after the warm-up."""
        self._warm_sent = self._sent
        self._warm_received = self._shared.received
        self._begun_ns = time.monotonic_ns()
        self._cpu = time.process_time()

    def __aiter__(self) -> AsyncIterator[list[bytes]]:
        return self._full_speed() if self.cell.rate is None else self._paced(self.cell.rate)

    async def _full_speed(self) -> AsyncIterator[list[bytes]]:
        cell = self.cell
        pool = [os.urandom(cell.size) for _ in range(cell.batch)]
        limit = max(cell.max_bytes // cell.size, cell.batch)
        warm = self._begun_ns + int(cell.warm_up * 1e9)
        deadline, most = warm + int(cell.seconds * 1e9), limit
        warming = True
        last = False
        while not last:
            now = time.monotonic_ns()
            if warming and (now >= warm or self._sent + cell.batch >= limit):
                warming = False
                self._start_measuring()
                self._shared.start_measuring()
                deadline, most = now + int(cell.seconds * 1e9), self._sent + limit
            # The consumer must know the total before the last record reaches it: it is fixed
            # here, one batch ahead.
            last = now >= deadline or self._sent + cell.batch >= most
            if last:
                self._shared.total = self._sent + cell.batch
            batch = pool.copy()
            batch[0] = self._stamped(now, self._sent)
            batch[-1] = self._stamped(now, self._sent + cell.batch - 1)
            self._sent += cell.batch
            yield batch

    async def _paced(self, rate: int) -> AsyncIterator[list[bytes]]:
        cell = self.cell
        seconds = cell.warm_up + cell.seconds
        total = max(int(rate * seconds), 1)
        give_up = self._begun_ns + int(max(seconds * LATE_FACTOR, seconds + LATE_SECONDS) * 1e9)
        warming = True
        self._shared.total = total
        async with _Ticks() as ticks:
            # The first tick after the start is time zero.
            start = time.monotonic_ns()
            while self._sent < total:
                now = time.monotonic_ns()
                due = min(1 + (now - start) // TICK_NS * rate * TICK_NS // 10**9, total)
                if warming and now - start >= cell.warm_up * 1e9:
                    warming = False
                    self._start_measuring()
                    self._shared.start_measuring()
                if due <= self._sent:
                    await ticks.next()
                    continue
                due = min(due, self._sent + cell.batch)
                if now >= give_up:
                    total = self._shared.total = due
                batch = [
                    self._stamped(start + _tick_of(number, rate) * TICK_NS, number)
                    for number in range(self._sent, due)
                ]
                self._sent = due
                yield batch

    def _stamped(self, when_ns: int, number: int) -> bytes:
        return STAMP.pack(when_ns, number) + self._filler


def _tick_of(number: int, rate: int) -> int:
    """The first tick at which record ``number`` is due: the inverse of what _paced computes."""
    per_tick = rate * TICK_NS
    return -(-number * 10**9 // per_tick)


class _Ticks:
    """Wakes its waiter every millisecond.

    asyncio rounds its timers to whole milliseconds, which would affect every percentile; the
    kernel's interval timer does not, and its signal wakes the event loop immediately.
    """

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    async def __aenter__(self) -> _Ticks:
        asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, self._woken.set)
        signal.setitimer(signal.ITIMER_REAL, TICK_NS / 1e9, TICK_NS / 1e9)
        return self

    async def __aexit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        asyncio.get_running_loop().remove_signal_handler(signal.SIGALRM)

    async def next(self) -> None:
        self._woken.clear()
        await self._woken.wait()
