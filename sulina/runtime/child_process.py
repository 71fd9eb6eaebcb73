"""Runs a program as a child process, with its output in a file."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sulina.errors import Refused
from sulina.runtime.seam import Clock

_POLL_SECONDS = 0.02
_KILL_SECONDS = 30.0
_FREEZE_SECONDS = 0.001
_TAIL_BYTES = 2000
_LEASH = """
import os, signal, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)  # the parent has already ended
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Replaces itself by the program; on Linux the kernel kills it when its parent ends. It does not
run between fork and exec in the parent, where Python is not safe once there are threads."""


class ChildProcess:
    """A child process that runs ``command``; initially stopped, and may be started repeatedly.

    It does not receive the terminal's Ctrl-C, so that its owner decides when it ends. On Linux it
    does not outlive the thread that started it.

    ``ports`` are the addresses and ports it will listen on: it is not started while another program
    uses one, because that program could be mistaken for it. ``folder`` is its working directory,
    ``environment`` all its variables (by default those of this process).
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        ports: Sequence[tuple[str, int]] = (),
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = tuple(command)
        self._log = log
        self._ports = tuple(ports)
        self._folder = folder
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False

    @property
    def running(self) -> bool:
        """Whether the process exists, even if it is frozen."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the last start."""
        assert self._process is not None, "it was never started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last process, negative for a signal; None while it runs."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start it, unless it runs. Raises ``Refused`` if the program cannot be executed or one of
        its ports is in use."""
        if self.running:
            return
        self._asked = False
        for host, port in self._ports:
            _check_free(host, port)
        if not os.access(self._command[0], os.X_OK):
            raise Refused(
                f"{self._command[0]} cannot be run: it does not exist or is not executable"
            )
        leash = (sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()))
        with self._log.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    (*leash, *self._command),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._folder,
                    env=self._environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise Refused(f"{self._command[0]} cannot be run: {error.strerror}") from None

    def freeze(self) -> None:
        """Pause it (SIGSTOP): its connections stay open, but it does not answer.

        Blocks until all its threads are paused or it has ended, 30 seconds at most.
        """
        if not self.running:
            return
        self._send(signal.SIGSTOP)
        end = time.monotonic() + _KILL_SECONDS
        seen = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
        while os.waitid(os.P_PID, self.pid, seen) is None and time.monotonic() < end:
            time.sleep(_FREEZE_SECONDS)

    def thaw(self) -> None:
        """Resume it (SIGCONT)."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it, as a crash would. Blocks until it has ended, which takes milliseconds."""
        self._send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(_KILL_SECONDS)

    def ask_to_end(self) -> None:
        """Request its end (SIGTERM) without waiting; a frozen process is resumed first.

        The signal is sent only once: many programs exit immediately at a second one.
        """
        self.thaw()
        if not self._asked:
            self._asked = True
            self._send(signal.SIGTERM)

    async def stop(self, clock: Clock, seconds: float) -> None:
        """Request its end, and kill it if that takes longer than ``seconds``."""
        self.ask_to_end()
        end = clock.now() + seconds
        while self.running and clock.now() < end:
            await clock.sleep(_POLL_SECONDS)
        self.kill()

    def said(self) -> str:
        """The end of its output, over all starts."""
        if not self._log.exists():
            return ""
        with self._log.open("rb") as log:
            length = log.seek(0, 2)
            log.seek(max(length - _TAIL_BYTES, 0))
            return log.read().decode(errors="replace").strip()

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)  # no effect once it has ended


def _check_free(host: str, port: int) -> None:
    """Raises ``Refused`` if the port is in use. Recently closed connections do not matter."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Refused(
                f"port {port} of {host} is not available ({error.strerror}): "
                "stop the program that uses it, or choose another"
            ) from None
