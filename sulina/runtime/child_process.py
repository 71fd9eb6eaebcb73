"""A program as a child process: started, stopped, with what it wrote kept in a file."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sulina.errors import Refused
from sulina.runtime.seam import Clock

_POLL_SECONDS = 0.02
_KILL_SECONDS = 30.0
_TAIL_BYTES = 2000
_LEASH = """
import os, signal, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)  # too late to be told
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes the program, and on Linux the system then ends it when its parent is gone. Not between
fork and exec in the parent, where running Python is not safe once there are threads."""


class ChildProcess:
    """Runs ``command``, again and again if need be. Made stopped.

    It is out of reach of the terminal's Ctrl-C, so that its owner decides when it ends; and on
    Linux it does not outlive the thread that started it, however that ends.

    ``ports`` are those it will listen on, with their addresses: it is not started while another
    program has one, which would then be taken for it by whoever asks there whether it is ready.
    ``folder`` is where it runs, and ``environment`` are all its variables, if not those of its
    owner.
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
        """Whether it is there, even if it is frozen."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        assert self._process is not None, "it was never started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """With which the last one ended, negative for a signal; None while it runs."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start it; nothing happens if it runs. Raises ``Refused`` if the program can't be run, or
        one of its ports is taken."""
        if self.running:
            return
        self._asked = False
        for host, port in self._ports:
            _check_free(host, port)
        if not os.access(self._command[0], os.X_OK):
            raise Refused(f"{self._command[0]} can't be run: it is not there, or is no program")
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
                raise Refused(f"{self._command[0]} can't be run: {error.strerror}") from None

    def freeze(self) -> None:
        """Keep it from running (SIGSTOP): its connections stay open, and it is silent."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, as a crash would. Blocks until it is gone, which takes milliseconds."""
        self._send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(_KILL_SECONDS)

    def ask_to_end(self) -> None:
        """Ask it to end (SIGTERM), and do not wait; a frozen one goes on first.

        It is asked once: to many programs a second time means that they must not finish.
        """
        self.thaw()
        if not self._asked:
            self._asked = True
            self._send(signal.SIGTERM)

    async def stop(self, clock: Clock, seconds: float) -> None:
        """Ask it to end, and kill it if that takes longer than ``seconds``."""
        self.ask_to_end()
        end = clock.now() + seconds
        while self.running and clock.now() < end:
            await clock.sleep(_POLL_SECONDS)
        self.kill()

    def said(self) -> str:
        """The end of what it wrote, over all starts."""
        if not self._log.exists():
            return ""
        with self._log.open("rb") as log:
            length = log.seek(0, 2)
            log.seek(max(length - _TAIL_BYTES, 0))
            return log.read().decode(errors="replace").strip()

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)  # which is nothing, once it has ended


def _check_free(host: str, port: int) -> None:
    """Raises ``Refused`` if somebody listens there. Connections that just ended do no harm."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Refused(
                f"port {port} of {host} can't be used ({error.strerror}): "
                "stop the program that has it, or choose another"
            ) from None
