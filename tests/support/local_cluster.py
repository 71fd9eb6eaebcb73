"""A real ``sulina up --brokers`` with all its processes, for tests of the command line.

Every wait has a bound; what the supervisor wrote is in the error that a test sees.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SECONDS = 100.0


class ClusterUp:
    """Made stopped; use it in ``with``. Ports are free ones, the same at each start."""

    command: tuple[str, ...] = ("sulina.cli", "up")
    """The module that is run, and its first arguments."""
    seconds = SECONDS
    """How long anything may take."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self.data = data
        self.ready: dict[str, Any] = {}
        self._arguments = arguments
        self._log = data.with_name(data.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""

    @property
    def url(self) -> str:
        """All brokers."""
        return str(self.ready["url"])

    @property
    def pids(self) -> dict[str, int]:
        """Of the processes that it started first, by name."""
        rows = (*self.ready["brokers"], *self.ready["storage"], *self.ready["etcd"])
        return {row["id"]: row["pid"] for row in rows}

    def start(self) -> Self:
        """Start it, and wait until it is ready."""
        arguments = ("--port", "0", "--data", str(self.data), "--json", *self._arguments)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self.command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.ready = self.event()
        assert self.ready["event"] == "ready", self.ready
        return self

    def event(self) -> dict[str, Any]:
        """The next line that it says."""
        process = self._running()
        assert process.stdout is not None
        fd = process.stdout.fileno()
        end = time.monotonic() + self.seconds
        while b"\n" not in self._unread:
            found, _, _ = select.select((fd,), (), (), max(end - time.monotonic(), 0))
            part = os.read(fd, 65536) if found else b""
            assert part, f"it said nothing more: {self._log.read_text()}"
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal and wait for its end; returns its exit code."""
        process = self._running()
        process.send_signal(number)
        code = process.wait(self.seconds)
        assert process.stdout is not None
        process.stdout.close()
        self._process = None
        return code

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            if self._process is not None:
                self.stop(signal.SIGKILL)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.stop(signal.SIGKILL)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was not started"
        return self._process


def wait_gone(pids: list[int]) -> None:
    """Until none of these processes is there."""
    end = time.monotonic() + SECONDS
    while any(_is_there(pid) for pid in pids):
        assert time.monotonic() < end, pids
        time.sleep(0.05)


def _is_there(pid: int) -> bool:
    try:
        # What has ended and was not waited for by its new parent is gone for our purpose.
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
