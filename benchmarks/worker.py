"""The client processes of a cell: a producer and a consumer, or the producers of a closed loop.

A child connects, reports that it is ready, waits for the start signal, runs its driver, and sends
its report, or an error message. It stays until it is told to end, so that its CPU time can be read.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Literal

from benchmarks.cell import Cell, ConsumerReport, LoopReport, ProducerReport, SharedCounters
from benchmarks.loops import prime, run_loops
from benchmarks.sink import RecordSink
from benchmarks.source import RecordSource
from benchmarks.systems import SYSTEMS
from sulina.cli.running import loop_factory

Role = Literal["producer", "consumer", "loop"]
Report = ProducerReport | ConsumerReport | LoopReport
READY = "ready"
GO = "go"
END = "end"
START_TIMEOUT = 60.0


def main(role: Role, cell: Cell, port: int, shared: SharedCounters, pipe: Connection) -> None:
    """Run a child process."""
    # Ctrl-C reaches the whole process group; the parent stops its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable(logging.WARNING)
    try:
        pipe.send(_run(role, cell, port, shared, pipe))
    except Exception as error:
        pipe.send(f"the {role} failed: {type(error).__name__}: {_first(error)}")
    with suppress(OSError):
        pipe.poll(START_TIMEOUT)


def _first(error: BaseException) -> BaseException:
    """The error itself, or the first one of a group of tasks that failed."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _run(role: Role, cell: Cell, port: int, shared: SharedCounters, pipe: Connection) -> Report:
    system = SYSTEMS[cell.system]

    async def ready() -> None:
        pipe.send(READY)
        if not await asyncio.to_thread(pipe.poll, START_TIMEOUT) or pipe.recv() != GO:
            raise TimeoutError("no signal to start")
        # Garbage from the set-up must not be part of the measurement.
        gc.collect()
        gc.freeze()

    async def produce() -> ProducerReport:
        source = RecordSource(cell, shared, ready)
        await system.produce(port, source)
        return source.report()

    async def consume() -> ConsumerReport:
        sink = RecordSink(cell, shared, ready)
        await system.consume(port, sink)
        return sink.report()

    async def loop() -> LoopReport:
        async with system.senders(port, cell.loops) as senders:
            await prime(cell, senders)
            await ready()
            return await run_loops(cell, senders, shared)

    # uvloop, if installed, for every system's client.
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        if role == "loop":
            return runner.run(loop())
        return runner.run(produce()) if role == "producer" else runner.run(consume())
