"""A real ``sulina up`` in a process of its own, for tests that go over TCP, kill and restart.

Every wait has a bound; what the process wrote to standard error is in the error that a test sees.
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

from tests.support.etcd import free_ports

START_SECONDS = 60.0
STOP_SECONDS = 30.0


class SulinaProcess:
    """``sulina up`` on 127.0.0.1. Made stopped; use it in ``with``, or call ``start``.

    The ports are chosen at the first start and kept for the later ones, so that clients find the
    restarted broker again.
    """

    def __init__(self, data: Path, *arguments: str, prefix: tuple[str, ...] = ()) -> None:
        """``prefix`` is a command that runs it, such as a shell with other limits."""
        self.data = data
        """The data folder; it may be missing. Beside it the log is kept."""
        self.ready: dict[str, Any] = {}
        """What it said when it was ready."""
        self.port = 0
        self.http_port = 0
        self.admin_port = 0
        self.grpc_port = 0
        """May be set before the first start."""
        self._arguments = arguments
        self._prefix = prefix
        self._log = data.with_name(data.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For ``sulina.connect`` and ``--url``."""
        return str(self.ready["url"])

    @property
    def http_url(self) -> str:
        """For HTTP clients."""
        return str(self.ready["http_url"])

    @property
    def pid(self) -> int:
        """Of the running process."""
        return self._running().pid

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it and wait until it is ready. Raises ``RuntimeError`` with what it said."""
        assert not self.running, "it runs already"
        if not self.port:
            self.port, self.http_port, self.admin_port, grpc = free_ports(4)
            self.grpc_port = self.grpc_port or grpc
        ports = ("--port", str(self.port), "--http-port", str(self.http_port))
        danube = ("--admin-port", str(self.admin_port), "--grpc-port", str(self.grpc_port))
        arguments = (*ports, *danube, "--data", str(self.data), "--json")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._prefix,
                    sys.executable,
                    "-m",
                    "sulina.cli",
                    "up",
                    *arguments,
                    *self._arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            self.ready = self._wait_ready(self._process)
        except BaseException:
            self.kill()
            raise
        self.port = int(self.ready["port"])
        self.http_port = int(self.ready["http_port"])
        self.admin_port = int(self.ready["admin_port"])
        self.grpc_port = int(self.ready["grpc_port"])
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop, and wait; returns its exit code. Kills it if it takes too long."""
        process = self._running()
        process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end; returns its exit code."""
        process = self._running()
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"sulina up did not stop in {STOP_SECONDS:g} s") from None
        self._forget(process)
        return code

    def kill(self) -> None:
        """End it at once, as a crash would; nothing if it has ended already."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait(STOP_SECONDS)
            self._forget(process)

    def restart(self) -> Self:
        """Stop it cleanly, if it runs, and start it again on the same port and data."""
        if self.running:
            self.stop()
        return self.start()

    def log(self) -> str:
        """What it wrote to standard error so far, over all starts."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.running:
            self.stop()
        self.kill()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was not started"
        return self._process

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdout is not None:
            process.stdout.close()
        self._process = None

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert process.stdout is not None
        fd = process.stdout.fileno()
        deadline = time.monotonic() + START_SECONDS
        line = b""
        while not line.endswith(b"\n"):
            if not select.select((fd,), (), (), max(deadline - time.monotonic(), 0))[0]:
                raise RuntimeError(f"sulina up was not ready in {START_SECONDS:g} s: {self.log()}")
            part = os.read(fd, 65536)
            if not part:
                raise RuntimeError(f"sulina up ended before it was ready: {self.log()}")
            line += part
        ready: dict[str, Any] = json.loads(line)
        return ready
