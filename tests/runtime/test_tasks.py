"""Background work that fails is seen, and continues."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sulina.runtime.tasks import keep_running


class QuickClock:
    """Sleeps for one turn of the event loop, and counts the seconds."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now(self) -> float:
        return self.slept

    def wall_us(self) -> int:
        return int(self.slept * 1e6)

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        await asyncio.sleep(0)


async def test_work_that_fails_is_reported_and_starts_again_after_a_pause() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    clock, lives = QuickClock(), 0

    async def work() -> None:
        nonlocal lives
        lives += 1
        if lives < 3:
            raise KeyError("a fault")

    await keep_running("compaction", work, clock)
    assert (lives, clock.slept) == (3, 20.0)
    assert [str(each["exception"]) for each in told] == ["'a fault'"] * 2
    assert told[0]["message"].startswith("compaction failed unexpectedly; starting it again")


async def test_work_that_is_cancelled_ends() -> None:
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(keep_running("retention", work, QuickClock()))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
