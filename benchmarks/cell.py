"""The values of a measurement: a cell and its result.

A cell is one system, one record size, and one load: full speed, a fixed rate, or many producers
that each wait for an acknowledgement before they send again (a closed loop).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import RawArray
from typing import Literal

from benchmarks.stats import Percentiles

MIB = 1 << 20
Load = Literal["throughput", "latency", "loop"]


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
    loops: int = 0
    """The number of producers of a closed loop, each with a topic of its own; 0: no loop."""
    warm_up: float = 0.0
    """Seconds of the same load before the measurement starts."""

    @property
    def load(self) -> Load:
        """The kind of load."""
        return "loop" if self.loops else "throughput" if self.rate is None else "latency"

    @property
    def key(self) -> str:
        """The cell in the name of a file."""
        return f"{self.system}-{self.load}-{self.size}"

    @property
    def stamped_every(self) -> int:
        """The distance between records whose sequence number is checked: 1 at a fixed rate."""
        return 1 if self.rate is not None else self.batch


class SharedCounters:
    """Numbers in shared memory, each with one writer and read without a lock."""

    def __init__(self) -> None:
        self._words = RawArray(ctypes.c_int64, [-1, 0, 0])

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

    @property
    def measuring(self) -> bool:
        """Whether the warm-up is over."""
        return bool(self._words[2])

    def start_measuring(self) -> None:
        """End the warm-up."""
        self._words[2] = 1


@dataclass(frozen=True, slots=True)
class ProducerReport:
    """What the producer measured. Times are CLOCK_MONOTONIC, in nanoseconds."""

    sent: int
    """Records sent, including the warm-up's."""
    warm_sent: int
    """Records sent until the measurement started."""
    warm_received: int
    """Records that the consumer had received when the measurement started."""
    begun_ns: int
    """When the measurement started."""
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
class LoopReport:
    """What the producers of a closed loop measured, after the warm-up."""

    acknowledged: int
    """Records acknowledged during the seconds of the cell."""
    latencies_ns: bytes
    """int64 in native order; also of records that were acknowledged after the cell's end."""
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """CPU time used between the end of the warm-up and the end of a cell."""

    server: float
    producer: float
    consumer: float
    server_parts: dict[str, float] = field(default_factory=dict)
    """CPU time per server process, by name; children are counted with their parent."""
    foreign: float = 0.0
    """Cores used, on average, by everything else on the machine: other programs, kernel threads,
    and what the hypervisor gave to other machines."""


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
    """Records received (in a closed loop: acknowledged) in ``elapsed``."""
    elapsed: float
    peak_memory: int
    """Peak resident memory of the server and all its children, in bytes."""
    cpu: CpuSeconds
    misplaced: int
    latency: Percentiles | None
    """Milliseconds from when a record was due to its arrival, in a closed loop from a send to its
    acknowledgement; None at full speed."""
    client_memory: int = 0
    """Peak resident memory of the producer's and the consumer's process, in bytes."""
    spread: Spread | None = None
    """Set on the median result of all repetitions."""

    @property
    def records_per_s(self) -> float:
        """Records end to end: sent, acknowledged and received."""
        return self.records / self.elapsed

    @property
    def measure(self) -> float:
        """The cell's measure: records per second, or the p99 at a fixed rate."""
        if self.cell.load == "latency" and self.latency is not None:
            return self.latency.p99
        return self.records_per_s

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
