"""The consumer's side of a cell: counts and checks records, and measures latencies."""

from __future__ import annotations

import time
from array import array
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.cell import Cell, ConsumerReport, SharedCounters
from benchmarks.source import STAMP


class RecordSink:
    """Takes every record that a driver receives, in order.

    A driver subscribes, awaits :meth:`ready`, and then passes received records until ``done``.
    """

    def __init__(
        self, cell: Cell, shared: SharedCounters, ready: Callable[[], Awaitable[None]]
    ) -> None:
        self.cell = cell
        self.done = False
        self._shared = shared
        self._ready = ready
        self._every = cell.stamped_every
        self._received = 0
        self._misplaced = 0
        self._last_receive_ns = 0
        self._latencies = array("q")
        self._cpu = 0.0
        self._warm = False

    async def ready(self) -> None:
        """Report that the consumer is subscribed, and wait for the start signal."""
        await self._ready()
        self._cpu = time.process_time()

    def take(self, payloads: Sequence[bytes]) -> None:
        """Take records received together; sets ``done`` with the last one of the cell."""
        now = time.monotonic_ns()
        if self.cell.rate is None:
            self._check(payloads)
        else:
            for payload in payloads:
                sent_ns, number = STAMP.unpack_from(payload)
                self._misplaced += number != self._received
                self._latencies.append(now - sent_ns)
                self._received += 1
        self._advance(now)

    def take_one(self, payload: bytes) -> None:
        """Take one record, like ``take([payload])``, for clients that deliver them singly."""
        place = self._received % self._every
        # Between the ends of a batch there is nothing to check, and no cell ends there.
        if 0 < place < self._every - 1:
            self._received += 1
        else:
            self.take((payload,))

    def _check(self, payloads: Sequence[bytes]) -> None:
        every, first = self._every, self._received
        # Checked records are at both ends of the producer's batches, wherever the system
        # cut its own.
        for end in (0, every - 1):
            for place in range((end - first) % every, len(payloads), every):
                if STAMP.unpack_from(payloads[place])[1] != first + place:
                    self._misplaced += 1
        self._received += len(payloads)

    def _advance(self, now: int) -> None:
        self._shared.received = self._received
        if not self._warm and self._shared.measuring:
            self._warm = True
            self._cpu = time.process_time()
        total = self._shared.total
        if 0 <= total <= self._received and not self.done:
            self.done = True
            self._last_receive_ns = now
            self._cpu = time.process_time() - self._cpu

    def report(self) -> ConsumerReport:
        """The report, once ``done``."""
        if not self.done:
            raise RuntimeError("the driver returned before the last record arrived")
        return ConsumerReport(
            self._received,
            self._last_receive_ns,
            self._misplaced,
            self._latencies.tobytes(),
            self._cpu,
        )
