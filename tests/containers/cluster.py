"""The cluster of ``broker_containers/compose.yaml``, or a layer over it, on free ports."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.containers.engine import Docker
from tests.support.etcd import free_ports

_ROOT = Path(__file__).parents[2]
COMPOSE = _ROOT / "broker_containers" / "compose.yaml"
LOCALSTACK = _ROOT / "localstack" / "compose.yaml"
"""A layer over the other one."""
_READY_SECONDS = 300.0


class ComposedCluster:
    """Use it in ``with``; what it kept is removed at the end."""

    def __init__(self, docker: Docker, project: str = "sulina-test", *layers: Path) -> None:
        self._docker = docker
        self._project = project
        files = (part for file in (COMPOSE, *layers) for part in ("--file", str(file)))
        self._command = (*docker.compose(), "--project-name", project, *files)
        names = ("SULINA_PORT", "DANUBE_PORT", "HTTP_PORT", "S3_PORT", "AWS_PORT")
        self._ports = dict(zip(names, map(str, free_ports(len(names))), strict=True))

    def __enter__(self) -> ComposedCluster:
        try:
            self.compose("up", "--detach", "--no-build")
            self._wait()
        except BaseException:
            self._down()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._down()

    def _wait(self) -> None:
        until = time.monotonic() + _READY_SECONDS
        names = self.names()
        while waiting := [name for name in names if not self.healthy(name)]:
            if time.monotonic() > until:
                said = "\n".join(
                    self._docker("logs", self.container(name), ok=False) for name in waiting
                )
                raise AssertionError(f"{waiting} are not healthy:\n{said[-5000:]}")
            time.sleep(1)

    def _down(self) -> None:
        self.compose("down", "--volumes", "--timeout", "5")

    @property
    def url(self) -> str:
        """What a client on this machine is given."""
        return f"sulina://127.0.0.1:{self._ports['SULINA_PORT']}"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self._ports['HTTP_PORT']}"

    @property
    def s3_url(self) -> str:
        return f"http://127.0.0.1:{self._ports['S3_PORT']}"

    @property
    def aws_url(self) -> str:
        """Of LocalStack, with its layer."""
        return f"http://127.0.0.1:{self._ports['AWS_PORT']}"

    def objects(self, prefix: str) -> list[str]:
        """The keys of the lake that begin with ``prefix``."""
        url = f"{self.s3_url}/sulina?list-type=2&prefix={quote(prefix, safe='')}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return re.findall(r"<Key>([^<]+)</Key>", answer.read().decode())

    def compose(self, *arguments: str) -> str:
        """``docker compose`` about this cluster."""
        return self._docker.run(*self._command, *arguments, seconds=300, environment=self._ports)

    def names(self) -> list[str]:
        """All services."""
        return self.compose("config", "--services").split()

    def container(self, service: str) -> str:
        """Its id, whether it runs or not."""
        return self._docker(
            *("ps", "--all", "--quiet", "--no-trunc"),
            *("--filter", f"label=com.docker.compose.project={self._project}"),
            *("--filter", f"label=com.docker.compose.service={service}"),
        ).strip()

    def inspect(self, service: str) -> Any:
        """What the engine knows about its container."""
        return json.loads(self._docker("inspect", self.container(service)))[0]

    def healthy(self, service: str) -> bool:
        """As its own check says; without one, whether it runs, or did what it was to do."""
        state = self.inspect(service)["State"]
        health = state.get("Health", {}).get("Status", "healthy")
        done = state["Status"] == "exited" and state["ExitCode"] == 0
        return health == "healthy" and (bool(state["Running"]) or done)

    def kill(self, service: str) -> None:
        """As power loss does; nobody starts it again."""
        self._docker("update", "--restart", "no", self.container(service))
        self._docker("kill", self.container(service))

    def stop(self, service: str) -> int:
        """Ask it to stop; its exit code, 137 if it had to be killed after its grace period."""
        self._docker("stop", "--time", "30", self.container(service))
        return int(self.inspect(service)["State"]["ExitCode"])

    def start(self, service: str) -> None:
        self._docker("start", self.container(service))

    def inside(self, service: str, *command: str, ok: bool = True) -> str:
        """Run a command in its container."""
        return self._docker("exec", self.container(service), *command, ok=ok)
