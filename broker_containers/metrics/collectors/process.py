"""The broker's process, under the metric names that exporters share, and its event-loop lag."""

from __future__ import annotations

import psutil

from broker_containers.metrics.exposition import Exposition, MetricType
from broker_containers.topics.histogram import LAG_SECONDS, Histogram
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
        text.one(
            "process_cpu_seconds_total",
            MetricType.COUNTER,
            "CPU time in seconds, user and system.",
            round(times.user + times.system, 3),
        )
        text.one("process_resident_memory_bytes", MetricType.GAUGE, "Resident memory.", memory.rss)
        text.one("process_virtual_memory_bytes", MetricType.GAUGE, "Virtual memory.", memory.vms)
        text.one("process_open_fds", MetricType.GAUGE, "Open file descriptors.", files)
        text.one("process_threads", MetricType.GAUGE, "Threads.", threads)
        text.one(
            "process_start_time_seconds", MetricType.GAUGE, "Start time (Unix seconds).", started
        )


class LoopLag:
    """Measures how late the event loop wakes a sleeping task."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seen = Histogram(LAG_SECONDS)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            wanted = self._clock.now() + _EVERY_SECONDS
            await self._clock.sleep(_EVERY_SECONDS)
            self.seen.add(max(self._clock.now() - wanted, 0.0))
