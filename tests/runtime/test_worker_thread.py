"""Work in one thread: in order, with errors and cancelled callers."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from sulina.runtime.threads import WorkerThread


async def test_work_runs_in_order_and_not_on_the_event_loop() -> None:
    worker = WorkerThread("test")
    done: list[int] = []
    await asyncio.gather(*(worker.run(partial(done.append, n)) for n in range(20)))
    assert done == list(range(20))
    assert await worker.run(threading.get_ident) != threading.get_ident()
    worker.stop()


async def test_an_error_reaches_its_caller_and_the_next_work_runs() -> None:
    worker = WorkerThread("test")
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 // 0)
    assert await worker.run(lambda: 7) == 7
    worker.stop()


async def test_work_of_a_cancelled_caller_is_done_and_stopping_waits_for_it() -> None:
    worker = WorkerThread("test")
    goes_on, done = threading.Event(), threading.Event()

    def work() -> None:
        goes_on.wait()
        done.set()

    caller = asyncio.create_task(worker.run(work))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    goes_on.set()
    worker.stop()
    assert done.is_set()
