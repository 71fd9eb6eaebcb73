"""The broker's process, under the names that exporters share, and how late its event loop is."""

from __future__ import annotations

import psutil

from broker_containers.metrics.exposition import Exposition, MetricType
from broker_containers.metrics.histogram import LAG_SECONDS, Histogram
from sulina.runtime.seam import Clock

_EVERY_SECONDS = 0.25


class ProcessMetrics:
    """Reads them from the system at each collection."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    def write(self, text: Exposition) -> None:
        with self._process.oneshot():
            times = self._process.cpu_times()
            memory = self._process.memory_info()
            files = self._process.num_fds()
            threads = self._process.num_threads()
            started = self._process.create_time()
        text.one(
            "process_cpu_seconds_total",
            MetricType.COUNTER,
            "CPU time used, user and system.",
            round(times.user + times.system, 3),
        )
        text.one(
            "process_resident_memory_bytes", MetricType.GAUGE, "Memory in use (RSS).", memory.rss
        )
        text.one(
            "process_virtual_memory_bytes", MetricType.GAUGE, "Address space in use.", memory.vms
        )
        text.one("process_open_fds", MetricType.GAUGE, "Open files and sockets.", files)
        text.one("process_threads", MetricType.GAUGE, "Threads.", threads)
        text.one(
            "process_start_time_seconds", MetricType.GAUGE, "Start, in seconds since 1970.", started
        )


class LoopLag:
    """Sleeps again and again, and notes by how much it woke up too late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seen = Histogram(LAG_SECONDS)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            wanted = self._clock.now() + _EVERY_SECONDS
            await self._clock.sleep(_EVERY_SECONDS)
            self.seen.add(max(self._clock.now() - wanted, 0.0))
