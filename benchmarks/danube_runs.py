"""Runs loads of Danube's clients against a server, and measures rate, latency and the server's CPU.

A load is a producer and a consumer that acknowledges each message, each a process of its own, with
a new topic. The rate is end to end: from the first send until the last acknowledgement is answered.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.program import data_folder
from benchmarks.stats import Percentiles, steady, summarize
from benchmarks.systems.base import CannotStart, SystemServer
from benchmarks.systems.danube_ import start_danube
from benchmarks.watch import cpu_seconds
from localstack.emulators.server import HOST
from localstack.environments import environment

WARM_UP: Final = 50
PATIENCE: Final = 5.0
"""Seconds without a message after which the rest counts as undelivered."""
_LOAD: Final = Path(__file__).with_name("danube_load.py")
_GO_LOAD: Final = _LOAD.with_suffix(".go")
_START_SECONDS: Final = 30.0
_topics = itertools.count(1)


@dataclass(frozen=True, slots=True)
class LoadClient:
    """Danube's client in one language: the command of its load program."""

    name: str
    command: tuple[str, ...]


def python_client() -> LoadClient:
    """danube-client. Raises ``Unavailable`` if its environment can't be installed."""
    return LoadClient("Python", (str(environment("danube") / "python"), str(_LOAD)))


def go_client(checkout: Path, folder: Path) -> LoadClient:
    """danube-go of a checkout; compiles the load program in its module. Raises ``CannotStart``."""
    program = folder / "load"
    command = ("go", "build", "-o", str(program), str(_GO_LOAD))
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotStart(f"the load program in Go was not built: {error}") from None
    if done.returncode:
        raise CannotStart(f"the load program in Go was not built: {done.stderr.strip()}")
    return LoadClient("Go", (str(program),))


@dataclass(frozen=True, slots=True)
class LoadResult:
    """One load against one server."""

    server: str
    client: str
    size: int
    in_flight: int
    paced: bool
    """Whether sends were due at a fixed rate."""
    rate: float
    """Messages per second, end to end."""
    ms: Percentiles
    """Milliseconds from a send, or from when it was due, to its response."""
    cpu_ms: float
    """The server's CPU time per message: SendMessage, delivery and Ack."""
    undelivered: int
    """Messages that did not arrive while the consumer was patient."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What one load sends."""

    size: int
    in_flight: int
    seconds: float
    rate: int = 0
    """Sends per second, one at a time; 0: as many as possible."""

    def options(self, port: int) -> str:
        """For the load programs."""
        return json.dumps(
            {
                "place": f"{HOST}:{port}",
                "topic": f"/default/bench-{next(_topics)}",
                "size": self.size,
                "in_flight": self.in_flight,
                "seconds": self.seconds,
                "rate": self.rate,
                "warm_up": WARM_UP,
                "patience": PATIENCE,
            }
        )

    @property
    def limit(self) -> float:
        """Seconds after which a load program is stuck."""
        return 60 + 10 * self.seconds


def run_load(name: str, server: SystemServer, client: LoadClient, plan: LoadPlan) -> LoadResult:
    """Run one load; blocks for a little more than its seconds. Raises ``SubprocessError``."""
    options = plan.options(server.port)
    with _consumer([*client.command, "consume", options], plan.limit) as consumer:
        before = cpu_seconds(server.tree())
        sent = _json_of([*client.command, "produce", options], plan.limit)
        total = sent["sent"] + WARM_UP
        said, _ = consumer.communicate(f"{total}\n", timeout=plan.limit)
        received = json.loads(said)
        used = cpu_seconds(server.tree()) - before
    acknowledged = received["acknowledged"]
    ended = max(received["ended"], sent["ended"])
    return LoadResult(
        name,
        client.name,
        plan.size,
        plan.in_flight,
        paced=bool(plan.rate),
        rate=max(acknowledged - WARM_UP, 0) / (ended - sent["begun"]),
        ms=summarize(steady(sent["ms"])),
        cpu_ms=used * 1000 / total,
        undelivered=total - min(acknowledged, total),
    )


def run_bare(server: SystemServer, client: LoadClient, plan: LoadPlan) -> Percentiles:
    """Milliseconds of bare calls at the plan's rate."""
    found = _json_of([*client.command, "call", plan.options(server.port)], plan.limit)
    return summarize(steady(found["ms"]))


def _json_of(command: list[str], seconds: float) -> dict[str, Any]:
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=seconds)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def _consumer(command: list[str], seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A consumer that receives already; killed at the end, or if it is not ready in time."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        late = threading.Timer(seconds, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise subprocess.SubprocessError("the consumer did not start")
            late.cancel()
            yield process
        finally:
            late.cancel()
            process.kill()


@contextmanager
def sulina_server(parent: Path) -> Iterator[SystemServer]:
    """``sulina up``."""
    with _new_server(parent) as (server, folder):
        command = (sys.executable, "-m", "sulina.cli", "up", "--data", str(folder / "data"))
        server.run([*command, "--port", "0", "--grpc-port", str(server.port)])
        yield server.started(_START_SECONDS)


@contextmanager
def danube_server(program: Path, parent: Path) -> Iterator[SystemServer]:
    """Danube's broker, alone, with its defaults."""
    with _new_server(parent) as (server, folder):
        start_danube(server, str(program), folder)
        yield server.started(_START_SECONDS)


def bare_server(parent: Path) -> AbstractContextManager[SystemServer]:
    """A gRPC server that only writes and syncs (``danube_bare``)."""
    return _module_server(parent, "benchmarks.danube_bare")


def ceiling_server(parent: Path) -> AbstractContextManager[SystemServer]:
    """A server that does what none can do without, and syncs (``danube_ceiling``)."""
    return _module_server(parent, "benchmarks.danube_ceiling")


@contextmanager
def _module_server(parent: Path, module: str) -> Iterator[SystemServer]:
    with _new_server(parent) as (server, folder):
        server.run([sys.executable, "-m", module, str(server.port), str(folder / "data")])
        yield server.started(_START_SECONDS)


@contextmanager
def _new_server(parent: Path) -> Iterator[tuple[SystemServer, Path]]:
    """A server to run, with a new folder in ``parent``; both are gone at the end."""
    with data_folder(parent, "server") as folder:
        server = SystemServer(folder / "server.log")
        try:
            yield server, folder
        finally:
            server.stop()
