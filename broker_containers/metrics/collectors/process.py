"""The broker's process: CPU time, memory, open files, under the names that exporters share."""

from __future__ import annotations

import psutil

from broker_containers.metrics.exposition import Exposition, Kind


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
            Kind.COUNTER,
            "CPU time used, user and system.",
            round(times.user + times.system, 3),
        )
        text.one("process_resident_memory_bytes", Kind.GAUGE, "Memory in use (RSS).", memory.rss)
        text.one("process_virtual_memory_bytes", Kind.GAUGE, "Address space in use.", memory.vms)
        text.one("process_open_fds", Kind.GAUGE, "Open files and sockets.", files)
        text.one("process_threads", Kind.GAUGE, "Threads.", threads)
        text.one("process_start_time_seconds", Kind.GAUGE, "Start, in seconds since 1970.", started)
