"""Storage nodes as separate processes, for tests that kill, freeze, fill and wipe them.

Every wait has a bound; what a process wrote to standard error is in the error that a test sees.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 60.0
_ROOT = Path(__file__).parents[2]


class StorageProcess:
    """``python -m storage_grpc``, or another command that does the same.

    It has one name, folder and port over all its lives.
    """

    def __init__(self, folder: Path, number: int, *command: str) -> None:
        self._command = command or ("storage_grpc",)
        self.id = f"storage-{number}"
        self.data = folder / self.id
        self.port = 0
        self.ready: dict[str, Any] = {}
        """Its line of JSON when it was ready."""
        self._log = folder / f"{self.id}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def place(self) -> str:
        """For ``RemoteNodes``."""
        return f"{self.id}=127.0.0.1:{self.port}"

    @property
    def member(self) -> str:
        """Its name in the metadata of ledgers."""
        return f"{self.id}@{self.ready['incarnation'][:8]}"

    def spawn(self) -> None:
        """Start it without waiting until it is ready."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", *self._command, "--json"),
                    *("--data", str(self.data), "--port", str(self.port), "--id", self.id),
                    *("--journal-file-mb", "2"),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=_ROOT,
            )

    def wait_ready(self) -> None:
        """Block until it is ready."""
        assert self._process is not None
        assert self._process.stdout is not None
        killer = threading.Timer(PATIENCE, self._process.kill)
        killer.start()
        line = self._process.stdout.readline()
        killer.cancel()
        self._process.stdout.close()
        assert line, self.log()
        self.ready = json.loads(line)
        self.port = self.ready["port"]

    async def start(self) -> None:
        """Start it and wait until it is ready."""
        self.spawn()
        await asyncio.to_thread(self.wait_ready)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal and wait for its end; returns its exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return await asyncio.to_thread(self._process.wait, PATIENCE)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill it, as a crash would, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)

    def freeze(self) -> None:
        """Freeze it: it keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def fill_disk(self) -> None:
        """Keep its files from growing, as on a full disk."""
        self._limit_files(4096)

    def free_disk(self) -> None:
        self._limit_files(resource.RLIM_INFINITY)

    def wipe(self) -> None:
        """Delete its data; the process must not run."""
        shutil.rmtree(self.data)

    def pretend_reboot(self) -> None:
        """Make its next start believe that the operating system rebooted, as after a power loss.

        The process must be gone, killed.
        """
        note = self.data / "standing.json"
        note.write_text(json.dumps({**json.loads(note.read_text()), "boot": "an earlier one"}))

    def journal_files(self) -> list[Path]:
        return sorted(self.data.glob("journal-*.log"))

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def _limit_files(self, size: int) -> None:
        assert self._process is not None
        _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size, hard))


@contextmanager
def storage_processes(
    folder: Path, count: int = 3, *command: str
) -> Iterator[list[StorageProcess]]:
    """``count`` nodes, started together; killed on exit."""
    processes = [StorageProcess(folder, number, *command) for number in range(1, count + 1)]
    try:
        for process in processes:
            process.spawn()
        for process in processes:
            process.wait_ready()
        yield processes
    finally:
        for process in processes:
            process.kill()
