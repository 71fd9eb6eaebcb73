"""Metrics of a server's process and of its machine; read at each collection."""

from __future__ import annotations

from pathlib import Path

import psutil

from sulina.metrics.exposition import Exposition, Write
from sulina.metrics.histogram import SECONDS, Histogram
from sulina.runtime.machine_watch import MachineWatch
from sulina.runtime.seam import Clock

_EVERY_SECONDS = 0.25


class ProcessMetrics:
    """Reads process statistics from the operating system at each collection."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    def write(self, text: Exposition) -> None:
        with self._process.oneshot():
            times = self._process.cpu_times()
            memory = self._process.memory_info()
            files = self._process.num_fds()
            threads = self._process.num_threads()
            started = self._process.create_time()
        text.counter(
            "process_cpu_seconds_total",
            "CPU time in seconds, user and system.",
            round(times.user + times.system, 3),
        )
        text.gauge("process_resident_memory_bytes", "Resident memory.", memory.rss)
        text.gauge("process_virtual_memory_bytes", "Virtual memory.", memory.vms)
        text.gauge("process_open_fds", "Open file descriptors.", files)
        text.gauge("process_threads", "Threads.", threads)
        text.gauge("process_start_time_seconds", "Start time (Unix seconds).", started)


class LoopLag:
    """Measures how late the event loop wakes a sleeping task."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seen = Histogram(SECONDS)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            wanted = self._clock.now() + _EVERY_SECONDS
            await self._clock.sleep(_EVERY_SECONDS)
            self.seen.add(max(self._clock.now() - wanted, 0.0))


def of_disk(folder: Path) -> Write:
    """The file system of a server's data."""

    def write(text: Exposition) -> None:
        space = psutil.disk_usage(str(folder))
        text.gauge("sulina_disk_free_bytes", "Free space for the data of this server.", space.free)
        text.gauge("sulina_disk_bytes", "Size of the file system of its data.", space.total)

    return write


def of_machine(watch: MachineWatch, clock: Clock) -> Write:
    """What the machine lacks: file descriptors, a steady clock, valid certificates."""

    def write(text: Exposition) -> None:
        text.gauge("process_max_fds", "File descriptors allowed.", watch.descriptors.limit)
        text.gauge(
            "sulina_descriptors_scarce",
            "1 while so few file descriptors are free that new connections are refused.",
            int(watch.descriptors.scarce),
        )
        text.counter(
            "sulina_clock_jumps_total",
            "How often the wall clock moved a second more or less than the monotonic clock.",
            watch.clock_jumps,
        )
        text.gauge(
            "sulina_clock_last_jump_seconds",
            "The last jump of the wall clock, negative if it went back.",
            watch.last_jump_seconds,
        )
        now = clock.wall_us() / 1e6
        text.gauge(
            "sulina_certificate_expires_seconds",
            "Seconds until each certificate of this process expires, negative afterwards.",
            (({"file": file.name}, round(at - now)) for file, at in watch.expires.items()),
        )

    return write
