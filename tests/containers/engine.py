"""A Docker engine for the tests: the one that runs, else one of our own that ends with them.

Our own needs root and Debian's ``docker.io``. It has its data and its socket in a folder of its
own, so that it touches no other engine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_START_SECONDS = 60.0


class NoEngine(Exception):
    """Says why there is none, and what to do about it."""


class Docker:
    """The command line of one engine. Every call raises ``AssertionError`` with its words."""

    def __init__(self, host: str | None) -> None:
        self._environment = {"DOCKER_BUILDKIT": "1", **({"DOCKER_HOST": host} if host else {})}

    def __call__(self, *arguments: str, seconds: float = 120, ok: bool = True) -> str:
        """``docker`` with these arguments; what it printed. ``ok=False`` lets it fail."""
        return self.run(_program(), *arguments, seconds=seconds, ok=ok)

    def run(
        self,
        *command: str,
        seconds: float,
        ok: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Any command that talks to the engine."""
        done = subprocess.run(
            command,
            env={**os.environ, **self._environment, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert not ok or done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
        return done.stdout + ("" if ok else done.stderr)

    def has(self, image: str) -> bool:
        """Whether the image is there already."""
        return bool(self("images", "--quiet", image).strip())

    def compose(self) -> list[str]:
        """The command for compose files: the engine's plug-in, or the older program."""
        if "v2" in self("compose", "version", ok=False):
            return [_program(), "compose"]
        if program := shutil.which("docker-compose"):
            return [program]
        raise NoEngine("there is no docker compose: apt install docker-compose")


@contextmanager
def docker_engine(folder: Path) -> Iterator[Docker]:
    """An engine until left. Raises ``NoEngine`` where there can't be one."""
    if _program() == "":
        raise NoEngine("there is no docker: apt install docker.io docker-compose debootstrap")
    running = Docker(None)
    if _answers(running):
        yield running
        return
    dockerd = shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if dockerd is None or os.geteuid() != 0:
        raise NoEngine(
            "no Docker engine runs, and none can be started: run one, or be root on a machine "
            "with Debian's docker.io"
        )
    with _own(dockerd, folder) as own:
        yield own


@contextmanager
def _own(dockerd: str, folder: Path) -> Iterator[Docker]:
    folder.mkdir(parents=True, exist_ok=True)
    socket = f"unix://{folder}/docker.sock"
    with (folder / "dockerd.log").open("w") as log:
        # No larger packets than the network outside may take.
        process = subprocess.Popen(
            [
                *(dockerd, "--mtu", "1400", "--host", socket),
                *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/run"),
                *("--pidfile", f"{folder}/dockerd.pid"),
            ],
            stdout=log,
            stderr=log,
        )
    docker = Docker(socket)
    try:
        until = time.monotonic() + _START_SECONDS
        while not _answers(docker):
            if process.poll() is not None or time.monotonic() > until:
                words = (folder / "dockerd.log").read_text()[-2000:]
                raise NoEngine(f"dockerd does not start here:\n{words}")
            time.sleep(0.2)
        yield docker
    finally:
        process.terminate()
        process.wait(60)


def _answers(docker: Docker) -> bool:
    return "Server Version" in docker("info", ok=False)


def _program() -> str:
    # Debian's beside another one: the client that fits Debian's engine.
    return shutil.which("docker", path="/usr/bin") or shutil.which("docker") or ""
