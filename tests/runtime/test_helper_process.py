"""Calls in a child process: answers, errors, its death, and its end with the parent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

from sulina.errors import NotFound, Unavailable
from sulina.runtime.helper_process import HelperProcess
from sulina.runtime.real_clock import RealClock

MODULE = "tests.runtime.answering"


async def gone(pid: int) -> None:
    """Wait until a process has ended."""
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(0.01)


async def there(path: Path) -> None:
    while not path.exists():
        await asyncio.sleep(0.01)


@asynccontextmanager
async def helper(idle_seconds: float = 60) -> AsyncIterator[HelperProcess]:
    process = HelperProcess(MODULE, "the setup", RealClock(), idle_seconds=idle_seconds)
    try:
        yield process
    finally:
        await process.close()


async def test_calls_are_answered_by_one_child_of_low_priority() -> None:
    async with helper() as process:
        answers = await asyncio.gather(*(process.call(("echo", n)) for n in range(3)))
        assert answers == [("the setup", n) for n in range(3)]
        child = process.pid
        assert child is not None and await process.call(("pid", None)) == child
        assert psutil.Process(child).nice() > psutil.Process().nice()
    assert not psutil.pid_exists(child)


async def test_an_error_reaches_the_caller_and_printing_disturbs_nothing() -> None:
    async with helper() as process:
        with pytest.raises(NotFound, match="no such thing"):
            await process.call(("refuse", "no such thing"))
        assert await process.call(("print", "noise")) == "printed"


async def test_a_child_that_dies_is_an_error_and_the_next_call_starts_another() -> None:
    async with helper() as process:
        with pytest.raises(Unavailable, match="ended with code 3"):
            await process.call(("exit", 3))
        await process.call(("echo", 1))
        child = process.pid
        assert child is not None
        os.kill(child, signal.SIGKILL)
        await gone(child)
        with suppress(Unavailable):  # its end may not have been noticed yet
            await process.call(("pid", None))
        assert await process.call(("pid", None)) != child


async def test_a_killed_child_is_an_error_with_the_probable_cause() -> None:
    async with helper() as process:
        with pytest.raises(Unavailable, match=r"signal 9 .* memory"):
            await process.call(("kill", signal.SIGKILL))


async def test_a_cancelled_call_stops_the_work(tmp_path: Path) -> None:
    async with helper() as process:
        child = await process.call(("pid", None))
        call = asyncio.create_task(process.call(("wait", str(tmp_path / "begun"))))
        await there(tmp_path / "begun")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert process.pid is None and not psutil.pid_exists(child)


async def test_an_idle_child_ends() -> None:
    async with helper(idle_seconds=0) as process:
        child = await process.call(("pid", None))
        await gone(child)
        assert process.pid is None
        assert await process.call(("pid", None)) != child


async def test_a_child_ends_with_its_parent_however_that_ends(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    program = f"from tests.runtime.answering import parent; parent({str(begun)!r})"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        await there(begun)
        parent.kill()
    await gone(child)
