"""Measures memory and CPU time of a server and its clients while a cell runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil

from benchmarks.cell import SharedCounters
from benchmarks.systems import SystemServer

INTERVAL = 0.05


class ServerWatch:
    """Samples a server's process tree and its clients in a thread.

    CPU time counts from the end of the warm-up, memory from the start. Memory that processes share
    is counted for each of them, so it is an upper bound.
    """

    def __init__(
        self,
        server: SystemServer,
        clients: Sequence[int] = (),
        shared: SharedCounters | None = None,
    ) -> None:
        self._server = server
        self._clients = [psutil.Process(pid) for pid in clients]
        self._shared = shared
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="watch", daemon=True)
        self._cpu_at_start: dict[str, float] = {}
        self._others_at_start = 0.0
        self._started = 0.0
        self.peak_memory = 0
        self.client_memory = 0
        self.cpu_seconds: dict[str, float] = {}
        """CPU seconds per started process, by name."""
        self.foreign = 0.0
        """Cores used, on average, by all but the server, its clients and this process."""

    def __enter__(self) -> ServerWatch:
        self._start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.cpu_seconds = {
            name: seconds - self._cpu_at_start[name] for name, seconds in self._cpu().items()
        }
        used = max(self._others() - self._others_at_start, 0.0)
        self.foreign = used / (time.monotonic() - self._started)

    def _start(self) -> None:
        self._cpu_at_start = self._cpu()
        self._others_at_start = self._others()
        self._started = time.monotonic()

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(members) for name, members in self._server.parts().items()}

    def _others(self) -> float:
        ours = [psutil.Process(), *self._clients, *self._server.tree()]
        return machine_cpu_seconds() - cpu_seconds(ours)

    def _sample(self) -> None:
        warm = self._shared is None
        while True:
            if not warm and self._shared is not None and self._shared.measuring:
                warm = True
                self._start()
            self.peak_memory = max(self.peak_memory, resident(self._server.tree()))
            self.client_memory = max(self.client_memory, resident(self._clients))
            if self._stop.wait(INTERVAL):
                return


def machine_cpu_seconds() -> float:
    """CPU seconds that the machine has spent so far on anything, or that were taken from it."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # Guests are counted in user time too.
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(sum(times) - idle - guests)


def resident(processes: Sequence[psutil.Process]) -> int:
    """Bytes resident in all of ``processes``; those that have exited count as 0."""
    return int(_total(processes, lambda process: process.memory_info().rss))


def cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    """User and system time of all of ``processes`` so far; those that have exited count as 0."""
    return _total(processes, lambda process: sum(process.cpu_times()[:2]))


def _total(processes: Sequence[psutil.Process], of: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            total += of(process)
    return total
