"""The interface of a measured system, and how its server is started and stopped.

Client libraries are imported inside the methods that use them: a system whose client is not
installed can still be listed, with the reason why it cannot run.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import psutil

from benchmarks.loops import Sender
from benchmarks.sink import RecordSink
from benchmarks.source import RecordSource
from localstack.emulators.server import HOST, free_ports

# Debian installs servers in folders that are not on a user's PATH.
SERVER_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/lib/rabbitmq/bin")
NO_CLIENT = "its Python client is not installed: `pip install 'sulina[bench]'` to compare"
DEBIAN_PACKAGES = "nats-server redis-server rabbitmq-server"


class CannotStart(Exception):
    """A server did not start; the message says why."""


@dataclass(slots=True)
class SystemServer:
    """A server on this machine, which owns its processes until :meth:`stop`."""

    log: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """The names of the processes, in the same order."""

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        name: str = "server",
    ) -> None:
        """Start one process of the server, with its output in the log.

        It gets its own session, so that Ctrl-C does not reach it directly.
        """
        self.names.append(name)
        with self.log.open("ab") as output:
            self.processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                )
            )

    def started(self, seconds: float) -> Self:
        """Block until the port accepts connections.

        If it does not, stops the server and raises CannotStart with the end of the log.
        """
        try:
            self._wait_until_listening(seconds)
        except BaseException:
            self.stop()
            raise
        return self

    def _wait_until_listening(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                socket.create_connection((HOST, self.port), 1).close()
                return
            except OSError:
                if any(process.poll() is not None for process in self.processes):
                    raise CannotStart(f"the server ended at once: {self._log_end()}") from None
                if time.monotonic() > deadline:
                    raise CannotStart(
                        f"the server did not listen within {seconds:g} s: {self._log_end()}"
                    ) from None
                time.sleep(0.05)

    def parts(self) -> dict[str, list[psutil.Process]]:
        """The live processes by the name of the started process, including its children."""
        found: dict[str, list[psutil.Process]] = {name: [] for name in self.names}
        for name, process in zip(self.names, self.processes, strict=True):
            with suppress(psutil.NoSuchProcess):
                root = psutil.Process(process.pid)
                found[name] += [root, *root.children(recursive=True)]
        return found

    def tree(self) -> list[psutil.Process]:
        """All live processes of the server, including children."""
        members = [member for part in self.parts().values() for member in part]
        return list({member.pid: member for member in members}.values())

    def stop(self) -> None:
        """Kill all processes; a clean stop is unnecessary, because the data is deleted."""
        members = self.tree()
        for member in members:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        for process in self.processes:
            process.wait(60)  # a killed process that writes much takes a while on a busy machine
        psutil.wait_procs(members, 10)

    def _log_end(self) -> str:
        text = self.log.read_text(errors="replace").strip()
        return " / ".join(text.splitlines()[-3:]) or "it wrote nothing"


class System(ABC):
    """A messaging system with its usual Python client, in its best durable mode."""

    name: str
    title: str
    program: ClassVar[str]
    """The server's command."""
    client: ClassVar[str]
    """The Python module of the client."""
    mode: str
    """How the client is used, for the report."""

    @property
    def executable(self) -> str:
        """The path of the server's command, or its name if it is not installed."""
        return find_program(self.program) or self.program

    def unavailable(self) -> str | None:
        """Why this system cannot run here, as a sentence with the remedy; None if it can."""
        if find_program(self.program) is None:
            return (
                f"{self.program} is not installed: "
                f"`sudo apt-get install {DEBIAN_PACKAGES}` to compare"
            )
        if importlib.util.find_spec(self.client) is None:
            return NO_CLIENT
        return None

    def batch(self, size: int) -> int:
        """How many records of ``size`` bytes the producer sends at once."""
        return min(max((1 << 20) // size, 1), 1000)

    @abstractmethod
    def version(self) -> str:
        """The server's version. Blocks to query it; only if available."""

    def synced(self) -> bool:
        """Whether an acknowledged record survives a power failure; only if available."""
        return True

    @abstractmethod
    def durability(self) -> str:
        """What an acknowledgement means with the settings used; only if available."""

    def settings(self) -> dict[str, str]:
        """The server's settings that differ from its defaults, without addresses and folders."""
        return {}

    @abstractmethod
    def start(self, folder: Path) -> SystemServer:
        """Start a server with its data in ``folder``; blocks until it accepts connections.

        Raises CannotStart if it fails, without leaving a process running.
        """

    @abstractmethod
    async def produce(self, port: int, source: RecordSource) -> None:
        """Send all records of ``source`` in order, with a limit on unacknowledged ones."""

    @abstractmethod
    def senders(self, port: int, count: int) -> AbstractAsyncContextManager[Sequence[Sender]]:
        """Producers on ``count`` topics, which are created if necessary, as one application has
        them: what the client can share between producers is shared.
        """

    @abstractmethod
    async def consume(self, port: int, sink: RecordSink) -> None:
        """Receive and acknowledge until ``sink.done``."""


def find_program(name: str) -> str | None:
    """The full path of a server's program, or None."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *SERVER_FOLDERS))
    return shutil.which(name, path=path)


def output_of(command: Sequence[str]) -> str:
    """The output of a short command; empty if the program is not installed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        return ""
    return (done.stdout or done.stderr).strip()
