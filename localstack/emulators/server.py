"""Runs an emulator as a child process: starts it, waits until it is ready, kills it at the end."""

from __future__ import annotations

import http.client
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self

from localstack.emulators.credentials import Credentials
from sulina.errors import Unavailable
from sulina.runtime.child_process import ChildProcess

HOST: Final = "127.0.0.1"
READY_SECONDS: Final = 180.0
_OURS: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
_POLL_SECONDS: Final = 0.05
_PROBE_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run, and how to check that it is ready."""

    name: str
    command: Sequence[str]
    port: int
    """The port on which it serves."""
    ready: Callable[[int], bool]
    """Whether it is ready; ``OSError`` and ``HTTPException`` mean not yet."""
    environment: Mapping[str, str] | None = None
    """Variables to set in addition to those of this process."""
    credentials: Credentials = field(default_factory=Credentials)
    """Credentials with all rights."""


class EmulatorServer:
    """In ``with``, the server is started and ready, and is killed at the end.

    It can be killed and started again in between, with the same ports and data.
    """

    def __init__(self, folder: Path, program: Program) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = program.port
        self.credentials = program.credentials
        """Credentials with all rights."""
        self._program = program
        self._child = ChildProcess(
            program.command,
            folder / f"{program.name}.log",
            ports=((HOST, program.port),),
            folder=folder,
            environment={**_inherited(), **(program.environment or {})},
        )

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """The server's URL."""
        return f"http://{HOST}:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables with which AWS libraries and tools find it."""
        return {"AWS_ENDPOINT_URL": self.url, **self.credentials.variables}

    @property
    def pid(self) -> int:
        """The id of the process that was started last."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._child.running

    def start(self, seconds: float = READY_SECONDS) -> None:
        """Start it and wait until it is ready. Raises ``Unavailable`` with its output if not."""
        self._child.start()
        end = time.monotonic() + seconds
        while not self._answers():
            if not self._child.running:
                raise Unavailable(f"{self._program.name} exited: {self._child.said()}")
            if time.monotonic() > end:
                raise Unavailable(
                    f"{self._program.name} was not ready in {seconds:g} s: {self._child.said()}"
                )
            time.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """Kill it immediately, like a crash."""
        self._child.kill()

    def freeze(self) -> None:
        """Suspend it: its connections stay open, but it does not answer."""
        self._child.freeze()

    def thaw(self) -> None:
        """Resume it."""
        self._child.thaw()

    def _answers(self) -> bool:
        try:
            return self._program.ready(self.port)
        except (OSError, http.client.HTTPException):
            return False


def _inherited() -> dict[str, str]:
    """The variables of this process, except those that point to its own packages."""
    return {name: value for name, value in os.environ.items() if name not in _OURS}


def ask_http(port: int, path: str) -> tuple[int, bytes]:
    """The status and body of a GET. Raises ``OSError`` or ``HTTPException``."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_PROBE_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def answers_http(path: str) -> Callable[[int], bool]:
    """A check that ``GET path`` returns 200."""
    return lambda port: ask_http(port, path)[0] == HTTPStatus.OK


def free_ports(count: int) -> list[int]:
    """Distinct free ports."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]
