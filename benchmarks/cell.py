"""The values of a measurement: a cell and its result.

A cell is one system, one record size, and either full speed or a fixed rate.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import RawArray

from benchmarks.stats import Percentiles

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement to take."""

    system: str
    size: int
    batch: int
    """How many records the producer passes to the client at once (full speed)."""
    seconds: float
    """How long the producer sends; the consumer then receives the rest."""
    max_bytes: int
    """The producer also stops after this much payload, to limit disk and memory use."""
    rate: int | None = None
    """Records per second, or None for full speed."""

    @property
    def stamped_every(self) -> int:
        """The distance between records whose sequence number is checked: 1 at a fixed rate."""
        return 1 if self.rate is not None else self.batch


class SharedCounters:
    """Two counters in shared memory, each with one writer and read without a lock."""

    def __init__(self) -> None:
        self._words = RawArray(ctypes.c_int64, [-1, 0])

    @property
    def total(self) -> int:
        """The number of records of the cell; -1 until the producer has set it."""
        return self._words[0]

    @total.setter
    def total(self, count: int) -> None:
        self._words[0] = count

    @property
    def received(self) -> int:
        """The number of records received."""
        return self._words[1]

    @received.setter
    def received(self, count: int) -> None:
        self._words[1] = count


@dataclass(frozen=True, slots=True)
class ProducerReport:
    """What the producer measured. Times are CLOCK_MONOTONIC, in nanoseconds."""

    sent: int
    first_send_ns: int
    last_ack_ns: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class ConsumerReport:
    """What the consumer measured. Times are CLOCK_MONOTONIC, in nanoseconds."""

    received: int
    last_receive_ns: int
    misplaced: int
    """The number of checked records that were not the expected ones."""
    latencies_ns: bytes
    """int64 in native order, one per record; empty at full speed."""
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """CPU time used between the start signal and the end of a cell."""

    server: float
    producer: float
    consumer: float
    server_parts: dict[str, float] = field(default_factory=dict)
    """CPU time per server process, by name; children are counted with their parent."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The range of a cell's measure over its repetitions."""

    runs: int
    failed: int
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class CellResult:
    """A cell that completed."""

    cell: Cell
    records: int
    elapsed: float
    peak_memory: int
    """Peak resident memory of the server and all its children, in bytes."""
    cpu: CpuSeconds
    misplaced: int
    latency: Percentiles | None
    """Milliseconds from when a record was due to its arrival; None at full speed."""
    spread: Spread | None = None
    """Set on the median result of all repetitions."""

    @property
    def records_per_s(self) -> float:
        """Records end to end: sent, acknowledged and received."""
        return self.records / self.elapsed

    @property
    def measure(self) -> float:
        """The cell's measure: records per second, or the p99 at a fixed rate."""
        return self.records_per_s if self.latency is None else self.latency.p99

    @property
    def mb_per_s(self) -> float:
        """Payload in MB (10^6 bytes) per second."""
        return self.records_per_s * self.cell.size / 1e6


@dataclass(frozen=True, slots=True)
class CellFailure:
    """A cell that failed, and why."""

    cell: Cell
    reason: str


CellOutcome = CellResult | CellFailure
