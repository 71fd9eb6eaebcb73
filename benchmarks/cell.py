"""The values of a measurement: what one cell is asked to do, and what came back.

A cell is one system, one record size, and either full speed or a fixed rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.stats import Percentiles

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement to take."""

    system: str
    size: int
    batch: int
    """Records that the producer hands to the client at a time (full speed)."""
    seconds: float
    """How long the producer sends; the consumer then drains what is left."""
    max_bytes: int
    """The producer also stops after this much payload, to bound disk and memory."""
    rate: int | None = None
    """Records a second, or None for as fast as the client takes them."""

    @property
    def stamped_every(self) -> int:
        """Records between two whose sequence number is checked: every one at a fixed rate."""
        return 1 if self.rate is not None else self.batch


@dataclass(frozen=True, slots=True)
class ProducerReport:
    """What the producing process saw. Times are CLOCK_MONOTONIC, in nanoseconds."""

    sent: int
    first_send_ns: int
    last_ack_ns: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class ConsumerReport:
    """What the consuming process saw. Times are CLOCK_MONOTONIC, in nanoseconds."""

    received: int
    last_receive_ns: int
    misplaced: int
    """Checked records that were not the ones expected at their place."""
    latencies_ns: bytes
    """int64 in native order, one a record; empty at full speed."""
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """Processor time used between the start signal and the end of a cell."""

    server: float
    producer: float
    consumer: float
    server_parts: dict[str, float] = field(default_factory=dict)
    """Of each process of the server, by its name; children are counted with their parent."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How far apart the repetitions of a cell were, in the measure that the cell is about."""

    runs: int
    failed: int
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class CellResult:
    """A cell that ran to its end."""

    cell: Cell
    records: int
    elapsed: float
    peak_memory: int
    """Bytes resident in the server and all its children, at most."""
    cpu: CpuSeconds
    misplaced: int
    latency: Percentiles | None
    """Milliseconds from the moment a record was due to its arrival; None at full speed."""
    spread: Spread | None = None
    """Set on the one that stands for all repetitions."""

    @property
    def records_per_s(self) -> float:
        """Records end to end: sent, acknowledged and received."""
        return self.records / self.elapsed

    @property
    def measure(self) -> float:
        """What the cell is about: records a second, or the p99 at a fixed rate."""
        return self.records_per_s if self.latency is None else self.latency.p99

    @property
    def mb_per_s(self) -> float:
        """Payload, in units of 10^6 bytes."""
        return self.records_per_s * self.cell.size / 1e6


@dataclass(frozen=True, slots=True)
class CellFailure:
    """A cell that did not run to its end, and why."""

    cell: Cell
    reason: str


CellOutcome = CellResult | CellFailure
