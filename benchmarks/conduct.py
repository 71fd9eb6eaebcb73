"""Runs one cell: a new server, and its client processes, with timeouts.

The clients are a producer and a consumer; in a closed loop, one process with all producers.

No process and no data of a cell remains afterwards, not even after Ctrl-C.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, cast

from benchmarks import worker
from benchmarks.cell import (
    Cell,
    CellFailure,
    CellOutcome,
    CellResult,
    ConsumerReport,
    CpuSeconds,
    LoopReport,
    ProducerReport,
    SharedCounters,
)
from benchmarks.stats import steady, summarize
from benchmarks.systems import System, SystemServer
from benchmarks.systems.base import CannotStart
from benchmarks.watch import ServerWatch

POLL = 0.1
Progress = Callable[[float, int], None]
"""Called with the seconds since the start and the records received so far."""


class CellBroken(Exception):
    """A process of the cell failed or timed out."""


def run_cell(system: System, cell: Cell, folder: Path, progress: Progress) -> CellOutcome:
    """Run ``cell`` with its data in ``folder``, which is created and deleted. Blocks until done."""
    folder.mkdir(parents=True)
    try:
        server = system.start(folder)
        try:
            return _run(server, cell, progress)
        finally:
            server.stop()
    except (CannotStart, CellBroken) as error:
        return CellFailure(cell, str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(server: SystemServer, cell: Cell, progress: Progress) -> CellResult:
    shared = SharedCounters()
    children: dict[worker.Role, _Child] = {}
    # The consumer first: it creates the topic or stream.
    roles: tuple[worker.Role, ...] = ("loop",) if cell.loops else ("consumer", "producer")
    try:
        for role in roles:
            children[role] = _Child(role, cell, server, shared)
            children[role].expect_ready()
        pids = [child.pid for child in children.values()]
        with ServerWatch(server, pids, shared) as watch:
            for child in children.values():
                child.pipe.send(worker.GO)
            reports = _collect(children, cell, shared, progress)
    finally:
        for child in children.values():
            child.end()
    if cell.loops:
        return _loop_result(cell, cast(LoopReport, reports["loop"]), watch)
    produced, consumed = reports["producer"], reports["consumer"]
    assert isinstance(produced, ProducerReport) and isinstance(consumed, ConsumerReport)
    return _result(cell, produced, consumed, watch)


class _Child:
    """A client process, and the pipe to it."""

    def __init__(
        self, role: worker.Role, cell: Cell, server: SystemServer, shared: SharedCounters
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self.role = role
        self.pipe, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=worker.main,
            args=(role, cell, server.port, shared, theirs),
            name=role,
            daemon=True,
        )
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process.pid is not None
        return self._process.pid

    def expect_ready(self) -> None:
        """Wait until the child is connected to the server."""
        limit = worker.START_TIMEOUT * (1 if self.role != "loop" else 3)
        if not self.pipe.poll(limit):
            raise CellBroken(f"the {self.role} was not ready in {limit:g} s")
        answer = self.receive()
        if answer != worker.READY:
            raise CellBroken(str(answer))

    def receive(self) -> Any:
        """The child's message. Raises CellBroken if it exited without one."""
        try:
            return self.pipe.recv()
        except EOFError:
            raise CellBroken(f"the {self.role} exited without a report") from None

    def end(self) -> None:
        """Let the process exit, or kill it."""
        with suppress(OSError):
            self.pipe.send(worker.END)
        self._process.join(1 if self._process.exitcode is None else 0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(10)
        self.pipe.close()


def _collect(
    children: dict[worker.Role, _Child], cell: Cell, shared: SharedCounters, progress: Progress
) -> dict[worker.Role, worker.Report]:
    """Wait for all reports, with a timeout that lets the consumer receive the rest."""
    reports: dict[worker.Role, worker.Report] = {}
    waiting: dict[Connection, _Child] = {child.pipe: child for child in children.values()}
    begun = time.monotonic()
    limit = (cell.warm_up + cell.seconds) * 5 + 30
    while waiting:
        elapsed = time.monotonic() - begun
        progress(elapsed, shared.received)
        if elapsed > limit:
            late = " and ".join(child.role for child in waiting.values())
            raise CellBroken(
                f"the {late} did not finish in {limit:g} s "
                f"({shared.received} of {shared.total} records arrived)"
            )
        for pipe in wait(list(waiting), POLL):
            assert isinstance(pipe, Connection)
            child = waiting.pop(pipe)
            answer = child.receive()
            if isinstance(answer, str):
                raise CellBroken(answer)
            reports[child.role] = answer
    return reports


def _result(
    cell: Cell, produced: ProducerReport, consumed: ConsumerReport, watch: ServerWatch
) -> CellResult:
    end = max(produced.last_ack_ns, consumed.last_receive_ns)
    latencies = array("q", consumed.latencies_ns)
    measured = latencies[produced.warm_sent :] if cell.warm_up else steady(latencies)
    return CellResult(
        cell=cell,
        records=produced.sent - produced.warm_received,
        elapsed=(end - produced.begun_ns) / 1e9,
        peak_memory=watch.peak_memory,
        cpu=_cpu(watch, produced.cpu_seconds, consumed.cpu_seconds),
        misplaced=consumed.misplaced + (consumed.received != produced.sent),
        latency=summarize([ns / 1e6 for ns in measured]) if measured else None,
        client_memory=watch.client_memory,
    )


def _loop_result(cell: Cell, report: LoopReport, watch: ServerWatch) -> CellResult:
    return CellResult(
        cell=cell,
        records=report.acknowledged,
        elapsed=cell.seconds,
        peak_memory=watch.peak_memory,
        cpu=_cpu(watch, report.cpu_seconds, 0.0),
        misplaced=0,
        latency=summarize([ns / 1e6 for ns in array("q", report.latencies_ns)]),
        client_memory=watch.client_memory,
    )


def _cpu(watch: ServerWatch, producer: float, consumer: float) -> CpuSeconds:
    return CpuSeconds(
        sum(watch.cpu_seconds.values()), producer, consumer, watch.cpu_seconds, watch.foreign
    )
