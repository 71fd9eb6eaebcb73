"""The machine alone: baselines of disk and processors, taken before and after every cell.

Targets refer to them, and cells during which the machine was slower than usual are marked. The disk
is measured with preallocated files on the file system of the servers' data, like a journal, so that
a sync does not include growing the file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.cell import MIB
from benchmarks.stats import Percentiles, summarize

SYNC_SIZE = 4096


@dataclass(frozen=True, slots=True)
class YardstickReading:
    """One measurement of all baselines."""

    sequential_mb_per_s: float
    sync_ms: list[float]
    sync_per_s: float
    hash_mb_per_s: float
    """SHA-256 on all cores at once."""
    load: float
    """The load average of the last minute, which includes the cell before."""
    write_ns: float = 0.0
    """CPU nanoseconds per byte of the sequential write."""


@dataclass(frozen=True, slots=True)
class Yardsticks:
    """Combined readings from before and after the cells, because disks change under load."""

    sequential_mb_per_s: float
    """Sequential write with one fdatasync per MiB."""
    sync: Percentiles
    """Milliseconds for a 4 KiB write and its fdatasync, issued at the fixed rate."""
    sync_per_s: float
    """The rate reached: one caller cannot exceed the disk's sync rate."""
    hash_mb_per_s: float = 0.0
    """SHA-256 on all cores at once."""
    slowest: tuple[float, float] = (0.0, 0.0)
    """The lowest sequential write and the lowest hash rate of all readings."""
    write_ns: float = 0.0
    """CPU nanoseconds per byte of the sequential write: what every journal pays. Much of it is the
    first use of memory, which is expensive where a host lends it."""


def join(readings: Sequence[YardstickReading]) -> Yardsticks:
    """The medians of the rates, and the percentiles of all samples together."""
    disk = [reading.sequential_mb_per_s for reading in readings]
    hashed = [reading.hash_mb_per_s for reading in readings]
    return Yardsticks(
        median(disk),
        summarize([sample for reading in readings for sample in reading.sync_ms]),
        median(reading.sync_per_s for reading in readings),
        median(hashed),
        (min(disk), min(hashed)),
        median(reading.write_ns for reading in readings),
    )


def take(folder: Path, seconds: float, rate: int, max_bytes: int) -> YardstickReading:
    """Measure in ``folder`` and delete the files. Blocks for about ``seconds``."""
    load = os.getloadavg()[0]
    sequential, write_ns = sequential_write(folder / "sequential", seconds * 0.4, max_bytes)
    samples, per_s = paced_sync(folder / "sync", seconds * 0.4, rate)
    return YardstickReading(sequential, samples, per_s, hashing(seconds * 0.2), load, write_ns)


def sequential_write(path: Path, seconds: float, max_bytes: int) -> tuple[float, float]:
    """MB/s (10^6 bytes) of sequential writes with an fdatasync after each MiB, and their CPU
    nanoseconds per byte."""
    room = min(max_bytes, shutil.disk_usage(path.parent).free // 2)
    length = max(room // MIB, 1) * MIB
    block = os.urandom(MIB)
    with _preallocated(path, length) as file:
        begun, used = time.perf_counter(), time.thread_time_ns()
        deadline = begun + seconds
        position = 0
        while position < length and time.perf_counter() < deadline:
            os.pwrite(file, block, position)
            os.fdatasync(file)
            position += MIB
        used = time.thread_time_ns() - used
        return position / (time.perf_counter() - begun) / 1e6, used / max(position, 1)


def paced_sync(path: Path, seconds: float, rate: int) -> tuple[list[float], float]:
    """Milliseconds of each 4 KiB write with its fdatasync, and the writes per second reached.

    One write starts every 1/``rate`` seconds, or when the previous one is done if that is later;
    each is timed from its own start.
    """
    block = os.urandom(SYNC_SIZE)
    count = max(int(rate * seconds), 1)
    samples: list[float] = []
    with _preallocated(path, count * SYNC_SIZE) as file:
        begun = time.perf_counter()
        for number in range(count):
            early = begun + number / rate - time.perf_counter()
            if early > 0:
                time.sleep(early)
            start = time.perf_counter()
            if start - begun > seconds and samples:
                break
            os.pwrite(file, block, number * SYNC_SIZE)
            os.fdatasync(file)
            samples.append(round((time.perf_counter() - start) * 1e3, 4))
        return samples, len(samples) / (time.perf_counter() - begun)


def hashing(seconds: float) -> float:
    """MB/s of SHA-256 with one thread per core: what the processors give to this process."""
    block = bytes(MIB)
    deadline = time.perf_counter() + seconds
    done = [0] * len(os.sched_getaffinity(0))

    def work(place: int) -> None:
        while time.perf_counter() < deadline:
            hashlib.sha256(block)  # releases the interpreter lock
            done[place] += 1

    begun = time.perf_counter()
    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(done))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) * MIB / (time.perf_counter() - begun) / 1e6


@contextmanager
def _preallocated(path: Path, length: int) -> Iterator[int]:
    file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        os.posix_fallocate(file, 0, length)
        os.fsync(file)
        yield file
    finally:
        os.close(file)
        path.unlink()
