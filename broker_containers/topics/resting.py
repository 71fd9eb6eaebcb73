"""Background work that leaves the broker at least as much time as it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sulina.runtime.seam import Clock


async def work_and_rest(
    clock: Clock, work: Callable[[], Awaitable[None]], least_seconds: Callable[[], float]
) -> None:
    """Repeat ``work`` until cancelled; rest as long as it took, and at least ``least_seconds``."""
    while True:
        began = clock.now()
        await work()
        await clock.sleep(max(clock.now() - began, least_seconds()))
