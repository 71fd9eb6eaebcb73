"""Measures a server's peak memory and CPU time while a cell runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import psutil

from benchmarks.systems import SystemServer

INTERVAL = 0.05


class ServerWatch:
    """Samples a server's process tree in a thread.

    Memory that processes share is counted for each of them, so it is an upper bound.
    """

    def __init__(self, server: SystemServer) -> None:
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="watch", daemon=True)
        self._cpu_at_start: dict[str, float] = {}
        self.peak_memory = 0
        self.cpu_seconds: dict[str, float] = {}
        """CPU seconds per started process, by name."""

    def __enter__(self) -> ServerWatch:
        self._cpu_at_start = self._cpu()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.cpu_seconds = {
            name: seconds - self._cpu_at_start[name] for name, seconds in self._cpu().items()
        }

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(members) for name, members in self._server.parts().items()}

    def _sample(self) -> None:
        while True:
            self.peak_memory = max(self.peak_memory, resident(self._server.tree()))
            if self._stop.wait(INTERVAL):
                return


def resident(processes: list[psutil.Process]) -> int:
    """Bytes resident in all of ``processes``; those that have exited count as 0."""
    return int(_total(processes, lambda process: process.memory_info().rss))


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """User and system time of all of ``processes`` so far; those that have exited count as 0."""
    return _total(processes, lambda process: sum(process.cpu_times()[:2]))


def _total(processes: list[psutil.Process], of: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            total += of(process)
    return total
